//! What the core must not know, read from its own sources.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is read") {
        let path = entry.expect("the entry is read").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn all() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() > 20, "the sources were not found");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("the file is read");
        (path, text)
    };
    found.into_iter().map(read).collect()
}

#[test]
fn every_file_opens_with_what_it_owns() {
    for (path, text) in all() {
        assert!(text.starts_with("//! "), "{} has no module page", path.display());
    }
}

#[test]
fn the_core_does_no_io_and_knows_no_runtime() {
    let foreign = [
        "tokio",
        "std::net",
        "std::fs",
        "std::process",
        "std::env",
        "wasmtime",
        "serde_yaml",
        "hyper",
        "axum",
        "SystemTime",
        "thread::sleep",
        "async fn",
    ];
    for (path, text) in all() {
        for (at, line) in text.lines().enumerate() {
            // Prose may name what the code must not use.
            let code = line.split("//").next().unwrap_or_default();
            for word in foreign {
                assert!(!code.contains(word), "{}:{}: {word}", path.display(), at + 1);
            }
        }
    }
}

#[test]
fn only_the_stopwatch_reads_a_clock() {
    for (path, text) in all() {
        let reads = text.contains("Instant::now");
        assert!(!reads || path.ends_with("clock.rs"), "{} reads a clock", path.display());
    }
}

#[test]
fn modules_are_not_mod_files_and_stay_readable() {
    for (path, text) in all() {
        assert!(!path.ends_with("mod.rs"), "{}", path.display());
        let tests = path.ends_with("tests.rs") || path.ends_with("testing.rs");
        let lines = text.lines().count();
        assert!(
            tests || lines <= 400,
            "{} has {lines} lines: look for the second noun",
            path.display()
        );
    }
}
