//! The folder: which version serves after whatever is done to a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pointsman_core::policy::{Digest, PolicyProvider};
use pointsman_wasm::{
    ComponentPolicy, EngineConfig, FolderOptions, FolderState, PolicyEngine, PolicyFolder,
    TypeChange, TypeStatus,
};
use tempfile::TempDir;

use crate::guests::{guest, slow, slow_by, varied};
use crate::rig::{Case, engine, environment, eventually};

/// A folder in which a file that doesn't load is believed at once.
fn folder() -> (TempDir, PolicyFolder) {
    let dir = tempfile::tempdir().unwrap();
    let options = FolderOptions {
        rescan: Duration::from_millis(200),
        debounce: Duration::from_millis(5),
        settle: Duration::ZERO,
        ..FolderOptions::default()
    };
    let folder = PolicyFolder::open(engine(), dir.path(), options);
    (dir, folder)
}

/// A policy that picks this row, whatever the costs: versions that tell each other apart.
fn picks(row: u32) -> Vec<u8> {
    varied(&format!(
        ";;; pick\n(func $pick (result i32) (call $ok-row (i32.const {row})))\n;;; end\n"
    ))
}

/// Which row the serving version picks out of three.
fn picked(folder: &PolicyFolder, policy_type: &str) -> usize {
    let policy = folder.policy(policy_type).unwrap();
    let mut instance = policy.instantiate(&environment()).unwrap();
    Case::new(&[1.0, 1.0, 1.0]).pick(&mut *instance).unwrap()
}

fn status(folder: &PolicyFolder, policy_type: &str) -> TypeStatus {
    folder.status().into_iter().find(|status| status.policy_type == policy_type).unwrap()
}

fn names(state: &FolderState) -> Vec<&'static str> {
    let name = |change: &TypeChange| match change {
        TypeChange::Added { .. } => "added",
        TypeChange::Replaced { .. } => "replaced",
        TypeChange::Removed { .. } => "removed",
        TypeChange::Refused { .. } => "refused",
    };
    state.changes.iter().map(name).collect()
}

#[test]
fn the_last_written_version_that_loads_serves() {
    let (dir, folder) = folder();
    let file = dir.path().join("p.wasm");
    fs::write(&file, picks(0)).unwrap();
    assert_eq!(names(&folder.rescan()), ["added"]);
    assert_eq!(folder.providers().len(), 1);
    assert_eq!(picked(&folder, "p"), 0);

    assert_eq!(names(&folder.rescan()), Vec::<&str>::new(), "nothing has changed");

    fs::write(&file, picks(1)).unwrap();
    let state = folder.rescan();
    assert_eq!(names(&state), ["replaced"]);
    assert!(state.serves_otherwise());
    assert_eq!(picked(&folder, "p"), 1);

    fs::write(&file, "nonsense").unwrap();
    let state = folder.rescan();
    assert_eq!(names(&state), ["refused"]);
    assert!(!state.serves_otherwise());
    assert_eq!(picked(&folder, "p"), 1, "the last good version goes on");
    let shown = status(&folder, "p");
    assert!(shown.error.unwrap().contains("is not WebAssembly"));
    assert_ne!(shown.wanted, shown.active);
    assert_eq!(names(&folder.rescan()), Vec::<&str>::new(), "told once");

    fs::write(&file, picks(1)).unwrap();
    assert_eq!(names(&folder.rescan()), Vec::<&str>::new(), "it serves already");
    assert_eq!(status(&folder, "p").error, None);
}

#[test]
fn only_another_digest_is_compiled() {
    let (dir, folder) = folder();
    let file = dir.path().join("p.wasm");
    fs::write(&file, picks(0)).unwrap();
    let _ = folder.rescan();
    let before = status(&folder, "p");
    // The same bytes in another file.
    fs::write(dir.path().join("next"), picks(0)).unwrap();
    fs::rename(dir.path().join("next"), &file).unwrap();
    assert_eq!(names(&folder.rescan()), Vec::<&str>::new());
    assert_eq!(status(&folder, "p"), before);
}

#[test]
fn a_file_that_is_gone_serves_no_new_instance() {
    let (dir, folder) = folder();
    let file = dir.path().join("p.wasm");
    fs::write(&file, picks(2)).unwrap();
    let _ = folder.rescan();
    let policy = folder.policy("p").unwrap();
    let mut instance = policy.instantiate(&environment()).unwrap();
    drop(policy);
    fs::remove_file(&file).unwrap();
    assert_eq!(names(&folder.rescan()), ["removed"]);
    assert!(folder.providers().is_empty());
    assert_eq!(Case::new(&[1.0; 3]).pick(&mut *instance).unwrap(), 2, "what is in use goes on");
    fs::write(&file, picks(2)).unwrap();
    assert_eq!(names(&folder.rescan()), ["added"]);
}

#[cfg(unix)]
#[test]
fn a_link_that_flips_is_a_new_version() {
    use std::os::unix::fs::symlink;
    let (dir, folder) = folder();
    // As config maps are mounted: p.wasm -> ..data/p.wasm, ..data -> ..1
    let version = |name: &str, row| {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("p.wasm"), picks(row)).unwrap();
    };
    let flip = |to: &str| {
        symlink(to, dir.path().join("..tmp")).unwrap();
        fs::rename(dir.path().join("..tmp"), dir.path().join("..data")).unwrap();
    };
    version("..1", 1);
    version("..2", 2);
    flip("..1");
    symlink("..data/p.wasm", dir.path().join("p.wasm")).unwrap();
    assert_eq!(names(&folder.rescan()), ["added"]);
    assert_eq!(picked(&folder, "p"), 1);
    flip("..2");
    assert_eq!(names(&folder.rescan()), ["replaced"]);
    assert_eq!(picked(&folder, "p"), 2);
    fs::remove_dir_all(dir.path().join("..2")).unwrap();
    assert_eq!(names(&folder.rescan()), ["removed"], "a link to nowhere is as good as gone");
}

#[test]
fn files_that_can_not_be_types_are_shown_with_a_reason() {
    let (dir, folder) = folder();
    let write = |name: &str| fs::write(dir.path().join(name), picks(0)).unwrap();
    write("ok-1_2.3.wasm");
    write("has space.wasm");
    write("round-robin.wasm");
    write(".hidden.wasm");
    write("other.txt");
    fs::create_dir(dir.path().join("folder.wasm")).unwrap();
    let state = folder.rescan();
    let types: Vec<&str> = state.types.iter().map(|shown| shown.policy_type.as_str()).collect();
    assert_eq!(types, ["has space", "ok-1_2.3", "round-robin"]);
    assert_eq!(folder.providers().len(), 1);
    assert!(status(&folder, "has space").error.unwrap().contains("rename the file"));
    assert!(status(&folder, "round-robin").error.unwrap().contains("built-in policy"));
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_not_the_end() {
    let (dir, folder) = folder();
    fs::write(dir.path().join("p.wasm"), picks(0)).unwrap();
    let _ = folder.rescan();
    let hidden = dir.path().with_extension("away");
    fs::rename(dir.path(), &hidden).unwrap();
    let state = folder.rescan();
    assert!(state.error.unwrap().contains("can't be read"));
    assert_eq!(folder.providers().len(), 1, "what served goes on");
    fs::rename(&hidden, dir.path()).unwrap();
    assert_eq!(folder.rescan().error, None);
}

#[test]
fn half_a_file_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let options = FolderOptions { settle: Duration::from_secs(60), ..FolderOptions::default() };
    let folder = PolicyFolder::open(engine(), dir.path(), options);
    let file = dir.path().join("p.wasm");
    let whole = picks(1);
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let writer = std::thread::spawn(move || fs::write(file, whole).unwrap());
    let state = folder.rescan();
    writer.join().unwrap();
    assert_eq!(names(&state), ["added"], "and never refused");
}

fn digest_of(bytes: &[u8]) -> Digest {
    let policy = ComponentPolicy::load(engine(), "x", Path::new("x.wasm"), bytes).unwrap();
    policy.content_digest().clone()
}

/// Writes beside the file and renames into place, as deployments do.
fn swap(file: &Path, bytes: &[u8]) {
    let next = file.with_extension("next");
    fs::write(&next, bytes).unwrap();
    fs::rename(&next, file).unwrap();
}

#[test]
fn the_watch_takes_up_what_is_written_and_ends_when_told() {
    let (dir, folder) = folder();
    let file: PathBuf = dir.path().join("p.wasm");
    let told = Arc::new(AtomicUsize::new(0));
    let telling = told.clone();
    let guard = folder
        .watch(move |state| {
            telling.fetch_add(state.changes.len(), Ordering::Relaxed);
        })
        .unwrap();
    for round in 0..6 {
        let bytes = picks(round % 3);
        let wanted = digest_of(&bytes);
        if round % 2 == 0 {
            swap(&file, &bytes);
        } else {
            fs::write(&file, &bytes).unwrap();
        }
        eventually("the version that was written", || {
            let policy = folder.policy("p")?;
            (*policy.content_digest() == wanted).then_some(())
        });
    }
    drop(guard);
    // Every version was told of: the callback comes before the thread ends.
    assert!(told.load(Ordering::Relaxed) >= 5);
    swap(&file, &guest("template"));
    let before = folder.status();
    assert_eq!(folder.status(), before, "nobody is watching");
}

/// A folder of its own engine, whose compilations may take so long.
fn folder_within(compile_timeout: Duration) -> (TempDir, PolicyFolder) {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig { pooled_instances: 0, compile_timeout, ..EngineConfig::default() };
    let engine = PolicyEngine::new(config).unwrap();
    let options = FolderOptions { settle: Duration::ZERO, ..FolderOptions::default() };
    let folder = PolicyFolder::open(&engine, dir.path(), options);
    (dir, folder)
}

#[test]
fn a_slow_component_keeps_no_other_waiting() {
    let (dir, folder) = folder_within(Duration::from_secs(60));
    fs::write(dir.path().join("a-slow.wasm"), slow()).unwrap();
    fs::write(dir.path().join("quick.wasm"), picks(0)).unwrap();
    let guard = folder.watch(|_| {}).unwrap();
    eventually("the first version", || folder.policy("quick"));
    for row in [1, 2, 0] {
        swap(&dir.path().join("quick.wasm"), &picks(row));
        eventually("the next version", || (picked(&folder, "quick") == row as usize).then_some(()));
    }
    let shown = status(&folder, "a-slow");
    assert!(shown.compiling.is_some() && shown.active.is_none(), "{shown:?}");
    assert!(folder.is_busy());
    // Neither the end of the watch nor anything else waits for it.
    drop(guard);
    assert!(status(&folder, "a-slow").compiling.is_some());
    let state = folder.rescan();
    assert!(status(&folder, "a-slow").active.is_some(), "{state:?}");
    assert!(!folder.is_busy());
}

#[test]
fn what_takes_too_long_to_compile_is_refused_and_another_version_is_taken_up() {
    let (dir, folder) = folder_within(Duration::from_secs(1));
    let file = dir.path().join("p.wasm");
    fs::write(&file, picks(1)).unwrap();
    let _ = folder.rescan();
    // However quick the machine is.
    swap(&file, &slow_by(400));
    assert_eq!(names(&folder.rescan()), ["refused"]);
    let shown = status(&folder, "p");
    let error = shown.error.unwrap();
    assert!(error.contains("p.wasm: compiling took longer than 1s"), "{error}");
    assert!(error.contains("raise the limit"), "{error}");
    assert_eq!(picked(&folder, "p"), 1, "the last good version goes on");
    assert_eq!(names(&folder.rescan()), Vec::<&str>::new(), "told once, and not tried again");
    swap(&file, &picks(2));
    assert_eq!(names(&folder.rescan()), ["replaced"]);
    assert_eq!(picked(&folder, "p"), 2);
    assert_eq!(status(&folder, "p").error, None);
}

#[test]
fn a_version_that_is_overtaken_while_it_compiles_serves_only_if_the_newer_does_not_load() {
    let (dir, folder) = folder_within(Duration::from_secs(60));
    let file = dir.path().join("p.wasm");
    swap(&file, slow());
    let _ = folder.look();
    swap(&file, &picks(2));
    let _ = folder.rescan();
    assert_eq!(picked(&folder, "p"), 2, "the newer doesn't wait for the older");
    let digest = status(&folder, "p").active;

    let other = dir.path().join("q.wasm");
    swap(&other, slow());
    let _ = folder.look();
    swap(&other, b"nonsense");
    let state = folder.rescan();
    assert_eq!(names(&state), ["refused", "added"]);
    let shown = status(&folder, "q");
    assert!(shown.error.unwrap().contains("is not WebAssembly"), "the file's own state is shown");
    assert!(shown.active.is_some() && shown.active != shown.wanted);
    assert_eq!(status(&folder, "p").active, digest, "what was overtaken doesn't come back");
}

#[test]
fn a_version_that_was_overtaken_before_the_next_look_never_serves() {
    for _ in 0..5 {
        let (dir, folder) = folder();
        let file = dir.path().join("p.wasm");
        swap(&file, &picks(1));
        let _ = folder.look();
        // It may compile before the next look, or not: this takes longer, most of the time.
        let newer = picks(2);
        let _ = digest_of(&newer);
        swap(&file, &newer);
        assert_eq!(names(&folder.rescan()), ["added"]);
        assert_eq!(picked(&folder, "p"), 2);
    }
}

#[test]
fn of_twenty_quick_rewrites_the_last_serves() {
    let (dir, folder) = folder();
    let file = dir.path().join("p.wasm");
    let guard = folder.watch(|_| {}).unwrap();
    for row in 0..20 {
        swap(&file, &picks(row));
        let _ = folder.look();
    }
    let last = digest_of(&picks(19));
    eventually("the last version", || {
        (status(&folder, "p").active == Some(last.clone())).then_some(())
    });
    eventually("nothing is on its way", || (!folder.is_busy()).then_some(()));
    drop(guard);
    let _ = folder.rescan();
    assert_eq!(status(&folder, "p").active, Some(last), "no older one takes over later");
}

#[cfg(unix)]
#[test]
fn a_fifo_is_refused_without_being_opened() {
    let (dir, folder) = folder();
    let made = |name: &str| {
        let status = std::process::Command::new("mkfifo").arg(dir.path().join(name)).status();
        assert!(status.unwrap().success());
    };
    made("pipe.wasm");
    std::os::unix::fs::symlink("pipe.wasm", dir.path().join("link.wasm")).unwrap();
    fs::write(dir.path().join("p.wasm"), picks(1)).unwrap();
    assert_eq!(names(&folder.rescan()), ["refused", "refused", "added"]);
    for name in ["pipe", "link"] {
        let error = status(&folder, name).error.unwrap();
        assert!(error.contains(&format!("{name}.wasm: is no regular file")), "{error}");
    }
    // A version that serves goes on when a FIFO takes its file's place.
    fs::remove_file(dir.path().join("p.wasm")).unwrap();
    made("p.wasm");
    assert_eq!(names(&folder.rescan()), ["refused"]);
    assert_eq!(picked(&folder, "p"), 1);
}
