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
//! The body is read as a whole before any of it is applied, and a key that we don't know is an
//! error. Events then go the way of those that engines publish: [`super::intake`]. There is no
//! sequence: who pushes sees to the order, and pushes again what got no answer.

mod read;
#[cfg(test)]
mod tests;

use pointsman_core::hashing::media_hash;
use pointsman_core::ids::DpRank;
use pointsman_core::index::Applied;
use serde::Serialize;
use thiserror::Error;

use super::intake::{CacheSink, Intake, Taken};
use super::stats::{FeedStats, Skip};
use super::wire::{Event, Groups, Keys, Removed, Stored};
use read::{Place, number, text};

/// The most events of one body.
pub const MOST_EVENTS: usize = 65_536;

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
        let body: serde_json::Value =
            serde_json::from_slice(body).map_err(|error| PushError::Json(error.to_string()))?;
        let top = Place::top(&body);
        top.keys(&["dp_rank", "events"])?;
        let dp_rank = top.optional("dp_rank", number)?.map(DpRank);
        let events = top.required("events", |events| events.list(MOST_EVENTS, event))?;
        Ok(Self { dp_rank, events })
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
        &self,
        intake: &mut Intake,
        stats: &FeedStats,
        sink: &dyn CacheSink,
    ) -> PushOutcome {
        let (mut outcome, mut blocks) = (PushOutcome::default(), Applied::default());
        for event in &self.events {
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
    fn event(&self) -> Event<'_> {
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
                hashes: hashes.clone(),
                parent: *parent,
                tokens: tokens.clone(),
                block_size: *block_size,
                keys: Keys::new(adapter.as_deref(), namespace.as_deref(), media.clone()),
                medium: medium.as_deref(),
                group: None,
                holds: Groups::Unsaid,
                remote: false,
            }),
            Self::Removed { hashes, medium } => Event::Removed(Removed {
                hashes: hashes.clone(),
                medium: medium.as_deref(),
                ..Removed::default()
            }),
            Self::Cleared => Event::Cleared,
        }
    }
}

fn event(at: Place<'_>) -> Result<Pushable, PushError> {
    match at.required("type", text)?.as_str() {
        "stored" => stored(&at),
        "removed" => {
            at.keys(&["type", "block_hashes", "medium"])?;
            Ok(Pushable::Removed {
                hashes: at.required("block_hashes", |at| at.list(usize::MAX, hash))?,
                medium: at.optional("medium", text)?,
            })
        }
        "cleared" => {
            at.keys(&["type"])?;
            Ok(Pushable::Cleared)
        }
        _ => at.required("type", |at| Err(at.unexpected("stored, removed or cleared"))),
    }
}

fn stored(at: &Place<'_>) -> Result<Pushable, PushError> {
    at.keys(&[
        "type",
        "parent_hash",
        "block_hashes",
        "token_ids",
        "block_size",
        "medium",
        "lora_name",
        "cache_salt",
        "mm_hashes",
    ])?;
    let hashes = at.required("block_hashes", |at| at.list(usize::MAX, hash))?;
    let media = at.optional("mm_hashes", |at| {
        let lists = at.list(usize::MAX, |at| at.list(usize::MAX, medium))?;
        let fits = lists.len() == hashes.len();
        if fits { Ok(lists) } else { Err(at.unexpected("a list for each of block_hashes")) }
    })?;
    Ok(Pushable::Stored {
        parent: at.optional("parent_hash", hash)?,
        tokens: at.required("token_ids", |at| at.list(usize::MAX, number))?,
        block_size: at.required("block_size", number)?,
        medium: at.optional("medium", text)?,
        adapter: at.optional("lora_name", text)?,
        namespace: at.optional("cache_salt", text)?,
        media: media.unwrap_or_default(),
        hashes,
    })
}

fn hash(at: Place<'_>) -> Result<u64, PushError> {
    at.wide().ok_or_else(|| at.unexpected("a hash: a number of 64 bits, or the same as text"))
}

fn medium(at: Place<'_>) -> Result<u64, PushError> {
    match at.as_text() {
        Some(identifier) => Ok(media_hash(identifier)),
        None => at.wide().ok_or_else(|| at.unexpected("an identifier or a number of 64 bits")),
    }
}
