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

/// The names in backticks that look like `module::a_test_named_by_its_promise`.
fn named_tests(page: &str) -> Vec<&str> {
    let quoted = page.split('`').skip(1).step_by(2);
    let named = quoted.filter_map(|word| Some(word.split_once("::")?.1));
    named.filter(|name| name.matches('_').count() > 2).collect()
}

#[test]
fn the_tests_that_keep_the_invariants_exist() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../ARCHITECTURE.md")).expect("the page is read");
    let mut files = all();
    let mut beside = Vec::new();
    sources(&here.join("tests"), &mut beside);
    files.extend(beside.into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("the file is read");
        (path, text)
    }));
    let named = named_tests(&page);
    assert!(named.len() > 20, "the page names its tests in another way: {named:?}");
    for name in named {
        let head = format!("fn {name}(");
        assert!(files.iter().any(|(_, text)| text.contains(&head)), "no test is named {name}");
    }
}

/// The tables are of all three crates of the host.
#[test]
fn the_page_tells_of_every_module() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(host.join("ARCHITECTURE.md")).expect("the page is read");
    let tables = page.split("## The way of a request").next().expect("it has a beginning");
    let mut seen = 0;
    for name in ["core", "wasm", "server"] {
        for entry in fs::read_dir(host.join(name).join("src")).expect("the folder is read") {
            let path = entry.expect("the entry is read").path();
            let module = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
            if !["lib", "main"].contains(&module) {
                assert!(
                    tables.contains(&format!("`{module}`")),
                    "{name} has {module}, and no row of ARCHITECTURE.md"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 60, "{seen} modules: the sources were not found");
}
