//! The private cache folder: which one it is, and that it is ours alone.
//!
//! Compilers are run from it, so nobody else may write to it: it is made with mode 0700, and a folder that belongs to another user is refused.

use std::io;
use std::path::{Path, PathBuf};

/// The variable that names the cache folder.
const CACHE_DIR: &str = "POINTSMAN_CACHE_DIR";

/// Why there is no cache folder to work in.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// None of the variables that could name it is set.
    #[error("no cache folder: set {CACHE_DIR}, XDG_CACHE_HOME or HOME to an absolute path")]
    NoHome,
    /// A relative path would mean another folder for every caller.
    #[error("{CACHE_DIR} is {path:?}, which is relative: set it to an absolute path")]
    Relative {
        /// What the variable says.
        path: PathBuf,
    },
    /// The folder could not be made or read.
    #[error(
        "the cache folder {path:?} is not usable ({source}): free space or permissions there, or set {CACHE_DIR} to another folder"
    )]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another user owns it, and could put a compiler of theirs there.
    #[error(
        "the cache folder {path:?} belongs to user {owner}, not to you: set {CACHE_DIR} to a folder of your own"
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
    },
}

/// The folder that the variables name. It need not exist yet.
pub(crate) fn choose(path: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, CacheError> {
    if let Some(chosen) = path(CACHE_DIR) {
        return if chosen.is_absolute() {
            Ok(chosen)
        } else {
            Err(CacheError::Relative { path: chosen })
        };
    }
    // The XDG specification says that a relative path there is to be ignored.
    if let Some(xdg) = path("XDG_CACHE_HOME").filter(|xdg| xdg.is_absolute()) {
        return Ok(xdg.join("pointsman"));
    }
    let home = path("HOME").filter(|home| home.is_absolute()).ok_or(CacheError::NoHome)?;
    Ok(home.join(".cache/pointsman"))
}

/// Makes the folder, and its parents, if absent; takes it away from everybody else.
pub(crate) fn private_folder(path: &Path) -> Result<(), CacheError> {
    let unusable = |source| CacheError::Unusable { path: path.into(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(unusable)?;
    }
    make_private(path)
}

#[cfg(unix)]
fn make_private(path: &Path) -> Result<(), CacheError> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

    let unusable = |source| CacheError::Unusable { path: path.into(), source };
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(unusable(error)),
        _ => {}
    }
    let found = std::fs::metadata(path).map_err(unusable)?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(CacheError::NotOurs { path: path.into(), owner: found.uid() });
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(unusable)?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> Result<(), CacheError> {
    std::fs::create_dir_all(path)
        .map_err(|source| CacheError::Unusable { path: path.into(), source })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn chosen(vars: &[(&str, &str)]) -> Result<PathBuf, CacheError> {
        choose(|name| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_cache_folder_follows_our_variable_then_xdg_then_home() {
        let all = [(CACHE_DIR, "/c"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(chosen(&all).unwrap(), PathBuf::from("/c"));
        assert_eq!(chosen(&all[1..]).unwrap(), PathBuf::from("/x/pointsman"));
        assert_eq!(chosen(&all[2..]).unwrap(), PathBuf::from("/h/.cache/pointsman"));
        assert_eq!(
            chosen(&[("XDG_CACHE_HOME", "x"), ("HOME", "/h")]).unwrap(),
            PathBuf::from("/h/.cache/pointsman")
        );
        assert!(matches!(chosen(&[]), Err(CacheError::NoHome)));
        assert!(matches!(chosen(&[(CACHE_DIR, "c")]), Err(CacheError::Relative { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn the_cache_folder_is_closed_to_others_even_if_it_was_open() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;

        let outer = tempfile::tempdir().unwrap();
        let fresh = outer.path().join("a/b/guest-toolchain");
        private_folder(&fresh).unwrap();
        assert_eq!(mode(&fresh), 0o700);

        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o777)).unwrap();
        private_folder(&fresh).unwrap();
        assert_eq!(mode(&fresh), 0o700);
    }

    #[test]
    fn a_file_in_the_way_of_the_cache_folder_is_reported_with_its_path() {
        let outer = tempfile::tempdir().unwrap();
        let file = outer.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = private_folder(&file.join("inner")).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
