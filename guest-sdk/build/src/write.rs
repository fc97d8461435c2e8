//! Writing a file so that nobody ever sees half of it.

use std::io::{self, Write as _};
use std::path::Path;

/// Replaces `path` by `bytes` in one step: a temporary file beside it, then a rename.
///
/// Made for policy folders: a router that watches one sees the old component or the new one. The temporary file's name starts with a dot and
/// doesn't end in `.wasm`. A file that already holds these bytes is left alone, time stamp included; the answer says whether it was written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    if std::fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(false);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder)?;
    let mut options = tempfile::Builder::new();
    options.prefix(".pointsman-").suffix(".part");
    #[cfg(unix)]
    {
        // The usual mode of a new file, so that a router under another user can read it; the umask still applies.
        use std::os::unix::fs::PermissionsExt;
        options.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = options.tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(true)
}

/// Makes a folder unless it is there, and tries whether files can be put into it.
pub fn prepare_folder(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    tempfile::Builder::new().prefix(".pointsman-").suffix(".part").tempfile_in(folder)?;
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/policy.wasm");
        assert!(write_atomically(&path, b"one").unwrap());
        assert!(write_atomically(&path, b"two").unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_is_made_and_tried_before_anything_is_put_there() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("a/b");
        prepare_folder(&folder).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing is left there");
        std::fs::write(outer.path().join("file"), "").unwrap();
        assert!(prepare_folder(&outer.path().join("file")).is_err());
        assert!(prepare_folder(&outer.path().join("file/inner")).is_err());
        // Nobody may write there, whoever he is.
        #[cfg(target_os = "linux")]
        assert!(prepare_folder(Path::new("/proc/1")).is_err());
    }

    #[test]
    fn a_file_with_the_same_bytes_keeps_its_time_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.wasm");
        write_atomically(&path, b"one").unwrap();
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        assert!(!write_atomically(&path, b"one").unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
    }
}
