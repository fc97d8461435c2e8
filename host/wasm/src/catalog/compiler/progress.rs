//! What the log is told of compilations that take their time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Running;

/// One thing to tell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has taken longer than a moment, and goes on.
    Goes {
        path: Arc<Path>,
        bytes: u64,
        /// When it will be given up.
        limit: Duration,
    },
    /// It is over.
    Ended { path: Arc<Path>, millis: u64, good: bool },
}

impl Progress {
    /// What there is to tell of a compilation that has ended, if it was told of before.
    pub(super) fn ended(of: &Running, good: bool) -> Option<Self> {
        let millis = u64::try_from(of.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        of.is_told.then(|| Self::Ended { path: of.path.clone(), millis, good })
    }

    pub(super) fn tell(&self) {
        match self {
            Self::Goes { path, bytes, limit } => tracing::info!(
                path = %path.display(), bytes, given_up_after = ?limit,
                "a component is being compiled"
            ),
            Self::Ended { path, millis, good: true } => {
                tracing::info!(path = %path.display(), millis, "a component is compiled");
            }
            // Why is told by whoever wanted it.
            Self::Ended { path, millis, good: false } => {
                tracing::info!(path = %path.display(), millis, "a component was not compiled");
            }
        }
    }
}
