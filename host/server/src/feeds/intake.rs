//! What an engine's events mean for the index.
//!
//! Owns, for one rank, what must be remembered between events: which of a hybrid model's cache
//! groups stands for all, and whether blocks have the size that the worker is said to have. Feeds
//! and pushed events both end here. It doesn't know how events arrive, or whether some are missing.
//!
//! # Groups
//!
//! A hybrid model keeps several caches, and tells of each with the number of its group. Only a
//! group that holds whole prompts says what can be reused; of several such, the first that is seen
//! stands for all. Removals have only the number, so what a number means is learnt from stores. An
//! engine that doesn't say what a group holds may still show it: a window's events have fewer
//! blocks than tokens. If the group that stood for all turns out to be such, what was indexed of it
//! is wrong, and [`Intake::take`] says so.

use std::collections::HashMap;

use pointsman_core::hashing::Scope;
use pointsman_core::ids::WorkerRank;
use pointsman_core::index::{self, Applied, CacheEvent, Content, Tier};

use super::stats::{FeedStats, Skip, add};
use super::wire::{Batch, Event, Groups, Malformed, Removed, Stored};

/// The most groups that are remembered; no model has nearly as many.
const MOST_GROUPS: usize = 256;

/// Where changes of what a rank holds go: the index of the worker's partition, or of several.
///
/// Called from a feed's task for each event, in order; it must not wait for long.
pub trait CacheSink: Send + Sync {
    /// Applies a change of what a rank holds.
    fn apply(&self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied;

    /// The rank's engine is being followed: from now on it tells of what it holds.
    fn live(&self, _rank: WorkerRank) {}
}

impl CacheSink for index::PrefixIndex {
    fn apply(&self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied {
        index::PrefixIndex::apply(self, rank, event)
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was applied.
    Applied(Applied),
    /// It isn't for the index.
    Skipped(Skip),
    /// It isn't for the index, and shows that what came before of its group wasn't either: the
    /// rank must be cleared, and filled anew from the engine's first batch on.
    Misled,
}

/// What one rank's events have told so far.
#[derive(Debug)]
pub struct Intake {
    rank: WorkerRank,
    /// The worker's; learnt from the first blocks if it isn't known.
    block_size: Option<u32>,
    /// Whether blocks of that size have come.
    fits: bool,
    /// Whether a group holds whole prompts, as far as is known.
    groups: HashMap<u32, bool>,
    /// The group that stands for all, by tier.
    leading: [Option<Option<u32>>; Tier::COUNT],
}

impl Intake {
    /// For a rank of a worker with this block size.
    #[must_use]
    pub fn new(rank: WorkerRank, block_size: Option<u32>) -> Self {
        let block_size = block_size.filter(|&size| size > 0);
        Self { rank, block_size, fits: false, groups: HashMap::new(), leading: Default::default() }
    }

    /// Whose events they are.
    #[must_use]
    pub fn rank(&self) -> WorkerRank {
        self.rank
    }

    /// Clears the rank: its engine has begun anew, or what is known of it is wrong.
    pub fn clear(&mut self, sink: &dyn CacheSink) {
        sink.apply(self.rank, CacheEvent::Cleared);
        self.leading = Default::default();
    }

    /// Clears the rank and forgets what was learnt of the engine: another may run there now.
    pub fn restart(&mut self, sink: &dyn CacheSink) {
        self.clear(sink);
        self.groups.clear();
    }

    /// Applies a batch's events, and counts them. Returns false if the rank must be cleared and
    /// filled anew: see [`Taken::Misled`].
    ///
    /// Also returned is the last event that can't be understood; the others are applied
    /// nevertheless.
    pub fn take_batch(
        &mut self,
        batch: &Batch<'_>,
        stats: &FeedStats,
        sink: &dyn CacheSink,
    ) -> (bool, Option<Malformed>) {
        let (mut sound, mut last) = (true, None);
        for event in batch.events() {
            match event {
                Ok(event) => sound &= self.take(&event, stats, sink) != Taken::Misled,
                Err(malformed) => {
                    stats.malformed(malformed.to_string());
                    last = Some(malformed);
                }
            }
        }
        stats.batch(batch.ts);
        if batch.rank.is_some_and(|rank| rank != self.rank.dp_rank.0) {
            add(&stats.counters.other_rank, 1);
        }
        (sound, last)
    }

    /// Applies an event if it is for the index, and counts it.
    pub fn take(&mut self, event: &Event<'_>, stats: &FeedStats, sink: &dyn CacheSink) -> Taken {
        let counters = &stats.counters;
        let taken = match event {
            Event::Stored(stored) => self.stored(stored, stats, sink),
            Event::Removed(removed) => self.removed(removed, sink),
            Event::Cleared => Ok(sink.apply(self.rank, CacheEvent::Cleared)),
            Event::Unknown => Err(Taken::Skipped(Skip::UnknownEvent)),
        };
        match taken {
            Ok(applied) => {
                let counter = match event {
                    Event::Stored(_) => &counters.events_stored,
                    Event::Removed(_) => &counters.events_removed,
                    Event::Cleared | Event::Unknown => &counters.events_cleared,
                };
                add(counter, 1);
                stats.applied(&applied);
                Taken::Applied(applied)
            }
            Err(taken) => {
                match taken {
                    Taken::Skipped(skip) => stats.skip(skip),
                    Taken::Misled | Taken::Applied(_) => stats.skip(Skip::Shape),
                }
                taken
            }
        }
    }

    fn stored(
        &mut self,
        stored: &Stored<'_>,
        stats: &FeedStats,
        sink: &dyn CacheSink,
    ) -> Result<Applied, Taken> {
        let tier = tier(stored.medium, stored.remote)?;
        self.check_kind(stored)?;
        self.check_shape(stored)?;
        self.check_size(stored, stats)?;
        if stored.keys.adapter_is_unnamed() {
            return Err(Taken::Skipped(Skip::UnnamedAdapter));
        }
        // Whoever comes first leads.
        let leading = self.leading.get_mut(tier as usize);
        if leading.is_some_and(|leading| *leading.get_or_insert(stored.group) != stored.group) {
            return Err(Taken::Skipped(Skip::OtherGroup));
        }
        let event = CacheEvent::Stored(index::Stored {
            parent: stored.parent,
            engines: &stored.hashes,
            content: Content::Tokens {
                tokens: &stored.tokens,
                media: &stored.keys.media,
                scope: Scope::new(stored.keys.adapter, stored.keys.namespace),
            },
            tier,
        });
        Ok(sink.apply(self.rank, event))
    }

    fn check_kind(&mut self, stored: &Stored<'_>) -> Result<(), Taken> {
        let Some(group) = stored.group else {
            return match stored.holds {
                Groups::Partial => Err(Taken::Skipped(Skip::PartialGroup)),
                Groups::Whole | Groups::Unsaid => Ok(()),
            };
        };
        let known = self.groups.get(&group).copied();
        let whole = match stored.holds {
            Groups::Whole => true,
            Groups::Partial => false,
            Groups::Unsaid => known.unwrap_or(true),
        };
        if known.is_some() || self.groups.len() < MOST_GROUPS {
            self.groups.insert(group, whole);
        }
        if whole { Ok(()) } else { Err(Taken::Skipped(Skip::PartialGroup)) }
    }

    fn check_shape(&mut self, stored: &Stored<'_>) -> Result<(), Taken> {
        if stored.block_size == 0 || (stored.tokens.is_empty() && !stored.hashes.is_empty()) {
            return Err(Taken::Skipped(Skip::Placeholder));
        }
        let (blocks, size) = (stored.hashes.len(), stored.block_size as usize);
        if blocks > 0 && blocks.checked_mul(size) == Some(stored.tokens.len()) {
            return Ok(());
        }
        let Some(group) = stored.group.filter(|_| stored.holds == Groups::Unsaid) else {
            return Err(Taken::Skipped(Skip::Shape));
        };
        self.groups.insert(group, false);
        if self.leading.contains(&Some(Some(group))) {
            return Err(Taken::Misled);
        }
        Err(Taken::Skipped(Skip::PartialGroup))
    }

    fn check_size(&mut self, stored: &Stored<'_>, stats: &FeedStats) -> Result<(), Taken> {
        let size = *self.block_size.get_or_insert(stored.block_size);
        if stored.block_size == size {
            if !self.fits {
                self.fits = true;
                stats.wrong_block_size(None);
            }
            return Ok(());
        }
        // A model with states stores the end of a prompt as a short block now and then.
        if self.fits && stored.block_size < size && stored.hashes.len() == 1 {
            return Err(Taken::Skipped(Skip::PartialBlock));
        }
        if !self.fits {
            stats.wrong_block_size(Some(stored.block_size));
            stats.fail(format!(
                "the engine's blocks have {} tokens, not {size}: none are indexed; give the worker \
                 the engine's block size",
                stored.block_size
            ));
        }
        Err(Taken::Skipped(Skip::BlockSize))
    }

    fn removed(&mut self, removed: &Removed<'_>, sink: &dyn CacheSink) -> Result<Applied, Taken> {
        let tier = tier(removed.medium, removed.remote)?;
        if let Some(group) = removed.group {
            if self.groups.get(&group) == Some(&false) {
                return Err(Taken::Skipped(Skip::PartialGroup));
            }
            let leading = self.leading.get(tier as usize).copied().flatten();
            if leading.is_some_and(|leading| leading != Some(group)) {
                return Err(Taken::Skipped(Skip::OtherGroup));
            }
        }
        Ok(sink.apply(self.rank, CacheEvent::Removed { engines: &removed.hashes, tier }))
    }
}

/// Which tier a medium is; none named is the device's.
fn tier(medium: Option<&str>, remote: bool) -> Result<Tier, Taken> {
    if remote {
        return Ok(Tier::External);
    }
    medium.map_or(Some(Tier::Device), Tier::of_medium).ok_or(Taken::Skipped(Skip::UnknownMedium))
}

#[cfg(test)]
mod tests;
