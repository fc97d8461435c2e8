//! Events that are pushed over HTTP, by engines without ZeroMQ or by whoever stands in for them.
//!
//! Owns the body of `POST /v1/workers/{id}/kv_events`:
//!
//! ```json
//! {
//!   "dp_rank": 0,
//!   "events": [
//!     { "type": "stored", "parent_hash": null, "block_hashes": [7, "18446744073709551615"],
//!       "token_ids": [1, 2, 3, 4], "block_size": 2, "medium": "GPU",
//!       "lora_name": null, "cache_salt": null, "mm_hashes": [["cat.png"], []] },
//!     { "type": "removed", "block_hashes": [7], "medium": "GPU" },
//!     { "type": "cleared" }
//!   ]
//! }
//! ```
//!
//! Hashes are numbers, or the same in decimal text for whoever can't write 64 bits, and may be
//! negative. `parent_hash`, `medium`, `lora_name`, `cache_salt` and `mm_hashes` may be left out or
//! null. `mm_hashes` has a list for each block, of identifiers or of numbers. A worker of several
//! ranks needs `dp_rank`.
//!
//! The body is read as a whole before any of it is applied, and a key that we don't know, or that
//! stands twice in an object, is an error. Events then go the way of those that engines publish: [`super::intake`]. There is no
//! sequence: who pushes sees to the order, and pushes again what got no answer.

mod event;
mod read;
#[cfg(test)]
mod tests;

use std::mem::take;

use pointsman_core::ids::DpRank;
use pointsman_core::index::Applied;
use serde::Serialize;
use thiserror::Error;

use super::intake::{CacheSink, Intake, Taken};
use super::stats::{FeedStats, Skip};
use super::wire::{Event, Groups, Keys, Removed, Stored};

/// The most events of one body.
pub const MOST_EVENTS: usize = 65_536;

/// The most bytes that the elements of all lists of one body take together: those of real events
/// take no more, however long the body is.
const MOST_BYTES: usize = 48 << 20;

/// Why a body is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PushError {
    /// It isn't JSON.
    #[error("the body isn't JSON: {0}; send an object with a list of events")]
    Json(String),
    /// Something in it isn't what it should be.
    #[error("{place}: expected {expected}, found {found}; see ADMIN.md")]
    Value {
        /// Where.
        place: String,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// It has a key that we don't know.
    #[error("{place}: unknown key {key:?}; known: {known}")]
    Key {
        /// Where.
        place: String,
        /// Which.
        key: String,
        /// Those that there are.
        known: String,
    },
    /// It has a key twice.
    #[error("{place}: {key:?} stands twice; say it once")]
    Twice {
        /// Where.
        place: String,
        /// Which.
        key: &'static str,
    },
}

/// What was pushed, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Pushed {
    /// The rank that it is of, if it says so.
    pub dp_rank: Option<DpRank>,
    events: Vec<Pushable>,
}

#[derive(Clone, Debug, PartialEq)]
enum Pushable {
    Stored {
        hashes: Vec<u64>,
        parent: Option<u64>,
        tokens: Vec<u32>,
        block_size: u32,
        medium: Option<String>,
        adapter: Option<String>,
        namespace: Option<String>,
        media: Vec<Vec<u64>>,
    },
    Removed {
        hashes: Vec<u64>,
        medium: Option<String>,
    },
    Cleared,
}

/// What became of a push, in events and in blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PushOutcome {
    /// Events that were applied.
    pub applied: usize,
    /// Events that aren't for the index, by why.
    #[serde(serialize_with = "super::stats::by_reason")]
    pub skipped: Vec<(Skip, usize)>,
    /// Blocks stored.
    pub stored: usize,
    /// Blocks stored that were held already: one copy more.
    pub stored_again: usize,
    /// Blocks removed.
    pub removed: usize,
    /// Copies of blocks removed, of which others are left.
    pub copies_removed: usize,
    /// Blocks to be removed that weren't held.
    pub unknown: usize,
    /// Blocks that wait for their parent.
    pub orphaned: usize,
    /// Blocks that had waited, and no longer do.
    pub linked: usize,
    /// Blocks refused because the index is full.
    pub refused: usize,
    /// Blocks of a rank that the worker hasn't any more.
    pub strange: usize,
}

impl Pushed {
    /// Reads a body.
    ///
    /// # Errors
    ///
    /// Something in it isn't as it should be; nothing of it may be used.
    pub fn read(body: &[u8]) -> Result<Self, PushError> {
        event::read(body)
    }

    /// How many events it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Applies the events, in their order. `intake` is kept with the rank from push to push.
    pub fn apply(
        self,
        intake: &mut Intake,
        stats: &FeedStats,
        sink: &dyn CacheSink,
    ) -> PushOutcome {
        let (mut outcome, mut blocks) = (PushOutcome::default(), Applied::default());
        for mut event in self.events {
            match intake.take(&event.event(), stats, sink) {
                Taken::Applied(applied) => {
                    outcome.applied += 1;
                    blocks += applied;
                }
                Taken::Skipped(skip) => outcome.skip(skip),
                // Pushed events have no groups, so there are none to be misled by.
                Taken::Misled => outcome.skip(Skip::Shape),
            }
        }
        PushOutcome {
            stored: blocks.stored,
            stored_again: blocks.stored_again,
            removed: blocks.removed,
            copies_removed: blocks.copies_removed,
            unknown: blocks.unknown,
            orphaned: blocks.orphaned,
            linked: blocks.linked,
            refused: blocks.refused,
            strange: blocks.strange,
            ..outcome
        }
    }
}

impl PushOutcome {
    fn skip(&mut self, skip: Skip) {
        match self.skipped.iter_mut().find(|(known, _)| *known == skip) {
            Some((_, count)) => *count += 1,
            None => self.skipped.push((skip, 1)),
        }
    }
}

impl Pushable {
    /// The event that it is; its lists go with it.
    fn event(&mut self) -> Event<'_> {
        match self {
            Self::Stored {
                hashes,
                parent,
                tokens,
                block_size,
                medium,
                adapter,
                namespace,
                media,
            } => Event::Stored(Stored {
                hashes: take(hashes),
                parent: *parent,
                tokens: take(tokens),
                block_size: *block_size,
                keys: Keys::new(adapter.as_deref(), namespace.as_deref(), take(media)),
                medium: medium.as_deref(),
                group: None,
                holds: Groups::Unsaid,
                remote: false,
            }),
            Self::Removed { hashes, medium } => Event::Removed(Removed {
                hashes: take(hashes),
                medium: medium.as_deref(),
                ..Removed::default()
            }),
            Self::Cleared => Event::Cleared,
        }
    }
}
