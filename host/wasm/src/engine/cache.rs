//! The folder of compiled code, which must be nobody else's: what it holds runs as native code.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wasmtime::{Cache, CacheConfig};

/// Why the folder isn't used.
#[derive(Debug, Error)]
pub(super) enum CacheError {
    #[error("the cache folder {} can't be used: {source}", dir.display())]
    Io { dir: PathBuf, source: io::Error },
    #[error("the cache folder {} is a link or no folder; name the folder itself", dir.display())]
    NotAFolder { dir: PathBuf },
    #[cfg(unix)]
    #[error("the cache folder {} belongs to user {owner}, and this is user {user}; name another, or remove it", dir.display())]
    Owner { dir: PathBuf, owner: u32, user: u32 },
    #[cfg(unix)]
    #[error("the cache folder {} is not empty, and others could write to it: what it holds may be theirs; remove it", dir.display())]
    Open { dir: PathBuf },
    #[error("the cache folder {} can't be used: {reason}", dir.display())]
    Setup { dir: PathBuf, reason: String },
}

/// Opens the folder, making it if there is none.
pub(super) fn open(dir: &Path) -> Result<Cache, CacheError> {
    let dir = std::path::absolute(dir)
        .map_err(|source| CacheError::Io { dir: dir.to_owned(), source })?;
    secure(&dir)?;
    let mut config = CacheConfig::new();
    config.with_directory(&dir);
    Cache::new(config).map_err(|error| CacheError::Setup { dir, reason: format!("{error:#}") })
}

#[cfg(unix)]
fn secure(dir: &Path) -> Result<(), CacheError> {
    use std::fs;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

    let io = |source| CacheError::Io { dir: dir.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io)?;
    let found = fs::symlink_metadata(dir).map_err(io)?;
    if !found.is_dir() {
        return Err(CacheError::NotAFolder { dir: dir.to_owned() });
    }
    // Whoever we are is who owns what we make.
    let mark = dir.join(format!(".owner-{}", std::process::id()));
    let made = fs::File::create(&mark).and_then(|file| file.metadata());
    let removed = fs::remove_file(&mark);
    let user = made.map_err(io)?.uid();
    removed.map_err(io)?;
    if found.uid() != user {
        return Err(CacheError::Owner { dir: dir.to_owned(), owner: found.uid(), user });
    }
    // What others could write here runs as us: closing the folder now would come too late.
    if found.mode() & 0o022 != 0 && fs::read_dir(dir).map_err(io)?.next().is_some() {
        return Err(CacheError::Open { dir: dir.to_owned() });
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(io)?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn secure(dir: &Path) -> Result<(), CacheError> {
    let io = |source| CacheError::Io { dir: dir.to_owned(), source };
    std::fs::create_dir_all(dir).map_err(io)?;
    let found = std::fs::symlink_metadata(dir).map_err(io)?;
    if found.is_dir() { Ok(()) } else { Err(CacheError::NotAFolder { dir: dir.to_owned() }) }
}

#[cfg(all(test, unix))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_folder_is_closed_to_others() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        secure(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        secure(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn what_others_could_have_written_is_not_believed() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("cache");
        secure(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        // Empty, it is only closed.
        secure(&dir).unwrap();
        fs::write(dir.join("planted"), "code").unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(matches!(secure(&dir), Err(CacheError::Open { .. })));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        secure(&dir).unwrap();
    }

    #[test]
    fn a_link_in_its_place_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let (real, link) = (root.path().join("real"), root.path().join("link"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        assert!(matches!(secure(&link), Err(CacheError::NotAFolder { .. })));
    }
}
