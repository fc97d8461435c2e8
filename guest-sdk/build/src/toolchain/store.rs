//! The cache of finished sysroots: one lock, one pointer to the ready one, work done beside it and renamed at the end.
//!
//! ```text
//! guest-toolchain/
//!   lock              held while one process works; the system lets go of it when that process dies
//!   current-1         the name of the ready sysroot; replaced in one step
//!   VERSION-1/        a sysroot, whole if its marker `ready` is there
//!   work-XXXX/        under construction; what a killed run left is removed by the next
//! ```
//!
//! The number is the layout's, so that two releases which lay things out differently leave each other's alone.

use std::io;
use std::path::{Path, PathBuf};

use super::{Target, ToolchainError, probe};
use crate::lock;
use crate::progress::Progress;
use crate::write::write_atomically;

/// Raised whenever what [`Store::make`] keeps would be of no use to the release before.
const LAYOUT: u32 = 1;
/// In a sysroot: it was finished. Written before the rename, so it can't be there without the rest.
const MARKER: &str = "ready";
const WORK: &str = "work-";

/// The folder that sysroots are kept in.
#[derive(Clone, Debug)]
pub(super) struct Store {
    folder: PathBuf,
}

/// A finished sysroot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) folder: PathBuf,
    pub(super) version: String,
}

impl Ready {
    /// The compiler to call.
    pub(super) fn rustc(&self) -> PathBuf {
        rustc_in(&self.folder)
    }
}

/// Where a sysroot's compiler is.
pub(super) fn rustc_in(root: &Path) -> PathBuf {
    root.join("bin/rustc")
}

/// Where a sysroot's libraries for the guest target are.
pub(super) fn target_libs_in(root: &Path) -> PathBuf {
    root.join("usr/lib/rustlib").join(Target::UnknownUnknown.triple()).join("lib")
}

impl Store {
    pub(super) fn new(cache_dir: &Path) -> Self {
        Self { folder: cache_dir.join("guest-toolchain") }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The sysroot to use, if one is finished. Reads files only, and needs no lock.
    pub(super) fn ready(&self) -> Option<Ready> {
        let name = std::fs::read_to_string(self.pointer()).ok()?;
        // The pointer names a folder beside it; anything else wasn't written by us.
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        let folder = is_plain.then(|| self.folder.join(&name))?;
        let version = std::fs::read_to_string(folder.join(MARKER)).ok()?;
        let is_whole = rustc_in(&folder).is_file() && probe::has_core(&target_libs_in(&folder));
        is_whole.then_some(Ready { folder, version })
    }

    /// Runs `work` while no other thread or process does so in this folder, waiting for them first.
    pub(super) fn locked<T>(
        &self,
        progress: &dyn Progress,
        work: impl FnOnce() -> Result<T, ToolchainError>,
    ) -> Result<T, ToolchainError> {
        let path = self.folder.join("lock");
        lock::hold(&path, progress, work).map_err(ToolchainError::io("lock", &path))?
    }

    /// Makes a sysroot: `build` fills the folder it is given with `root/` and names the version; what it leaves beside `root/` goes away.
    /// To be called under the lock.
    pub(super) fn make(
        &self,
        build: impl FnOnce(&Path) -> Result<String, ToolchainError>,
    ) -> Result<Ready, ToolchainError> {
        self.remove_leftovers();
        let work = tempfile::Builder::new()
            .prefix(WORK)
            .tempdir_in(&self.folder)
            .map_err(ToolchainError::io("make a work folder in", &self.folder))?;
        let version = build(work.path())?;

        let root = work.path().join("root");
        let marker = root.join(MARKER);
        std::fs::write(&marker, &version).map_err(ToolchainError::io("write", &marker))?;
        let name = format!("{}-{LAYOUT}", plain(&version));
        let ready = Ready { folder: self.folder.join(&name), version };
        // One of this version is there only if it wasn't whole, or the pointer to it was lost.
        match std::fs::remove_dir_all(&ready.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ToolchainError::io("remove the broken", &ready.folder)(error));
            }
            _ => {}
        }
        std::fs::rename(&root, &ready.folder)
            .map_err(ToolchainError::io("move the finished sysroot to", &ready.folder))?;
        write_atomically(&self.pointer(), name.as_bytes())
            .map_err(ToolchainError::io("write", self.pointer()))?;
        Ok(ready)
    }

    fn pointer(&self) -> PathBuf {
        self.folder.join(format!("current-{LAYOUT}"))
    }

    /// Removes what killed runs left. A child of theirs may still be writing there; the run after this one gets the rest.
    fn remove_leftovers(&self) {
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(WORK))
                && let Err(error) = std::fs::remove_dir_all(entry.path())
            {
                tracing::debug!(path = ?entry.path(), %error, "a leftover of a killed set-up stays for now");
            }
        }
    }
}

/// A version as part of a folder's name: Debian's epochs and tildes are no trouble, but slashes would be.
fn plain(version: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '~');
    let name: String = version.chars().map(|c| if kept(c) { c } else { '_' }).collect();
    format!("rustc-web-{name}")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests;
