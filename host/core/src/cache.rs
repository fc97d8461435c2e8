//! What a partition knows of its workers' caches.
//!
//! Owns the index that engines' events feed, the predictions that decisions feed, and which of the
//! two speaks for a rank: an engine that tells of its cache is believed; where nothing tells, or
//! ahead of what will be told if the settings say so, a prompt counts as cached where it was sent.
//! It doesn't know policies or columns beyond blocks by tier, or how events arrive.
//!
//! Events, decisions and changes of the fleet come from different threads. What is said of a rank
//! is taken in only while the rank is of the fleet, in the life that it is said of: so that nothing
//! that comes late is left behind by whoever has gone, or credited to whoever has come since. An
//! event that names many blocks is taken in by steps, between which others have their turn.

mod activity;
mod row;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::fleet::{Epoch, Snapshot};
use crate::ids::WorkerRank;
use crate::index::{
    Applied, CacheEvent, Change, DumpedRun, IndexStats, Keep, Predictions, PrefixIndex, RankStats,
    RunningPrompt,
};
use crate::policy::settings::{ApproximateCachePolicy, RouterSettings};

pub use activity::CacheActivity;
pub use row::{RowOverlap, shared_beyond};
pub use view::CacheView;

/// The caches of one partition's workers.
#[derive(Debug, Default)]
pub struct PartitionCache {
    /// The rows of whom anything is taken in; none is everybody. Taken before all other locks.
    fleet: RwLock<Option<Arc<Snapshot>>>,
    index: PrefixIndex,
    predictions: Arc<Predictions>,
    /// What the settings said last, as far as it matters for what is kept.
    heeded: AtomicU8,
    activity: activity::Counters,
}

impl PartitionCache {
    /// Nothing yet, of nobody, until there is a fleet.
    pub(crate) fn of_fleet() -> Self {
        Self { fleet: RwLock::new(Some(Arc::default())), ..Self::default() }
    }

    /// A rank's engine will tell of its cache from now on: what was predicted of it is forgotten.
    pub fn expect_events(&self, rank: WorkerRank) {
        let fleet = self.fleet.read();
        if is_there(&fleet, rank, None) {
            self.expect(rank);
        }
    }

    /// A rank's engine tells of a change. Nothing comes of it if the rank isn't of the fleet.
    pub fn apply(&self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied {
        self.take_in(rank, None, event, || Some(()))
    }

    /// The same if the rank's worker lives this life of its still: what a feed has to tell of an
    /// earlier one is nothing to a later one.
    pub fn apply_in_life(&self, rank: WorkerRank, epoch: Epoch, event: CacheEvent<'_>) -> Applied {
        self.take_in(rank, Some(epoch), event, || Some(()))
    }

    /// The same, for as long as `enter` lets it in: what that gives is held while a step of the event
    /// is applied, about a thousand blocks, and let go between two. Nothing comes of the rest when it
    /// gives nothing.
    pub fn apply_while<Held>(
        &self,
        rank: WorkerRank,
        epoch: Epoch,
        event: CacheEvent<'_>,
        enter: impl FnMut() -> Option<Held>,
    ) -> Applied {
        self.take_in(rank, Some(epoch), event, enter)
    }

    /// Whether a rank's engine tells of its cache.
    #[must_use]
    pub fn tells(&self, rank: WorkerRank) -> bool {
        self.index.knows(rank)
    }

    /// Forgets all of a rank: it has left, or begun anew, or tells no more.
    pub fn remove_rank(&self, rank: WorkerRank) {
        self.index.remove_rank(rank);
        self.predictions.remove_rank(rank);
    }

    /// Cleans up a little, and forgets predictions whose time is over. To be called now and then.
    /// Returns whether there is more to do.
    pub fn tidy(&self, now_ms: u64) -> bool {
        self.predictions.tidy(now_ms) | self.index.tidy()
    }

    /// What engines' events say.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        self.index.stats()
    }

    /// What engines' events say of each block, page by page: see [`PrefixIndex::dump`].
    #[must_use]
    pub fn dump(&self, from: usize, most: usize) -> (Vec<DumpedRun>, Option<usize>) {
        self.index.dump(from, most)
    }

    /// What decisions say.
    #[must_use]
    pub fn predicted_stats(&self) -> IndexStats {
        self.predictions.stats()
    }

    /// What a rank's engine said; none if it tells nothing.
    #[must_use]
    pub fn rank_stats(&self, rank: WorkerRank) -> Option<RankStats> {
        self.index.rank_stats(rank)
    }

    /// An engine's answer says how many of the prompt's tokens it had cached.
    pub fn answered(&self, cached_tokens: u64) {
        self.activity.answered(cached_tokens > 0);
    }

    /// What has happened since it began.
    #[must_use]
    pub fn activity(&self) -> CacheActivity {
        self.activity.read()
    }

    /// What each row of a fleet holds of a prompt, for display.
    #[must_use]
    pub fn overlaps(
        &self,
        settings: &RouterSettings,
        chain: &[u64],
        snapshot: &Snapshot,
    ) -> Vec<RowOverlap> {
        let mut view = CacheView::default();
        view.fill(self, settings, chain, snapshot);
        (0..snapshot.rows.len()).map(|row| view.row(row).unwrap_or_default()).collect()
    }

    /// What one rank holds of a prompt.
    pub(crate) fn row(
        &self,
        settings: &RouterSettings,
        rank: WorkerRank,
        chain: &[u64],
    ) -> RowOverlap {
        if chain.is_empty() {
            return RowOverlap::default();
        }
        let told = settings.use_kv_events.then(|| self.index.look_up_rank(chain, rank));
        let [device, lower @ ..] = told.unwrap_or_default();
        let predicted = self.predictions.look_up_rank(chain, rank);
        RowOverlap::of_blocks(settings, device.max(predicted), lower)
    }

    /// Whoever has left or begun anew since is forgotten. An older fleet than the last is nothing.
    pub(crate) fn realign(&self, after: &Arc<Snapshot>) {
        let mut fleet = self.fleet.write();
        let Some(before) = fleet.replace(after.clone()) else { return };
        if before.generation > after.generation {
            *fleet = Some(before);
            return;
        }
        let both = before.rows.iter().zip(before.continued_in(after));
        // Ascending, as rows are.
        let gone: Vec<WorkerRank> =
            both.filter(|(_, row)| row.is_none()).map(|(rank, _)| *rank).collect();
        if !gone.is_empty() {
            self.index.remove_ranks(|rank| gone.binary_search(&rank).is_ok());
            self.predictions.remove_ranks(|rank| gone.binary_search(&rank).is_ok());
        }
    }

    /// Takes note of the settings. When they change what is kept and how, what was kept before
    /// doesn't stay for ever: what was to go by capacity ends in time, and what was predicted of a
    /// rank that tells is forgotten.
    pub(crate) fn heed(&self, settings: &RouterSettings, now_ms: u64) {
        let lru = settings.router_approximate_cache_policy == ApproximateCachePolicy::Lru;
        let now = 1 | u8::from(settings.use_kv_events) << 1 | u8::from(lru) << 2;
        if self.heeded.load(Ordering::Relaxed) == now {
            return;
        }
        self.heeded.store(now, Ordering::Relaxed);
        if !lru {
            self.predictions.keep_by_time(millis(settings.router_ttl_secs), now_ms);
        }
        if settings.use_kv_events {
            self.predictions.remove_ranks(|rank| self.tells(rank));
        }
    }

    /// A prompt goes to a rank, in this life of its worker. Returns what stays booked in its
    /// imagined memory until it ends; of a long prompt only the first blocks are there by then.
    pub(crate) fn record(
        &self,
        settings: &RouterSettings,
        (rank, epoch): (WorkerRank, Epoch),
        chain: &Arc<[u64]>,
        capacity: Option<u64>,
        now_ms: u64,
    ) -> Option<RunningPrompt> {
        if chain.is_empty() {
            return None;
        }
        let fleet = self.fleet.read();
        if !is_there(&fleet, rank, Some(epoch)) {
            return None;
        }
        let believed = |rank| settings.use_kv_events && self.tells(rank);
        if believed(rank) {
            let ttl_ms = millis(settings.router_predicted_ttl_secs?);
            return self.predictions.record(Keep::Time { ttl_ms }, rank, chain, capacity, now_ms);
        }
        let ttl_ms = millis(settings.router_ttl_secs);
        let keep = match settings.router_approximate_cache_policy {
            ApproximateCachePolicy::Ttl => Keep::Time { ttl_ms },
            ApproximateCachePolicy::Lru => Keep::Capacity { ttl_ms },
        };
        let prompt = self.predictions.record(keep, rank, chain, capacity, now_ms);
        // Its engine may have begun to tell meanwhile; then this came too late to be forgotten.
        if believed(rank) {
            self.predictions.remove_rank(rank);
        }
        prompt
    }

    fn take_in<Held>(
        &self,
        rank: WorkerRank,
        mut epoch: Option<Epoch>,
        event: CacheEvent<'_>,
        mut enter: impl FnMut() -> Option<Held>,
    ) -> Applied {
        let mut change = Change::new(rank, event);
        let mut is_first = true;
        while let Some(held) = enter() {
            // Held to the end of a step, so that whoever leaves meanwhile leaves behind it.
            let fleet = self.fleet.read();
            if !is_there(&fleet, rank, epoch) {
                change.give_up();
                break;
            }
            if is_first {
                is_first = false;
                // All of an event is of the life that it began in.
                epoch = fleet.as_deref().and_then(|snapshot| epoch_of(snapshot, rank));
                self.expect(rank);
            }
            let more = self.index.step(&mut change);
            drop((fleet, held));
            if !more {
                break;
            }
        }
        let applied = change.applied();
        self.activity.stored(applied.stored + applied.stored_again);
        applied
    }

    fn expect(&self, rank: WorkerRank) {
        if !self.index.knows(rank) {
            self.index.expect(rank);
            self.predictions.remove_rank(rank);
        }
    }
}

/// Whether a rank is of the fleet, in one life of its worker or in any.
fn is_there(fleet: &Option<Arc<Snapshot>>, rank: WorkerRank, epoch: Option<Epoch>) -> bool {
    let Some(snapshot) = fleet else { return true };
    epoch_of(snapshot, rank).is_some_and(|now| epoch.is_none_or(|epoch| epoch == now))
}

fn epoch_of(snapshot: &Snapshot, rank: WorkerRank) -> Option<Epoch> {
    Some(snapshot.worker(snapshot.row_of(rank)?)?.epoch)
}

fn millis(seconds: f64) -> u64 {
    Duration::try_from_secs_f64(seconds)
        .map_or(u64::MAX, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
