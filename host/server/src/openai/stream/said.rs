//! What an answer says, for who has all of it and no client to pass it on to.

use super::usage;
use super::watcher::Watcher;
use crate::telemetry::Usage;

/// What is looked for in an answer as it goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// What the engine says of the prompt.
    pub usage: Usage,
    /// Whether an event with data came.
    pub data: bool,
    /// Whether the terminator came.
    pub done: bool,
    /// Whether an event reported an error.
    pub error: bool,
}

/// What an answer says that comes in these pieces, read as one that goes by.
pub fn said<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Said {
    let (mut counts, mut watcher) = (usage::Reader::default(), Watcher::default());
    for piece in pieces {
        counts.see(piece);
        watcher.see(piece);
    }
    watcher.end();
    Said {
        usage: counts.usage(),
        data: watcher.saw_data(),
        done: watcher.is_done(),
        error: watcher.saw_error().is_some(),
    }
}
