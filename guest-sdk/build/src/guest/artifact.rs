//! Finding what cargo made, in its own words, and what it was made from.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::BuildError;
use super::manifest::Package;

/// The one kind of cargo's messages that matters here; the others lack its fields.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// The module of a package, from cargo's messages.
pub(super) fn module_of(package: &Package, messages: &str) -> Result<PathBuf, BuildError> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let of_package = parsed.filter(|message| {
        message.reason == "compiler-artifact" && message.package_id.as_deref() == Some(&package.id)
    });
    let mut files = of_package.flat_map(|message| message.filenames);
    let module = files.find(|file| file.extension().is_some_and(|extension| extension == "wasm"));
    module.ok_or_else(|| BuildError::NoModule { package: package.name.clone() })
}

/// The source files that cargo's dependency file beside the module lists, and the package's manifest.
pub(super) fn inputs(package: &Package, module: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(module.with_extension("d")).unwrap_or_default();
    let mut inputs = parse_dependencies(&text);
    inputs.push(package.manifest_path.clone());
    inputs.sort();
    inputs.dedup();
    inputs
}

/// Makefile syntax: `OUTPUT: INPUT INPUT`, spaces in names escaped.
fn parse_dependencies(text: &str) -> Vec<PathBuf> {
    let mut inputs = Vec::new();
    for line in text.lines() {
        let Some((_, names)) = line.split_once(": ") else {
            continue;
        };
        let mut name = String::new();
        let mut characters = names.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => name.extend(characters.next()),
                ' ' => inputs.push(std::mem::take(&mut name)),
                other => name.push(other),
            }
        }
        inputs.push(name);
    }
    inputs.into_iter().filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn package() -> Package {
        serde_json::from_str(r#"{"id": "path+file:///w/a#policy@0.1.0", "name": "policy", "manifest_path": "/w/a/Cargo.toml", "targets": []}"#).unwrap()
    }

    #[test]
    fn the_module_is_the_packages_own_and_not_a_dependencys() {
        let messages = r#"
            {"reason":"build-script-executed","package_id":"x"}
            {"reason":"compiler-artifact","package_id":"registry+x#other@1.0.0","filenames":["/t/other.wasm"]}
            {"reason":"compiler-artifact","package_id":"path+file:///w/a#policy@0.1.0","filenames":["/t/libpolicy.rlib","/t/policy.wasm"]}
            a line that is no message
            {"reason":"build-finished","success":true}"#;
        assert_eq!(module_of(&package(), messages).unwrap(), PathBuf::from("/t/policy.wasm"));
        assert!(matches!(module_of(&package(), ""), Err(BuildError::NoModule { .. })));
    }

    #[test]
    fn dependency_files_are_read_with_spaces_in_names() {
        let inputs = parse_dependencies(
            "/t/policy.wasm: /w/a/src/lib.rs /w/my\\ wit/policy.wit\n\n/w/a/src/lib.rs:\n",
        );
        assert_eq!(
            inputs,
            [PathBuf::from("/w/a/src/lib.rs"), PathBuf::from("/w/my wit/policy.wit")]
        );
        assert!(parse_dependencies("").is_empty());
    }
}
