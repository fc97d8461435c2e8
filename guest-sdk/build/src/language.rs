//! What a policy is written in, as its folder tells by the manifest that the language's authors expect.

use std::path::{Path, PathBuf};

use crate::guest::BuildError;

/// A language that policies are built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A crate: `Cargo.toml`.
    Rust,
    /// A project: `pyproject.toml`.
    Python,
    /// A package: `package.json`.
    JavaScript,
    /// Sources: `policy.toml`.
    C,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rust, Self::Python, Self::JavaScript, Self::C];

    /// The file that a policy's folder has at its top.
    #[must_use]
    pub fn manifest(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Python => "pyproject.toml",
            Self::JavaScript => "package.json",
            Self::C => "policy.toml",
        }
    }

    /// Its name, as people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::C => "C",
        }
    }

    /// The language of a folder. A crate is one whatever else it holds, since crates often have manifests of other tools beside their own.
    pub fn of(folder: &Path) -> Result<Self, BuildError> {
        let holds = |language: &Self| folder.join(language.manifest()).is_file();
        let found: Vec<Self> = Self::ALL.into_iter().filter(holds).collect();
        match found.as_slice() {
            [Self::Rust, ..] => Ok(Self::Rust),
            [one] => Ok(*one),
            [] => Err(BuildError::NoManifest { crate_dir: folder.into() }),
            [one, other, ..] => Err(BuildError::TwoManifests {
                folder: folder.into(),
                manifests: [one.manifest(), other.manifest()],
            }),
        }
    }

    /// The manifest's path in a folder.
    pub(crate) fn manifest_in(self, folder: &Path) -> PathBuf {
        folder.join(self.manifest())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_tells_its_language_by_its_manifest() {
        for language in Language::ALL {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(language.manifest_in(folder.path()), "").unwrap();
            assert_eq!(Language::of(folder.path()).unwrap(), language);
            std::fs::write(folder.path().join("Cargo.toml"), "").unwrap();
            assert_eq!(Language::of(folder.path()).unwrap(), Language::Rust);
        }
    }

    #[test]
    fn none_and_two_manifests_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let none = Language::of(folder.path()).unwrap_err().to_string();
        for language in Language::ALL {
            assert!(none.contains(language.manifest()), "{none}");
        }
        for name in ["package.json", "pyproject.toml"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let two = Language::of(folder.path()).unwrap_err().to_string();
        assert!(two.contains("pyproject.toml and package.json"), "{two}");
    }
}
