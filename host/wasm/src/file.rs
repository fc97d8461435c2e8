//! Reading a component's file: a regular one, and no more of it than is taken.
//!
//! The folder and `policy inspect` read through here, and whoever else reads files that operators
//! name. Opening a FIFO would wait for whoever writes to it, so that anything but a regular file is
//! refused before it is opened, and once more when it is open: another may have taken its place
//! between the two, and then the opening doesn't wait.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

use crate::error::LoadError;

/// Opens a regular file, and never waits for a writer; none when something else is there, which is
/// left unopened.
///
/// # Errors
///
/// Nothing is there, or it may not be read.
pub fn open_regular(path: &Path) -> io::Result<Option<File>> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;

        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

/// Opens a regular file; none when there is nothing at `path`.
pub(crate) fn open(path: &Path) -> Result<Option<File>, LoadError> {
    match open_regular(path) {
        Ok(Some(file)) => Ok(Some(file)),
        Ok(None) => Err(LoadError::NotAFile { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::Unreadable { path: path.to_owned(), source }),
    }
}

/// What the file system says of a regular file; none when there is nothing at `path`.
pub(crate) fn look(path: &Path) -> Result<Option<Metadata>, LoadError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata)),
        Ok(_) => Err(LoadError::NotAFile { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::Unreadable { path: path.to_owned(), source }),
    }
}

/// The bytes of an open file; one more than `most` shows that there are too many.
pub(crate) fn bytes(path: &Path, file: &File, most: u64) -> Result<Vec<u8>, LoadError> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
    Ok(bytes)
}
