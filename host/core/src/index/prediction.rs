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
//! A prompt is *open* until its worker answers: its blocks stay. If it is refused instead, or never
//! got there, what it alone has brought is taken back.
//!
//! Of one prompt no more blocks are predicted than its rank's memory holds, or [`MOST_PREDICTED`] if
//! that isn't known: the leading ones, as none behind a missing one counts. What is done at once is
//! about a thousand blocks; then others have their turn.
//!
//! # Why it is built so
//!
//! A prompt that nobody has seen costs some thousand blocks at once, and as many when it ends. So
//! nothing is said, looked for or entered block by block: a rank's memory is a tree of stretches, cut
//! where prompts fork or end, and its index has no names for blocks, but tells where each stretch is.
//! The two are in step: each block of a memory is one that the index holds for its rank, and what
//! isn't a prompt's hashes can't change that, since nothing that is let go is found by its hash.
//!
//! It doesn't know what is really held; whoever reads both takes the larger number. Locks: the book,
//! then the index.

mod book;
mod memory;

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::lookup::Overlap;
use super::tier::Tier;
use super::{IndexStats, PrefixIndex};
use crate::fleet::Snapshot;
use crate::ids::WorkerRank;
use book::{Book, Open, Until};

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

/// The most blocks of one prompt that are predicted where nobody knows how many the rank's memory
/// holds: a million tokens in blocks of 16.
pub const MOST_PREDICTED: usize = 1 << 16;

/// A prompt on a rank. By capacity, its blocks stay there until this is dropped.
#[derive(Debug)]
pub struct RunningPrompt {
    predictions: Arc<Predictions>,
    open: Open,
}

impl RunningPrompt {
    /// Predicts more of its blocks, if only the first ones are so far.
    pub fn predict(&mut self) {
        let predictions = &self.predictions;
        predictions.little_by_little(|book| book.take_in(&predictions.index, &mut self.open));
    }

    /// Its worker answers: by time, its blocks last as long as was said when it was sent.
    pub fn answered(&mut self) {
        if matches!(self.open.until(), Until::Ms(_)) {
            self.close(true);
        }
    }

    /// It never got to its worker, or was refused there: what no other prompt has brought is no longer
    /// predicted. Too late once it was answered by time.
    pub fn refused(mut self) {
        self.close(false);
    }

    fn close(&mut self, taken: bool) {
        let Self { predictions, open } = self;
        if open.is_open() {
            predictions.little_by_little(|book| book.close(&predictions.index, open, taken));
        }
    }
}

impl Drop for RunningPrompt {
    fn drop(&mut self) {
        self.close(true);
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
        let book = Book::new(most_blocks, book::STEP);
        Self { index: PrefixIndex::unnamed(most_blocks), book: Mutex::new(book) }
    }

    /// The same, with others having their turn after so many blocks.
    #[cfg(test)]
    fn in_steps_of(step: usize) -> Self {
        let book = Book::new(super::DEFAULT_MOST_BLOCKS, step);
        Self { book: Mutex::new(book), ..Self::default() }
    }

    /// A prompt goes to a rank, whose memory holds `capacity` blocks if that is known. Predicts its
    /// first blocks; [`RunningPrompt::predict`] does the others. Returns what is to be told of it, and
    /// dropped at its end; none if nothing is predicted.
    pub fn record(
        self: &Arc<Self>,
        keep: Keep,
        rank: WorkerRank,
        chain: &Arc<[u64]>,
        capacity: Option<u64>,
        now_ms: u64,
    ) -> Option<RunningPrompt> {
        let capacity = capacity.filter(|&capacity| capacity > 0);
        let until = match (keep, capacity) {
            (Keep::Capacity { .. }, Some(capacity)) => Until::Full(capacity),
            (Keep::Time { ttl_ms } | Keep::Capacity { ttl_ms }, _) => {
                Until::Ms(now_ms.saturating_add(ttl_ms))
            }
        };
        let most = capacity.map_or(MOST_PREDICTED, |c| usize::try_from(c).unwrap_or(usize::MAX));
        let mut book = self.book.lock();
        book.expire(&self.index, now_ms);
        let mut open = book.begin(rank, chain, most, until)?;
        book.take_in(&self.index, &mut open);
        open.is_open().then(|| RunningPrompt { predictions: self.clone(), open })
    }

    /// Whether nothing is predicted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.book.lock().is_empty()
    }

    /// Forgets what has ended by now.
    pub fn expire(&self, now_ms: u64) {
        self.little_by_little(|book| book.expire(&self.index, now_ms));
    }

    /// Cleans up a little, and forgets some of what has ended by now. Returns whether there is more to
    /// do.
    pub fn tidy(&self, now_ms: u64) -> bool {
        let more = self.book.lock().expire(&self.index, now_ms);
        self.index.tidy() | more
    }

    /// Lets all that is kept by capacity end in `ttl_ms` from now, unless more prompts come: nobody
    /// goes by capacity any longer.
    pub fn keep_by_time(&self, ttl_ms: u64, now_ms: u64) {
        self.book.lock().keep_by_time(now_ms.saturating_add(ttl_ms));
    }

    /// Forgets all of a rank: it has left, or begun anew.
    pub fn remove_rank(&self, rank: WorkerRank) {
        let mut book = self.book.lock();
        let removed = book.remove_rank(rank);
        self.index.remove_rank(rank);
        drop(book);
        drop(removed);
    }

    /// Forgets all of some ranks.
    pub fn remove_ranks(&self, which: impl Fn(WorkerRank) -> bool) {
        let mut book = self.book.lock();
        let removed = book.remove_ranks(&which);
        self.index.remove_ranks(which);
        drop(book);
        drop(removed);
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

    /// Does something step by step, for as long as there is more to do; between two steps others have
    /// their turn.
    fn little_by_little(&self, mut step: impl FnMut(&mut Book) -> bool) {
        loop {
            let mut book = self.book.lock();
            if !step(&mut book) {
                return;
            }
            MutexGuard::unlock_fair(book);
        }
    }
}

#[cfg(test)]
mod tests;
