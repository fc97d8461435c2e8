//! Reading a component's file: a regular one, and no more of it than is taken.
//!
//! The folder and `policy inspect` read through here. Opening a FIFO would wait for whoever writes
//! to it, so that anything but a regular file is refused before it is opened, and once more when it
//! is open: another may have taken its place between the two.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use crate::error::LoadError;

/// Opens a regular file; none when there is nothing at `path`.
pub(crate) fn open(path: &Path) -> Result<Option<File>, LoadError> {
    if look(path)?.is_none() {
        return Ok(None);
    }
    let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
    match File::open(path) {
        Ok(file) => {
            check(path, &file.metadata().map_err(unreadable)?)?;
            Ok(Some(file))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unreadable(source)),
    }
}

/// What the file system says of a regular file; none when there is nothing at `path`.
pub(crate) fn look(path: &Path) -> Result<Option<Metadata>, LoadError> {
    match std::fs::metadata(path) {
        Ok(metadata) => check(path, &metadata).map(|()| Some(metadata)),
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

fn check(path: &Path, metadata: &Metadata) -> Result<(), LoadError> {
    if metadata.is_file() { Ok(()) } else { Err(LoadError::NotAFile { path: path.to_owned() }) }
}
