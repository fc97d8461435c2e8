//! One target directory for all crates that are workspaces of their own, so that what every policy depends on is compiled once and not once a
//! policy.
//!
//! Owns whose turn it is there, and what must not be mistaken: cargo tells packages of one name apart by their place in their workspace, which
//! is the same for each of these, and by time stamps, which say nothing of another folder's files. So what was made of a package by that name in
//! another folder is forgotten first.

use std::io;
use std::path::{Path, PathBuf};

use super::BuildError;
use crate::cache;
use crate::component::digest;
use crate::lock;
use crate::progress::Progress;
use crate::toolchain::Target;

/// The directory, under the folder of all target directories.
const FOLDER: &str = "alone";
/// Where the folders of packages are noted, by their names.
const OWNERS: &str = "owners";

/// The shared target directory.
pub(super) struct Alone {
    folder: PathBuf,
}

impl Alone {
    /// In the folder of all target directories.
    pub(super) fn under(targets: &Path) -> Self {
        Self { folder: targets.join(FOLDER) }
    }

    /// Cargo's target directory.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Builds the package of a workspace while nobody else builds here.
    pub(super) fn in_turn<T>(
        &self,
        package: &str,
        root: &Path,
        progress: &dyn Progress,
        work: impl FnOnce() -> Result<T, BuildError>,
    ) -> Result<T, BuildError> {
        cache::private_folder(&self.folder)?;
        let path = self.folder.join("turn");
        let built = lock::hold(&path, progress, || {
            self.own(package, root)?;
            work()
        });
        built.map_err(BuildError::io("lock", &path))?
    }

    /// Notes that a package is this folder's from now on.
    fn own(&self, package: &str, root: &Path) -> Result<(), BuildError> {
        let owners = self.folder.join(OWNERS);
        std::fs::create_dir_all(&owners).map_err(BuildError::io("make", &owners))?;
        let owner = owners.join(package);
        let root = digest(root.as_os_str().as_encoded_bytes());
        if std::fs::read_to_string(&owner).is_ok_and(|known| known == root) {
            return Ok(());
        }
        self.forget(package).map_err(BuildError::io("clear", &self.folder))?;
        std::fs::write(&owner, root).map_err(BuildError::io("write", &owner))
    }

    /// Forgets what was made of a package, so that cargo makes it again. Build scripts are the host's.
    fn forget(&self, package: &str) -> io::Result<()> {
        let targets = Target::ALL.iter().map(|target| self.folder.join(target.triple()));
        for folder in targets.chain([self.folder.clone()]) {
            let known = folder.join("release/.fingerprint");
            for entry in std::fs::read_dir(known).into_iter().flatten().flatten() {
                if is_of(&entry.file_name().to_string_lossy(), package) {
                    std::fs::remove_dir_all(entry.path())?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a fingerprint's name, `PACKAGE-HASH`, is a package's.
fn is_of(name: &str, package: &str) -> bool {
    let hash = name.strip_prefix(package).and_then(|rest| rest.strip_prefix('-'));
    hash.is_some_and(|hash| !hash.is_empty() && hash.bytes().all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::progress::Quiet;

    #[test]
    fn what_another_folders_package_of_that_name_left_is_forgotten() {
        let cache = tempfile::tempdir().unwrap();
        let alone = Alone::under(cache.path());
        let made = |name: &str| {
            let folder = alone.folder().join("wasm32-unknown-unknown/release/.fingerprint");
            std::fs::create_dir_all(folder.join(name)).unwrap();
            folder.join(name)
        };
        let turn = |root: &str, found: &[&Path]| -> Vec<bool> {
            let work = || Ok(found.iter().map(|path| path.exists()).collect());
            alone.in_turn("policy", root.as_ref(), &Quiet, work).unwrap()
        };
        let (own, other, dependency) =
            (made("policy-0f3a"), made("policy-two-0f3a"), made("serde-12ab"));
        let all = [&*own, &*other, &*dependency];
        assert_eq!(turn("/a", &all), [false, true, true], "nobody knows whose it was");
        made("policy-0f3a");
        assert_eq!(turn("/a", &all), [true, true, true], "it is its own");
        assert_eq!(turn("/b", &all), [false, true, true]);
        made("policy-0f3a");
        assert_eq!(turn("/a", &all), [false, true, true], "back again is another one, too");
    }

    #[test]
    fn names_that_begin_alike_are_told_apart() {
        assert!(is_of("my-policy-0f3a5c", "my-policy"));
        for name in ["my-policy", "my-policy-", "my-policy-two-0f3a", "my-0f3a", "other-0f3a"] {
            assert!(!is_of(name, "my-policy"), "{name}");
        }
    }
}
