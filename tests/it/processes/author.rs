//! An author's loop over the router's own program, as its documents tell it: a first crate, its tests, a
//! router that decides by it, and builds that follow what is changed.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use pointsman::load_client::Ask;
use pointsman_tests::guests;
use pointsman_tests::rig::MODEL;
use serde_json::{Value, json};

use super::ANY_PORT;
use super::fleet::{Engine, Router, workers};
use super::program::Program;

/// A command of the router's program.
fn command(words: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman-in-tests"));
    command.args(words).current_dir(folder);
    for name in ["RUST_LOG", "POINTSMAN_SDK", "POINTSMAN_CONFIG", "POINTSMAN_LOG_FORMAT"] {
        command.env_remove(name);
    }
    command
}

/// Runs one to its end.
fn run(words: &[&str], folder: &Path) -> Result<Output> {
    command(words, folder).output().with_context(|| format!("running {words:?}"))
}

/// What a command says that is to end well.
fn said(words: &[&str], folder: &Path) -> Result<String> {
    let Output { status, stdout, stderr } = run(words, folder)?;
    let (out, err) = (String::from_utf8(stdout)?, String::from_utf8_lossy(&stderr).into_owned());
    ensure!(status.success(), "{words:?} ended with {status}\n{out}{err}");
    Ok(out)
}

/// What a command says that is to end with code 1: standard output, then the error.
fn refused(words: &[&str], folder: &Path) -> Result<(String, String)> {
    let Output { status, stdout, stderr } = run(words, folder)?;
    ensure!(status.code() == Some(1), "{words:?} ended with {status}");
    Ok((String::from_utf8(stdout)?, String::from_utf8(stderr)?))
}

/// A folder for this test alone, the same in every run, so that cargo builds what has changed.
fn workshop(name: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("author").join(name);
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_a_first_crate_to_a_router_that_decides_by_it() -> Result<()> {
    let folder = workshop("loop")?;
    let made = said(&["policy", "new", "my-first"], &folder)?;
    assert!(made.contains("my-first/src/lib.rs\n") && made.contains("pointsman policy test"));
    let built = said(&["policy", "build", "my-first", "--out", "policies", "--offline"], &folder)?;
    assert!(built.starts_with("policies/my-first.wasm  "), "{built}");

    let crate_dir = folder.join("my-first");
    let tested = said(&["policy", "test", "--offline"], &crate_dir)?;
    assert!(tested.ends_with("5 cases, all met\n"), "{tested}");
    let component = folder.join("policies/my-first.wasm");
    let file = component.to_str().context("the folder's path is not UTF-8")?;
    let checked: Value =
        serde_json::from_str(&said(&["policy", "check", file, "--json"], &crate_dir)?)?;
    assert_eq!((&checked["ok"], &checked["type"]), (&json!(true), &json!("my-first")));
    assert!(built.trim_end().ends_with(checked["digest"].as_str().context("a digest")?));
    let table = said(&["policy", "check", file], &crate_dir)?;
    assert!(table.ends_with("nothing is wrong\n"), "{table}");
    let bench: Value =
        serde_json::from_str(&said(&["policy", "bench", file, "--json"], &crate_dir)?)?;
    let rows: Vec<_> =
        bench["rows"].as_array().into_iter().flatten().map(|it| &it["rows"]).collect();
    assert_eq!(rows, [64, 1_024, 4_096]);
    let page = 64 << 10;
    let memory = bench["rows"][2]["policy"]["memory_bytes"].as_u64();
    assert!(memory.is_some_and(|bytes| bytes >= page && bytes % page == 0), "{bench}");
    assert_eq!(bench["rows"][2]["default"]["memory_bytes"], Value::Null);
    assert_eq!(bench["requests"], json!([]));
    let table = said(&["policy", "bench", file], &crate_dir)?;
    assert!(table.contains("built-in default") && table.contains(" 4,096  "), "{table}");

    let admission = guests::session_admission().to_str().context("its path is not UTF-8")?;
    let given = r#"{"most_in_flight": 100}"#;
    let bench: Value = serde_json::from_str(&said(
        &["policy", "bench", admission, "--parameters", given, "--json"],
        &crate_dir,
    )?)?;
    assert_eq!(bench["rows"], json!([]));
    let tolls = bench["requests"].as_array().context("its calls are told")?;
    let requests: Vec<_> = tolls.iter().map(|it| &it["requests"]).collect();
    assert_eq!(requests, [64, 1_024, 4_096]);
    for toll in tolls {
        let is_there = |name: &str| toll[name].as_f64().is_some_and(|value| value > 0.0);
        assert!(["us", "fuel", "memory_bytes"].into_iter().all(is_there), "{toll}");
    }
    let table = said(&["policy", "bench", admission, "--parameters", given], &crate_dir)?;
    assert!(table.contains("us a call") && !table.contains("built-in"), "{table}");

    let engine = Engine::start("first", ANY_PORT, &[]).await?;
    let selection = "worker_selection:
  aggregated: mine
  instances: [{ name: mine, type: my-first }]
";
    let yaml = selection.to_owned() + &workers(std::slice::from_ref(&engine), |_, _| String::new());
    let router = Router::start(&yaml, &[("my-first.wasm", &component)]).await?;
    let answer = router.public.ask(&Ask::new(MODEL, "whose policy is this?")).await?;
    assert!(answer.is_good(), "{} {}", answer.status, answer.text());
    let digest = checked["digest"].as_str().context("a digest")?;
    assert_eq!(answer.policy(), format!("mine@{}", &digest[..12]));
    router.stop().await?;
    engine.stop().await?;

    follow_changes(&folder).await
}

/// Builds again whenever a source changes, also after one that doesn't build.
async fn follow_changes(folder: &Path) -> Result<()> {
    let (source, out) = (folder.join("my-first/src/lib.rs"), folder.join("policies"));
    let path = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
    let (watched, to) = (path(&folder.join("my-first"))?, path(&out)?);
    let words = ["policy", "build", &watched, "--out", &to, "--offline", "--watch"];
    let mut program = Program::start(words)?;
    let watching = |line: &str| line.contains("watching ").then_some(());
    let first = built_and_watches(&mut program, "a first build").await?;

    let text = std::fs::read_to_string(&source)?;
    std::fs::write(&source, text.replace("    8.0\n", "    9.0\n"))?;
    let second = built_and_watches(&mut program, "a second build").await?;
    assert_ne!(first, second);

    let component = std::fs::read(out.join("my-first.wasm"))?;
    std::fs::write(&source, "this is no Rust")?;
    program.says("what is wrong", |line| line.contains("did not build").then_some(())).await?;
    program.says("that it watches", watching).await?;
    assert_eq!(std::fs::read(out.join("my-first.wasm"))?, component, "it is left as it is");

    std::fs::write(&source, &text)?;
    assert_eq!(program.says("a third build", built).await?, first);
    program.kill().await
}

/// The digest of a component that was built.
fn built(line: &str) -> Option<String> {
    let (_, digest) = line.split_once(".wasm  ")?.1.split_once("sha256 ")?;
    Some(digest.trim().to_owned())
}

/// A build's digest, once it has also said that it watches: in either order, since these are two streams.
async fn built_and_watches(program: &mut Program, what: &str) -> Result<String> {
    let (digest, watches) = (RefCell::new(None), Cell::new(false));
    let both = |line: &str| {
        if let Some(found) = built(line) {
            digest.replace(Some(found));
        }
        watches.set(watches.get() || line.contains("watching "));
        if watches.get() { digest.take() } else { None }
    };
    program.says(&format!("{what}, and that it watches"), both).await
}

#[test]
fn what_cant_be_done_is_told_with_what_to_do_and_code_1() -> Result<()> {
    let folder = workshop("refusals")?;
    std::fs::create_dir(folder.join("there"))?;
    let nowhere = tempfile::tempdir()?;
    let least_busy = guests::least_busy().to_str().context("its path is not UTF-8")?;
    for (words, wanted) in [
        (&["policy", "new", "there"][..], "there exists already; take another name"),
        (&["policy", "new", "My Policy"], "did you mean \"my-policy\"?"),
        (&["policy", "new", "p", "--sdk", "there"], "there is not the SDK's folder"),
        (&["policy", "test", "nowhere"], "name a component, or the folder of a crate"),
        (&["policy", "test", "there"], "Cargo.toml"),
        (&["policy", "test", least_busy], "name a file with --cases"),
        (&["policy", "test", least_busy, "--cases", "no.yaml"], "no.yaml: "),
        (&["policy", "check", "nowhere.wasm"], "can't read nowhere.wasm"),
    ] {
        let (out, err) = refused(words, &folder)?;
        assert!(err.contains(wanted) && out.is_empty(), "{words:?}: {out}{err}");
    }
    assert!(!folder.join("p").exists());

    // Something is wrong with the component: the table says what, and the code is 1.
    let (table, err) = refused(&["policy", "check", least_busy], nowhere.path())?;
    assert!(table.contains("WRONG  ") && table.ends_with("things are wrong\n"), "{table}{err}");
    let given = r#"{"min_device_overlap_blocks": 0}"#;
    said(&["policy", "check", least_busy, "--parameters", given], nowhere.path())?;
    let low = ["policy", "check", least_busy, "--parameters", given, "--fuel", "100000", "--json"];
    let (document, _) = refused(&low, nowhere.path())?;
    let document: Value = serde_json::from_str(&document)?;
    assert_eq!((&document["ok"], &document["fuel"][2]["limit"]), (&json!(false), &json!(100_000)));
    Ok(())
}

#[test]
fn cases_that_arent_met_are_told_blessed_and_then_met() -> Result<()> {
    let folder = workshop("blessed")?;
    let text = "parameters: { min_device_overlap_blocks: 0 }\ncases:\n  - name: a\n    \
                fleet: [{ worker: 1, active-requests: 3 }, { worker: 2 }]   # two\n    expect: { pick: 1 }\n";
    std::fs::write(folder.join("cases.yaml"), text)?;
    let least_busy = guests::least_busy().to_str().context("its path is not UTF-8")?;
    let words = ["policy", "test", least_busy, "--cases", "cases.yaml"];
    let (told, _) = refused(&words, &folder)?;
    let wanted = "FAIL  a\n      cases.yaml:5: it picked 2, expected 1 (stage by stage)\n      - 1\n      + 2\n";
    assert!(told.starts_with(wanted) && told.contains("--bless"), "{told}");
    assert_eq!(std::fs::read_to_string(folder.join("cases.yaml"))?, text);

    let told = said(&[&words[..], &["--bless"]].concat(), &folder)?;
    assert!(told.contains("cases.yaml: 1 value is now what came"), "{told}");
    let blessed = text.replace("pick: 1", "pick: 2");
    assert_eq!(std::fs::read_to_string(folder.join("cases.yaml"))?, blessed);
    assert!(said(&words, &folder)?.ends_with("1 case, all met\n"));
    Ok(())
}

#[test]
fn what_one_command_has_compiled_the_next_one_finds() -> Result<()> {
    let cache = tempfile::tempdir()?;
    let least_busy = guests::least_busy().to_str().context("its path is not UTF-8")?;
    let look = || -> Result<Vec<PathBuf>> {
        let given = r#"{"min_device_overlap_blocks": 0}"#;
        let words = ["policy", "check", least_busy, "--parameters", given];
        let mut check = command(&words, cache.path());
        let Output { status, stderr, .. } =
            check.env("POINTSMAN_CACHE_DIR", cache.path().join("kept")).output()?;
        ensure!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        let mut files = Vec::new();
        let mut folders = vec![cache.path().join("kept/compiled")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        // Beside each there may be one with figures of its use.
        files.retain(|file| file.extension().is_none());
        Ok(files)
    };
    let kept = look()?;
    ensure!(!kept.is_empty(), "nothing was kept");
    // Compiled once more, it would be written once more.
    let written = std::fs::metadata(&kept[0])?.modified()?;
    assert_eq!(look()?, kept);
    assert_eq!(std::fs::metadata(&kept[0])?.modified()?, written);
    Ok(())
}
