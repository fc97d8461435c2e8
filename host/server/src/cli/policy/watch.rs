//! Whether sources have changed, for `pointsman policy build --watch`.
//!
//! Looks at their time stamps and sizes time and again: that works on any file system, and a policy has few
//! files. What is built of them is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Folders without sources.
const LEFT_OUT: [&str; 4] = ["target", "node_modules", "__pycache__", "venv"];
/// The most files that are looked at: a folder with more isn't a policy's.
const MOST_FILES: usize = 10_000;

/// When each file was changed, and how long it is.
pub(super) type Stamp = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// The files that a policy is made from.
#[derive(Debug)]
pub(super) struct Sources {
    folders: Vec<PathBuf>,
    /// Those elsewhere: in path dependencies.
    further: BTreeSet<PathBuf>,
}

impl Sources {
    /// All that is in these folders.
    pub(super) fn of(folders: &[PathBuf]) -> Self {
        Self { folders: folders.to_vec(), further: BTreeSet::new() }
    }

    /// What they were made from at last.
    pub(super) fn learn(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        self.further.extend(files);
    }

    /// How they stand now.
    pub(super) fn stamp(&self) -> Stamp {
        let mut stamp = Stamp::new();
        for folder in &self.folders {
            walk(folder, &mut stamp);
        }
        self.further.iter().for_each(|file| look(file, &mut stamp));
        stamp
    }
}

/// How sources stood before a build. What only came with it, written by it or known from it, counts as it is since.
pub(super) fn settled(before: &Stamp, since: Stamp) -> Stamp {
    let known = |(file, is)| {
        let was = before.get(&file).copied().unwrap_or(is);
        (file, was)
    };
    since.into_iter().map(known).collect()
}

fn walk(folder: &Path, stamp: &mut Stamp) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if name.starts_with('.') || stamp.len() >= MOST_FILES {
            continue;
        }
        if is_folder {
            if !LEFT_OUT.contains(&&*name) {
                walk(&path, stamp);
            }
        } else if name != "Cargo.lock" && !name.ends_with(".wasm") {
            // A build writes these itself.
            look(&path, stamp);
        }
    }
}

fn look(file: &Path, stamp: &mut Stamp) {
    if let Ok(found) = std::fs::metadata(file) {
        stamp.insert(file.to_owned(), (found.modified().ok(), found.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_changes_comes_or_goes_is_seen_and_what_a_build_writes_is_not()
    -> anyhow::Result<()> {
        let (folder, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("src"))?;
        std::fs::create_dir_all(at("target/release"))?;
        std::fs::write(at("src/lib.rs"), "one")?;
        let mut sources = Sources::of(&[folder.path().to_owned()]);
        let mut before = sources.stamp();
        assert_eq!(before.len(), 1);
        for name in ["target/release/x", ".hidden", "Cargo.lock", "policy.wasm"] {
            std::fs::write(at(name), "built")?;
            assert!(before == sources.stamp(), "{name}");
        }
        let mut changes = |what: &str, sources: &Sources| {
            let now = sources.stamp();
            assert!(before != now, "{what}");
            before = now;
        };
        std::fs::write(at("src/lib.rs"), "another")?;
        changes("its length is another one", &sources);
        std::fs::write(at("src/more.rs"), "")?;
        changes("one came", &sources);
        std::fs::remove_file(at("src/more.rs"))?;
        changes("one went", &sources);
        let further = elsewhere.path().join("dependency.rs");
        std::fs::write(&further, "")?;
        sources.learn([further.clone()]);
        changes("one is looked at from now on", &sources);
        std::fs::write(&further, "more")?;
        changes("one elsewhere", &sources);
        Ok(())
    }
}
