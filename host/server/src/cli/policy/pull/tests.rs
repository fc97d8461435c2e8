//! What a pull writes, and what it leaves alone.

#![expect(clippy::unwrap_used, reason = "a test's panic is its message")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use clap::Parser;
use insta::assert_snapshot;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;
use crate::registry::testing::{Registry, of_layers, sha256};

/// A public key that nobody here can sign with.
const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    pull: Pull,
}

/// A registry with a folder to pull into.
struct Fixture {
    registry: Registry,
    folder: TempDir,
    _runtime: Runtime,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let registry = runtime.block_on(Registry::start());
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("policies")).unwrap();
        Self { registry, folder, _runtime: runtime }
    }

    fn path(&self, rest: &str) -> PathBuf {
        self.folder.path().join(rest)
    }

    fn line(&self, tag: &str, more: &[&str]) -> Pull {
        let (reference, into) = (self.registry.reference(tag), self.path("policies"));
        let line = ["pull", &reference, "--plain-http", "--into", into.to_str().unwrap()];
        Line::try_parse_from(line.iter().chain(more)).unwrap().pull
    }

    fn pull(&self, tag: &str, more: &[&str]) -> Result<ExitCode> {
        self.line(tag, more).run()
    }

    /// Why a pull fails, which leaves everything as it was.
    fn refused(&self, tag: &str, more: &[&str]) -> String {
        let before = self.files();
        let error = self.pull(tag, more).unwrap_err();
        assert_eq!(self.files(), before);
        let text = format!("{error:#}").replace(self.registry.address(), "REGISTRY");
        text.replace(self.folder.path().to_str().unwrap(), "FOLDER")
    }

    /// What is in the folder: names, contents, modes.
    fn files(&self) -> Vec<(String, Vec<u8>, u32)> {
        let entries = fs::read_dir(self.path("policies")).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                (name, fs::read(&path).unwrap_or_default(), mode)
            })
            .collect();
        files.sort();
        files
    }

    fn config(&self, trust: &str) -> String {
        let path = self.path("pointsman.yaml");
        fs::write(&path, format!("wasm: {trust}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// A component that looks like a policy from outside; `extra` makes it another.
fn component(extra: &str) -> Vec<u8> {
    wat::parse_str(format!(
        "(component (component $c) (instance $i (instantiate $c)) {extra}
           (export \"pointsman:policy/worker-selection@0.1.0\" (instance $i)))"
    ))
    .unwrap()
}

fn digits(bytes: &[u8]) -> String {
    sha256(bytes).trim_start_matches("sha256:").to_owned()
}

#[test]
fn a_component_is_put_into_the_folder_under_its_name() {
    let fixture = Fixture::new();
    fs::set_permissions(fixture.path("policies"), fs::Permissions::from_mode(0o700)).unwrap();
    let (first, second) = (component(""), component("(core module)"));
    fixture.registry.component("1", &first);
    fixture.registry.component("2", &second);
    assert_eq!(fixture.pull(":1", &[]).unwrap(), ExitCode::SUCCESS);
    assert_eq!(fixture.files(), [("least-busy.wasm".to_owned(), first.clone(), 0o600)]);
    // Others may read it as they may read what it replaces, and its neighbours.
    let file = fixture.path("policies/least-busy.wasm");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
    fixture.pull(":2", &["--sha256", &sha256(&second)]).unwrap();
    assert_eq!(fixture.files(), [("least-busy.wasm".to_owned(), second.clone(), 0o644)]);
    fixture.pull(":1", &["--name", "busy"]).unwrap();
    assert_eq!(fixture.files()[0], ("busy.wasm".to_owned(), first, 0o644));
}

#[test]
fn what_is_told_has_the_pin_that_the_yaml_takes() {
    let fixture = Fixture::new();
    let bytes = component("");
    let manifest = fixture.registry.component("1", &bytes);
    let artifact = Artifact {
        component: bytes.clone(),
        digest: digits(&bytes),
        manifest: manifest.trim_start_matches("sha256:").to_owned(),
        signature: Some(Vec::new()),
    };
    let line = fixture.line(":1", &[]);
    let told = line.told("least-busy", Path::new("policies/least-busy.wasm"), &artifact);
    let pin = told.lines().last().unwrap().trim_start_matches("pin").trim();
    let config = Config::from_yaml("pinned.yaml", pin, Path::new("")).unwrap();
    config.wasm.trust.admit("least-busy", Path::new("x"), &bytes, None).unwrap();
    assert!(config.wasm.trust.admit("least-busy", Path::new("x"), b"other", None).is_err());
    let told = told.replace(fixture.registry.address(), "REGISTRY");
    let told = told.replace(&artifact.digest, "DIGEST").replace(&artifact.manifest, "MANIFEST");
    assert_snapshot!(told);
}

#[test]
fn what_may_not_serve_is_not_written() {
    let fixture = Fixture::new();
    let good = component("");
    fixture.registry.component("good", &good);
    fixture.registry.component("text", b"(component)");
    fixture.registry.component("module", &wat::parse_str("(module)").unwrap());
    fixture.registry.component("other", &wat::parse_str("(component)").unwrap());
    let sockets = "(import \"acme:net/sockets@1.0.0\" (instance))";
    fixture.registry.component("sockets", &component(sockets));
    let pinned = fixture
        .config(&format!("{{ trust: {{ pins: {{ least-busy: 'sha256:{}' }} }} }}", "0".repeat(64)));
    let mut told: Vec<_> = ["text", "module", "other", "sockets", "missing"]
        .map(|tag| fixture.refused(&format!(":{tag}"), &[]))
        .into();
    told.push(fixture.refused(":good", &["--sha256", &"1".repeat(64)]));
    told.push(fixture.refused(":good", &["--trust", &pinned]));
    // The pin is of one type only.
    assert!(fixture.pull(":good", &["--trust", &pinned, "--name", "free"]).is_ok());
    let small = fixture.config("{ max_component_size: 1KiB }");
    let large = component(&format!("(core module (func (export \"{}\")))", "x".repeat(2_000)));
    fixture.registry.component("large", &large);
    told.push(fixture.refused(":large", &["--trust", &small]));
    let broken = fixture.config("{ max_component_size: much }");
    told.push(fixture.refused(":good", &["--trust", &broken]));
    told.push(fixture.refused(":good", &["--name", "round-robin"]));
    told.push(fixture.refused(":good", &["--name", "../up"]));
    fs::create_dir(fixture.path("policies/folder.wasm")).unwrap();
    told.push(fixture.refused(":good", &["--name", "folder"]));
    let told = told.join("\n").replace(&digits(&good), "DIGEST");
    assert_snapshot!(told);
}

#[test]
fn where_keys_are_set_what_is_not_signed_is_not_written_and_a_signature_is_put_beside() {
    let fixture = Fixture::new();
    let bytes = component("");
    fixture.registry.component("bare", &bytes);
    let layer = fixture.registry.blob("application/wasm", &bytes);
    let mut signature = fixture.registry.blob("text/plain", b"no signature of minisign's");
    signature["annotations"] = json!({ "org.opencontainers.image.title": "x.wasm.minisig" });
    fixture.registry.manifest("signed", &of_layers(&[layer, signature]));
    let keys = fixture.config(&format!("{{ trust: {{ keys: [{KEY}] }} }}"));
    let told = [":bare", ":signed"].map(|tag| fixture.refused(tag, &["--trust", &keys]));
    assert_snapshot!(told.join("\n"));
    // Whether it fits is for the router to say, if nobody asks here.
    fixture.pull(":signed", &[]).unwrap();
    let names: Vec<_> = fixture.files().into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["least-busy.wasm", "least-busy.wasm.minisig"]);
}

#[test]
fn a_folder_that_is_not_there_is_told_before_anything_is_asked() {
    let fixture = Fixture::new();
    fs::remove_dir(fixture.path("policies")).unwrap();
    let error = fixture.pull(":1", &[]).unwrap_err();
    assert!(format!("{error:#}").contains("make it first"), "{error:#}");
    fs::write(fixture.path("policies"), "").unwrap();
    let error = fixture.pull(":1", &[]).unwrap_err();
    assert!(format!("{error:#}").contains("is no folder"), "{error:#}");
    assert_eq!(fixture.registry.seen(), []);
}

/// A component that can't be put there leaves the signature that was there, or none.
#[test]
fn what_fails_half_way_is_taken_back() {
    let fixture = Fixture::new();
    let (folder, file) = (fixture.path("policies"), fixture.path("policies/a.wasm"));
    fs::create_dir_all(file.join("within")).unwrap();
    let before = fixture.files();
    let error = place::place(&folder, &file, b"new", Some(b"signature")).unwrap_err();
    assert!(error.to_string().starts_with("can't rename it to "), "{error}");
    assert_eq!(fixture.files(), before);
    fs::write(fixture.path("policies/a.wasm.minisig"), "old").unwrap();
    place::place(&folder, &file, b"new", Some(b"signature")).unwrap_err();
    assert_eq!(fs::read(fixture.path("policies/a.wasm.minisig")).unwrap(), b"old");
    assert_eq!(fixture.files().len(), 2);
    fs::remove_dir_all(&file).unwrap();
    place::place(&folder, &file, b"new", Some(b"signature")).unwrap();
    assert_eq!(fs::read(fixture.path("policies/a.wasm.minisig")).unwrap(), b"signature");
}

#[test]
fn the_command_line_is_held_to_what_goes_together() {
    let parse = |more: &[&str]| {
        let line = ["pull", "r.example/a:1", "--into", "p"];
        Line::try_parse_from(line.iter().chain(more)).map_err(|error| error.to_string())
    };
    assert!(parse(&[]).is_ok());
    for bad in [
        &["--username", "a"][..],
        &["--password-file", "a"],
        &["--username", "a", "--password-file", "b", "--auth-file", "c"],
        &["--sha256", "00"],
        &["--timeout", "5"],
        &["--timeout", "2h"],
    ] {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
}
