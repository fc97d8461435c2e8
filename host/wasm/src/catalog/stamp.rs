//! What tells one content of a file from another without reading it.

use std::fs::Metadata;
use std::time::{Duration, SystemTime};

/// How long a file's times can't be trusted: some file systems count in seconds.
const COARSE_CLOCK: Duration = Duration::from_secs(2);

/// A file's stamp: size, times and, where there are any, its numbers in the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    size: u64,
    modified: Option<SystemTime>,
    node: (u64, u64, i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { size: metadata.len(), modified: metadata.modified().ok(), node: node(metadata) }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The stamp, if it is old enough to tell this content from the next.
    pub(super) fn if_trusted(self) -> Option<Self> {
        (!self.is_younger(COARSE_CLOCK, SystemTime::now())).then_some(self)
    }

    /// Whether the file was written less than `span` before `now`, or after it.
    pub(super) fn is_younger(&self, span: Duration, now: SystemTime) -> bool {
        match self.modified {
            // A time in the future is believed only if it is close: clocks of machines differ.
            Some(modified) => match now.duration_since(modified) {
                Ok(age) => age < span,
                Err(ahead) => ahead.duration() < span,
            },
            None => false,
        }
    }
}

/// Device and file number, and the time of the last change of anything about the file.
#[cfg(unix)]
fn node(metadata: &Metadata) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn node(_metadata: &Metadata) -> (u64, u64, i64, i64) {
    (0, 0, 0, 0)
}
