//! The guests that are written as text, as components.
//!
//! A module of two test binaries, the wasm crate's and the one that crosses crates, so that the
//! latter's need of a server doesn't become the former's; and of a bench.

use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    // Beside this file, seen from any of the crates.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seen = ["guests", "../tests/guests", "../../tests/guests"].map(|folder| here.join(folder));
    let found = seen.into_iter().find(|folder| folder.join("template.wat").is_file());
    found.expect("the folder of guests is there")
}

fn read(name: &str) -> String {
    let path = folder().join(format!("{name}.wat"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The parts of a text, as (name, lines).
fn parts(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut parts: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line.trim_start().strip_prefix(";;; ") {
            Some("end") => inside = false,
            Some(name) => {
                parts.push((name, Vec::new()));
                inside = true;
            }
            None if inside => parts.last_mut().expect("a part has begun").1.push(line),
            None => {}
        }
    }
    parts
}

/// The template with the parts of `variation` in their places.
pub(crate) fn fill(template: &str, variation: &str) -> String {
    let parts = parts(variation);
    let mut used = 0;
    let mut out = String::new();
    let mut skipping = false;
    for line in template.lines() {
        let marker = line.trim_start().strip_prefix(";;; ");
        if marker == Some("end") {
            skipping = false;
        }
        if !skipping {
            out.push_str(line);
            out.push('\n');
        }
        if let Some((_, lines)) = parts.iter().find(|(name, _)| Some(*name) == marker) {
            used += 1;
            skipping = true;
            lines.iter().for_each(|line| {
                out.push_str(line);
                out.push('\n');
            });
        }
    }
    assert_eq!(used, parts.len(), "every part has its place in the template");
    out
}

/// A guest by its file's stem; `template` is the whole, well-behaved policy, and `classifier` the
/// whole, well-behaved request classifier.
pub(crate) fn guest(name: &str) -> Vec<u8> {
    let text = match name {
        "template" | "classifier" | "core-module" | "older-contract" => read(name),
        name if is_classifier(name) => fill(&read("classifier"), &read(name)),
        name => fill(&read("template"), &read(name)),
    };
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Whether a guest is a request classifier, and no policy.
pub(crate) fn is_classifier(name: &str) -> bool {
    name.starts_with("classifier")
}

/// The template with parts given as text.
pub(crate) fn varied(parts: &str) -> Vec<u8> {
    let text = fill(&read("template"), parts);
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// A guest that takes seconds to compile: much code, and all of it legal.
pub(crate) fn slow() -> &'static [u8] {
    static SLOW: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    SLOW.get_or_init(|| slow_by(40))
}

/// The same with so many functions, of some tens of milliseconds each.
pub(crate) fn slow_by(functions: usize) -> Vec<u8> {
    let step = "(local.set 1 (i32.add (i32.mul (local.get 0) (local.get 1)) \
        (i32.load (i32.and (local.get 1) (i32.const 65532)))))";
    let function = format!("(func (param i32 i32) {})\n", step.repeat(2_000));
    varied(&format!(";;; start\n{};;; end\n", function.repeat(functions)))
}

/// All guests but the template.
pub(crate) fn all() -> Vec<String> {
    let files = std::fs::read_dir(folder()).expect("the folder of guests is there");
    let names = files.filter_map(|file| {
        let name = file.expect("a folder can be read").file_name();
        Some(name.to_str()?.strip_suffix(".wat")?.to_owned())
    });
    let mut names: Vec<String> = names.filter(|name| name != "template").collect();
    names.sort();
    names
}
