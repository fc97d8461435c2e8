//! What a policy's manifest says where it isn't a crate's: its name, its source, what it exports.
//!
//! The three forms have the same facts under the names that their authors expect:
//!
//! | | `pyproject.toml` | `package.json` | `policy.toml` |
//! |---|---|---|---|
//! | name | `project.name` | `name` | `name` |
//! | source | `tool.pointsman.module` (`policy`) | `main` (`policy.js`) | `sources` (`["policy.c"]`) |
//! | exports | `tool.pointsman.exports` | `pointsman.exports` | `exports` |
//! | bindings | `tool.pointsman.bindings` | | `bindings` |

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::contract;
use crate::guest::BuildError;
use crate::language::Language;

/// A policy that is no crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Project {
    /// Its folder, as an absolute path.
    pub(crate) folder: PathBuf,
    /// What it is written in; never Rust.
    pub(crate) language: Language,
    /// Its name, which is the file's stem and the YAML's `type`.
    pub(crate) name: String,
    /// Files, relative to the folder; of Python the module's name.
    pub(crate) sources: Vec<String>,
    /// The contract's interfaces that it exports.
    pub(crate) exports: Vec<String>,
    /// Where in the folder the generated bindings are kept for the author's editor, if the manifest wants them.
    pub(crate) bindings: Option<String>,
}

/// What is Pointsman's in a manifest. An unknown key is a slip of the pen.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    exports: Option<Vec<String>>,
    module: Option<String>,
    bindings: Option<String>,
}

#[derive(Debug, Deserialize)]
struct PyProject {
    project: Named,
    #[serde(default)]
    tool: Tool,
}

#[derive(Debug, Default, Deserialize)]
struct Tool {
    #[serde(default)]
    pointsman: Own,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize)]
struct NodePackage {
    name: String,
    main: Option<String>,
    #[serde(default)]
    pointsman: Own,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CProject {
    name: String,
    sources: Option<Vec<String>>,
    exports: Option<Vec<String>>,
    bindings: Option<String>,
}

impl Project {
    /// Reads the manifest in a folder.
    pub(crate) fn read(folder: &Path, language: Language) -> Result<Self, BuildError> {
        let folder = std::path::absolute(folder).map_err(BuildError::io("find", folder))?;
        let manifest = language.manifest_in(&folder);
        let text = std::fs::read_to_string(&manifest).map_err(BuildError::io("read", &manifest))?;
        let wrong = |what: String| BuildError::Project { manifest: manifest.clone(), what };
        let (name, sources, own) = match language {
            Language::Python => {
                let read: PyProject = toml(&text).map_err(wrong)?;
                let mut own = read.tool.pointsman;
                let module = own.module.take().unwrap_or_else(|| "policy".to_owned());
                (read.project.name, vec![module], own)
            }
            Language::JavaScript => {
                let read: NodePackage =
                    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
                (
                    read.name,
                    vec![read.main.unwrap_or_else(|| "policy.js".to_owned())],
                    read.pointsman,
                )
            }
            Language::C | Language::Rust => {
                let read: CProject = toml(&text).map_err(wrong)?;
                let own = Own { exports: read.exports, module: None, bindings: read.bindings };
                (read.name, read.sources.unwrap_or_else(|| vec!["policy.c".to_owned()]), own)
            }
        };
        let usual = contract::usual(language).iter().map(|&name| name.to_owned());
        let exports = own.exports.unwrap_or_else(|| usual.collect());
        let project = Self { folder, language, name, sources, exports, bindings: own.bindings };
        project.check().map_err(wrong)?;
        Ok(project)
    }

    fn check(&self) -> Result<(), String> {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let name = &self.name;
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_plain) {
            return Err(format!(
                "the name {name:?} can't be a component's: give letters, digits, `-`, `_` and `.` (no scope)"
            ));
        }
        if let Some(unknown) =
            self.exports.iter().find(|name| !contract::INTERFACES.contains(&name.as_str()))
        {
            let known = contract::INTERFACES.join(", ");
            return Err(format!("no interface {unknown:?} can be exported: give some of {known}"));
        }
        if self.exports.is_empty() || self.sources.is_empty() {
            return Err("there is nothing to build: name a source and an export".to_owned());
        }
        let leaves = |path: &String| {
            Path::new(path).is_absolute() || path.split('/').any(|part| part == "..")
        };
        if let Some(outside) = self.sources.iter().chain(&self.bindings).find(|path| leaves(path)) {
            return Err(format!("{outside:?} is outside of the folder: name a path in it"));
        }
        Ok(())
    }
}

fn toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn read(language: Language, text: &str) -> Result<Project, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(language.manifest_in(folder.path()), text).unwrap();
        Project::read(folder.path(), language).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_is_enough() {
        let python = read(Language::Python, "[project]\nname = \"a\"\n").unwrap();
        assert_eq!((python.name.as_str(), python.sources), ("a", vec!["policy".to_owned()]));
        let js = read(Language::JavaScript, r#"{"name": "b", "version": "1.0.0"}"#).unwrap();
        assert_eq!(js.sources, ["policy.js"]);
        let c = read(Language::C, "name = \"c\"").unwrap();
        assert_eq!(
            (c.sources, c.exports),
            (vec!["policy.c".to_owned()], vec!["worker-selection".to_owned(), "about".to_owned()])
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_the_file_and_what_may_stand_there() {
        let told = |language, text: &str| read(language, text).unwrap_err();
        let unknown = told(Language::C, "name = \"c\"\nexports = [\"scorer\"]");
        assert!(
            unknown.contains("policy.toml") && unknown.contains("worker-selection"),
            "{unknown}"
        );
        let slip =
            told(Language::Python, "[project]\nname = \"a\"\n[tool.pointsman]\nexport = []\n");
        assert!(slip.contains("export") && slip.contains("line 4"), "{slip}");
        let scoped = told(Language::JavaScript, r#"{"name": "@a/b"}"#);
        assert!(scoped.contains("no scope"), "{scoped}");
        let outside = told(Language::C, "name = \"c\"\nsources = [\"../x.c\"]");
        assert!(outside.contains("outside of the folder"), "{outside}");
        assert!(told(Language::JavaScript, "{").contains("package.json"));
    }
}
