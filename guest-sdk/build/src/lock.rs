//! One process at a time in a folder of the cache; the system lets go of the lock when its holder dies.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use crate::progress::{Progress, Step};

/// Runs `work` while no other thread or process holds the lock file, waiting for them first.
pub(crate) fn hold<T>(
    path: &Path,
    progress: &dyn Progress,
    work: impl FnOnce() -> T,
) -> io::Result<T> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    let mut lock = fd_lock::RwLock::new(file);
    // Looked at first only to tell the person why nothing happens.
    let is_free = lock.try_write().is_ok();
    if !is_free {
        progress.step(&Step::Waiting);
    }
    let _held = lock.write()?;
    Ok(work())
}
