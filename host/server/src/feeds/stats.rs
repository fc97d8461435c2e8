//! What is known of a feed while it runs.
//!
//! Owns the counters, which the feed alone writes and anyone reads at any time, and the words for
//! why an event is skipped. It doesn't know what the numbers are shown in.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use pointsman_core::index::Applied;
use serde::{Serialize, Serializer};
use tokio::time::Instant;

/// What a feed is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedState {
    /// On its way to the engine for the first time.
    #[default]
    Connecting,
    /// Asking the engine for what it missed.
    Recovering,
    /// Following the engine's events.
    Live,
    /// Without a connection, between two tries.
    Down,
}

impl FeedState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Connecting, Self::Recovering, Self::Live, Self::Down];

    /// The word for it in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Recovering => "recovering",
            Self::Live => "live",
            Self::Down => "down",
        }
    }
}

/// Why an event, well understood, isn't indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// It is of a kind that we don't know.
    UnknownEvent,
    /// The blocks are in a kind of memory that we don't know.
    UnknownMedium,
    /// The hybrid model's cache group holds a part of a prompt only: a window, a state.
    PartialGroup,
    /// Another group, which holds whole prompts as well, stands for all.
    OtherGroup,
    /// It names blocks without their tokens, as offloading does.
    Placeholder,
    /// It has another number of tokens than its blocks would.
    Shape,
    /// A block that ends early.
    PartialBlock,
    /// Its blocks have another size than the worker is said to have.
    BlockSize,
    /// The blocks are of an adapter that has a number only.
    UnnamedAdapter,
}

impl Skip {
    /// How many there are.
    pub const COUNT: usize = 9;

    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::UnknownEvent,
        Self::UnknownMedium,
        Self::PartialGroup,
        Self::OtherGroup,
        Self::Placeholder,
        Self::Shape,
        Self::PartialBlock,
        Self::BlockSize,
        Self::UnnamedAdapter,
    ];

    /// The word for it in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownEvent => "unknown_event",
            Self::UnknownMedium => "unknown_medium",
            Self::PartialGroup => "partial_group",
            Self::OtherGroup => "other_group",
            Self::Placeholder => "placeholder",
            Self::Shape => "shape",
            Self::PartialBlock => "partial_block",
            Self::BlockSize => "block_size",
            Self::UnnamedAdapter => "unnamed_adapter",
        }
    }
}

/// Shows counts by their reasons' words.
pub(super) fn by_reason<N: Serialize, S: Serializer>(
    skipped: &[(Skip, N)],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(skipped.iter().map(|(skip, events)| (skip.as_str(), events)))
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The counters of a feed. Each only grows.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $($(#[doc = $doc])* pub(super) $name: AtomicU64,)*
        }

        /// The counters of a feed, at one time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Counts {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Counters {
            fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Connections made to the engine, or by it.
    connections,
    /// Batches of events that were applied.
    batches,
    /// Events of stored blocks that were indexed.
    events_stored,
    /// Events of removed blocks that were applied.
    events_removed,
    /// Events of a whole cache that was cleared.
    events_cleared,
    /// Blocks stored.
    blocks_stored,
    /// Blocks stored that were held already: one copy more.
    blocks_stored_again,
    /// Blocks removed.
    blocks_removed,
    /// Copies of blocks removed, of which others were left.
    copies_removed,
    /// Blocks to be removed that weren't held.
    blocks_unknown,
    /// Blocks whose parent wasn't known.
    orphans,
    /// Of those, blocks whose parent came later.
    orphans_linked,
    /// Of those, blocks given up for newer ones.
    orphans_dropped,
    /// Blocks refused because the index is full.
    blocks_refused,
    /// Blocks of a rank that the worker hasn't, or hadn't any more.
    blocks_strange,
    /// Gaps in the sequence of batches.
    gaps,
    /// Times that the engine was asked for batches again.
    replays,
    /// Of those, times without a whole answer.
    replays_failed,
    /// Batches that came by being asked for, and were applied.
    replayed,
    /// Batches that are lost for good.
    lost,
    /// Batches that came twice.
    duplicates,
    /// Restarts of the engine that were seen.
    restarts,
    /// Messages and events that couldn't be understood.
    malformed,
    /// Batches that named another rank than the feed is of.
    other_rank,
}

/// What is known of a feed.
#[derive(Debug)]
pub struct FeedStats {
    pub(super) counters: Counters,
    skipped: [AtomicU64; Skip::COUNT],
    state: AtomicU8,
    lag_ms: AtomicU64,
    /// The block size that events have, where the worker's is another; else 0.
    block_size: AtomicU32,
    started: Instant,
    /// Milliseconds from the start to the last batch, plus 1; 0 before the first.
    last_batch: AtomicU64,
    /// What went wrong last, and when.
    last_error: Mutex<Option<(String, u64)>>,
}

/// What is known of a feed, at one time.
#[derive(Clone, Debug, Serialize)]
pub struct FeedSnapshot {
    /// What it is doing.
    pub state: FeedState,
    /// Its counters.
    pub counts: Counts,
    /// Events that weren't indexed, by why; only those that there were.
    #[serde(serialize_with = "by_reason")]
    pub skipped: Vec<(Skip, u64)>,
    /// From an engine's publishing of the last batch to its being applied, by both clocks.
    pub lag_ms: u64,
    /// Since the last batch; none if there was none.
    pub last_batch_ms: Option<u64>,
    /// The engine's block size, if it isn't the worker's: then nothing is indexed.
    pub wrong_block_size: Option<u32>,
    /// What went wrong last, be it long ago.
    pub last_error: Option<String>,
    /// Since then.
    pub last_error_ago_ms: Option<u64>,
    /// Since the feed began.
    #[serde(skip)]
    pub age_ms: u64,
}

impl Default for FeedStats {
    fn default() -> Self {
        Self {
            counters: Counters::default(),
            skipped: std::array::from_fn(|_| AtomicU64::new(0)),
            state: AtomicU8::new(FeedState::Connecting as u8),
            lag_ms: AtomicU64::new(0),
            block_size: AtomicU32::new(0),
            started: Instant::now(),
            last_batch: AtomicU64::new(0),
            last_error: Mutex::new(None),
        }
    }
}

pub(super) fn add(counter: &AtomicU64, count: usize) {
    if count > 0 {
        add_all(counter, count as u64);
    }
}

/// A count that is full stays so.
pub(super) fn add_all(counter: &AtomicU64, count: u64) {
    let more = |sum: u64| Some(sum.saturating_add(count));
    let _ = counter.fetch_update(Relaxed, Relaxed, more);
}

impl FeedStats {
    /// What is known now.
    #[must_use]
    pub fn snapshot(&self) -> FeedSnapshot {
        let skipped = Skip::ALL.iter().zip(&self.skipped);
        let skipped = skipped.map(|(&skip, count)| (skip, count.load(Relaxed)));
        let last_error = self.last_error.lock().clone();
        let last_error_ago_ms =
            last_error.as_ref().map(|(_, at)| self.now_ms().saturating_sub(*at));
        FeedSnapshot {
            state: self.state(),
            counts: self.counters.read(),
            skipped: skipped.filter(|&(_, count)| count > 0).collect(),
            lag_ms: self.lag_ms.load(Relaxed),
            last_batch_ms: self
                .last_batch
                .load(Relaxed)
                .checked_sub(1)
                .map(|at| self.now_ms().saturating_sub(at)),
            wrong_block_size: Some(self.block_size.load(Relaxed)).filter(|&size| size > 0),
            last_error: last_error.map(|(error, _)| error),
            last_error_ago_ms,
            age_ms: self.now_ms(),
        }
    }

    pub(super) fn state(&self) -> FeedState {
        let state = usize::from(self.state.load(Relaxed));
        FeedState::ALL.get(state).copied().unwrap_or_default()
    }

    /// What went wrong last.
    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().as_ref().map(|(error, _)| error.clone())
    }

    /// Events that weren't indexed for this reason.
    #[must_use]
    pub fn skipped(&self, skip: Skip) -> u64 {
        self.skipped.get(skip as usize).map_or(0, |count| count.load(Relaxed))
    }

    /// Milliseconds since the feed's start.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn enter(&self, state: FeedState) {
        self.state.store(state as u8, Relaxed);
    }

    pub(super) fn skip(&self, skip: Skip) {
        if let Some(count) = self.skipped.get(skip as usize) {
            add(count, 1);
        }
    }

    pub(super) fn fail(&self, error: String) {
        *self.last_error.lock() = Some((error, self.now_ms()));
    }

    pub(super) fn malformed(&self, error: String) {
        add(&self.counters.malformed, 1);
        self.fail(error);
    }

    pub(super) fn wrong_block_size(&self, size: Option<u32>) {
        self.block_size.store(size.unwrap_or(0), Relaxed);
    }

    /// A batch has been applied that was published at `ts`, by the engine's clock.
    pub(super) fn batch(&self, ts: f64) {
        add(&self.counters.batches, 1);
        self.last_batch.store(self.now_ms().saturating_add(1), Relaxed);
        let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        // Clocks differ: a batch from the future has no lag.
        self.lag_ms.store(((since_1970.as_secs_f64() - ts) * 1000.0).max(0.0) as u64, Relaxed);
    }

    pub(super) fn applied(&self, applied: &Applied) {
        let counters = &self.counters;
        for (counter, count) in [
            (&counters.blocks_stored, applied.stored),
            (&counters.blocks_stored_again, applied.stored_again),
            (&counters.blocks_removed, applied.removed),
            (&counters.copies_removed, applied.copies_removed),
            (&counters.blocks_unknown, applied.unknown),
            (&counters.orphans, applied.orphaned),
            (&counters.orphans_linked, applied.linked),
            (&counters.orphans_dropped, applied.orphans_dropped),
            (&counters.blocks_refused, applied.refused),
            (&counters.blocks_strange, applied.strange),
            (&counters.malformed, applied.malformed),
        ] {
            add(counter, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_age_and_stays_when_the_feed_is_live_again() {
        let started = Instant::now() - std::time::Duration::from_secs(5);
        let stats = FeedStats { started, ..FeedStats::default() };
        assert_eq!(stats.snapshot().last_error_ago_ms, None);
        stats.fail("it broke".to_owned());
        stats.enter(FeedState::Live);
        let shown = stats.snapshot();
        assert_eq!((shown.state, shown.last_error.as_deref()), (FeedState::Live, Some("it broke")));
        assert!(shown.last_error_ago_ms.is_some_and(|age| age < 5_000));
        *stats.last_error.lock() = Some(("it broke before".to_owned(), 1_000));
        assert!(stats.snapshot().last_error_ago_ms.is_some_and(|age| age >= 4_000));
    }

    #[test]
    fn a_full_count_stays_full() {
        let stats = FeedStats::default();
        for count in [u64::MAX - 1, 7, u64::MAX] {
            add_all(&stats.counters.lost, count);
        }
        assert_eq!(stats.snapshot().counts.lost, u64::MAX);
    }
}
