//! Which policy the tour is about: its source, its lines for the router's YAML, and what it needs of the stage.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The policy that is shown unless another one is named.
const USUAL: &str = "least-busy";
/// The one that takes its place then: it takes the same parameters.
const USUAL_REPLACEMENT: &str = "least-prefill";

/// A crate of the library.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The crate's name, which is the component's type.
    pub(super) name: String,
    /// The crate whose component takes its place; none if it is the same one, marked.
    pub(super) replacement: Option<&'static str>,
    /// The crate's lines for the router's YAML.
    pub(super) yaml: String,
    /// The folder of all crates.
    pub(super) sources: PathBuf,
}

impl Choice {
    /// The crate of that name; the usual one if it is none.
    pub(super) fn of(name: Option<&str>) -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
        let sources = folder.canonicalize().with_context(|| {
            format!(
                "the demo builds its policies from source, and {} isn't there; run it in the source tree: cargo run --release -- demo",
                folder.display()
            )
        })?;
        let chosen = name.unwrap_or(USUAL);
        let known = names(&sources)?;
        if !known.iter().any(|it| it == chosen) {
            bail!(
                "there is no policy {chosen:?} in {}; known: {}",
                sources.display(),
                known.join(", ")
            );
        }
        let file = sources.join(chosen).join("policy.yaml");
        let yaml = std::fs::read_to_string(&file)
            .with_context(|| format!("reading {}", file.display()))?;
        let replacement = name.is_none().then_some(USUAL_REPLACEMENT);
        Ok(Self { name: chosen.to_owned(), replacement, yaml, sources })
    }

    /// Whether it admits requests, and decides nothing.
    pub(super) fn is_classifier(&self) -> bool {
        self.has("request_classifier:")
    }

    /// Whether it is for prefill and decode workers.
    pub(super) fn is_for_halves(&self) -> bool {
        self.has("  prefill:")
    }

    fn has(&self, key: &str) -> bool {
        self.yaml.lines().any(|line| line.starts_with(key))
    }

    /// The folders to build.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let names = std::iter::once(&*self.name).chain(self.replacement);
        names.map(|name| self.sources.join(name)).collect()
    }
}

/// The crates that there are.
fn names(sources: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(sources).context("listing the policies")? {
        let path = entry.context("listing the policies")?.path();
        if path.join("policy.yaml").is_file() {
            names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn every_crate_of_the_library_can_be_chosen() {
        let usual = Choice::of(None).unwrap();
        assert_eq!((&*usual.name, usual.replacement), ("least-busy", Some("least-prefill")));
        let names = names(&usual.sources).unwrap();
        assert!(names.len() >= 20, "{names:?}");
        for name in &names {
            let choice = Choice::of(Some(name)).unwrap();
            assert!(choice.yaml.contains(&format!("type: {name}\n")), "{name}");
            assert_eq!(
                choice.is_classifier(),
                ["pause-resume", "session-admission"].contains(&&**name)
            );
            assert_eq!(choice.is_for_halves(), name == "disagg-roles");
            assert_eq!(choice.folders(), [choice.sources.join(name)]);
        }
        let error = Choice::of(Some("least-bussy")).unwrap_err().to_string();
        assert!(
            error.contains("known: avoid-failing, ") && error.contains(", least-busy, "),
            "{error}"
        );
    }
}
