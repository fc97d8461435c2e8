//! Reads the file itself, without being held up by it.
//!
//! A path can name a pipe that nobody writes to, or a device that never ends. Only as much is read
//! as a configuration may have, and only from what ends by itself. It doesn't know what is in it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use pointsman_wasm::open_regular;

use super::document::MOST_BYTES;

/// Where shells put streams that they have opened for a program.
const STREAMS: [&str; 3] = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];

/// Opens a regular file, or a stream that was opened for this program.
///
/// # Errors
///
/// It can't be opened, or is neither.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if STREAMS.iter().any(|streams| path.starts_with(streams)) {
        return File::open(path);
    }
    open_regular(path)?.ok_or_else(|| match path.is_dir() {
        true => io::Error::other("it is a directory, not a file"),
        false => io::Error::other("it is a pipe or a device, not a file"),
    })
}

/// The bytes of a file; of one that is too large, one more than it may have.
///
/// # Errors
///
/// It can't be read, or is no file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
