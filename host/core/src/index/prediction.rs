//! What ranks are thought to hold, because prompts were sent to them.
//!
//! Owns the approximate mode: decisions themselves feed an index, where an engine tells nothing of
//! its cache, or ahead of what it will tell. A prompt's blocks count from the decision on and are
//! forgotten
//!
//! - after a time without another prompt that begins with them ([`Keep::Time`]), or
//! - when the rank's memory would be full, as an engine evicts ([`Keep::Capacity`]): blocks of
//!   running requests stay, then those go that were released first, the deepest first. A rank whose
//!   capacity nobody knows forgets by time.
//!
//! It doesn't know what is really held; whoever reads both takes the larger number. Locks: the book,
//! then the index.

mod book;
mod memory;

use std::sync::Arc;

use parking_lot::Mutex;

use super::lookup::Overlap;
use super::tier::Tier;
use super::{IndexStats, PrefixIndex};
use crate::fleet::Snapshot;
use crate::ids::WorkerRank;
use book::{Book, Running};

/// How long predictions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// For a time since the last prompt that begins with them.
    Time {
        /// Milliseconds.
        ttl_ms: u64,
    },
    /// For as long as the rank's memory holds them; by time where its size isn't known.
    Capacity {
        /// Milliseconds, for ranks of unknown size.
        ttl_ms: u64,
    },
}

/// A prompt on a rank, whose blocks stay there while it runs: until this is dropped.
#[derive(Debug)]
pub struct RunningPrompt {
    predictions: Arc<Predictions>,
    running: Running,
}

impl Drop for RunningPrompt {
    fn drop(&mut self) {
        self.predictions.book.lock().release(&self.running);
    }
}

/// Predictions for the ranks of one partition.
#[derive(Debug)]
pub struct Predictions {
    index: PrefixIndex,
    book: Mutex<Book>,
}

impl Default for Predictions {
    fn default() -> Self {
        Self::new(super::DEFAULT_MOST_BLOCKS)
    }
}

impl Predictions {
    /// No predictions, of at most so many blocks, counted for each rank; what comes beyond isn't
    /// predicted.
    #[must_use]
    pub fn new(most_blocks: usize) -> Self {
        Self { index: PrefixIndex::new(most_blocks), book: Mutex::new(Book::new(most_blocks)) }
    }

    /// A prompt goes to a rank, whose memory holds `capacity` blocks if that is known. Returns what
    /// is to be dropped at its end, if that matters.
    pub fn record(
        self: &Arc<Self>,
        keep: Keep,
        rank: WorkerRank,
        chain: &Arc<[u64]>,
        capacity: Option<u64>,
        now_ms: u64,
    ) -> Option<RunningPrompt> {
        let mut book = self.book.lock();
        book.expire(&self.index, now_ms);
        match (keep, capacity) {
            (Keep::Capacity { .. }, Some(capacity @ 1..)) => {
                let running = book.run(&self.index, rank, chain, capacity)?;
                Some(RunningPrompt { predictions: self.clone(), running })
            }
            (Keep::Time { ttl_ms } | Keep::Capacity { ttl_ms }, _) => {
                book.remember(&self.index, rank, chain, now_ms.saturating_add(ttl_ms));
                None
            }
        }
    }

    /// Whether nothing is predicted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.book.lock().is_empty()
    }

    /// Forgets what has ended by now.
    pub fn expire(&self, now_ms: u64) {
        self.book.lock().expire(&self.index, now_ms);
    }

    /// Cleans up a little, and forgets what has ended by now. Returns whether there is more to do.
    pub fn tidy(&self, now_ms: u64) -> bool {
        self.expire(now_ms);
        self.index.tidy()
    }

    /// Lets all that is kept by capacity end in `ttl_ms` from now, unless more prompts come: nobody
    /// goes by capacity any longer.
    pub fn keep_by_time(&self, ttl_ms: u64, now_ms: u64) {
        self.book.lock().keep_by_time(now_ms.saturating_add(ttl_ms));
    }

    /// Forgets all of a rank: it has left, or begun anew.
    pub fn remove_rank(&self, rank: WorkerRank) {
        let mut book = self.book.lock();
        book.remove_rank(rank);
        self.index.remove_rank(rank);
    }

    /// Forgets all of some ranks.
    pub fn remove_ranks(&self, which: impl Fn(WorkerRank) -> bool) {
        let mut book = self.book.lock();
        book.remove_ranks(&which);
        self.index.remove_ranks(which);
    }

    /// See [`PrefixIndex::look_up`].
    pub fn look_up(&self, chain: &[u64], snapshot: &Snapshot, overlap: &mut Overlap) {
        self.index.look_up(chain, snapshot, overlap);
    }

    /// How many blocks of a prompt one rank is thought to hold.
    #[must_use]
    pub fn look_up_rank(&self, chain: &[u64], rank: WorkerRank) -> u64 {
        self.index.look_up_rank(chain, rank)[Tier::Device as usize]
    }

    /// What it holds.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let book = self.book.lock();
        let mut stats = self.index.stats();
        stats.bytes += book.bytes();
        stats
    }
}

#[cfg(test)]
mod tests;
