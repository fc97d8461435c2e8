//! What a partition knows of its workers' caches.
//!
//! Owns the index that engines' events feed, the predictions that decisions feed, and which of the
//! two speaks for a rank: an engine that tells of its cache is believed; where nothing tells, or
//! ahead of what will be told if the settings say so, a prompt counts as cached where it was sent.
//! It doesn't know policies or columns beyond blocks by tier, or how events arrive.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::fleet::Snapshot;
use crate::ids::WorkerRank;
use crate::index::{
    Applied, CacheEvent, IndexStats, Keep, Overlap, Predictions, PrefixIndex, RankStats,
    RunningPrompt, Tier,
};
use crate::policy::settings::{ApproximateCachePolicy, RouterSettings};

/// The caches of one partition's workers.
#[derive(Debug, Default)]
pub struct PartitionCache {
    index: PrefixIndex,
    predictions: Arc<Predictions>,
}

impl PartitionCache {
    /// A rank's engine will tell of its cache from now on: what was predicted of it is forgotten.
    pub fn expect_events(&self, rank: WorkerRank) {
        if !self.index.knows(rank) {
            self.index.expect(rank);
            self.predictions.remove_rank(rank);
        }
    }

    /// A rank's engine tells of a change.
    pub fn apply(&self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied {
        self.expect_events(rank);
        self.index.apply(rank, event)
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
        self.predictions.expire(now_ms);
        self.index.tidy()
    }

    /// What engines' events say.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        self.index.stats()
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
        let [device, host, disk, external] = told.unwrap_or_default();
        let device = device.max(self.predictions.look_up_rank(chain, rank));
        let mut effective = device as f64;
        for ((_, weight), blocks) in lower_weights(settings).into_iter().zip([host, disk, external])
        {
            effective += blocks as f64 * weight;
        }
        RowOverlap {
            device_blocks: device,
            host_blocks: host,
            disk_blocks: disk,
            external_blocks: external,
            effective_blocks: effective,
        }
    }

    /// Who is leaving or beginning anew in the step from one snapshot to the next is forgotten.
    pub(crate) fn realign(&self, before: &Snapshot, after: &Snapshot) {
        for (row, &rank) in before.rows.iter().enumerate() {
            let epoch = before.worker(row).map(|worker| worker.epoch);
            let still = after.row_of(rank).and_then(|row| after.worker(row));
            if still.map(|worker| worker.epoch) != epoch {
                self.remove_rank(rank);
            }
        }
    }

    /// A prompt goes to a rank. Returns what stays booked in its imagined memory until it ends.
    pub(crate) fn record(
        &self,
        settings: &RouterSettings,
        rank: WorkerRank,
        chain: &Arc<[u64]>,
        capacity: Option<u64>,
        now_ms: u64,
    ) -> Option<RunningPrompt> {
        let keep = if settings.use_kv_events && self.tells(rank) {
            Keep::Time { ttl_ms: millis(settings.router_predicted_ttl_secs?) }
        } else {
            let ttl_ms = millis(settings.router_ttl_secs);
            match settings.router_approximate_cache_policy {
                ApproximateCachePolicy::Ttl => Keep::Time { ttl_ms },
                ApproximateCachePolicy::Lru => Keep::Capacity { ttl_ms },
            }
        };
        self.predictions.record(keep, rank, chain, capacity, now_ms)
    }
}

fn millis(seconds: f64) -> u64 {
    Duration::try_from_secs_f64(seconds)
        .map_or(u64::MAX, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// The caches as one decision sees them: columns by row, filled once for all that ask.
#[derive(Debug, Default)]
pub struct CacheView {
    told: Overlap,
    predicted: Overlap,
    /// The device's column: the larger of what is told and what is predicted.
    device: Vec<f64>,
    effective: Vec<f64>,
    filled: bool,
}

/// What a block of each tier below the device's weighs.
fn lower_weights(settings: &RouterSettings) -> [(Tier, f64); Tier::COUNT - 1] {
    let (host, disk) = (settings.host_cache_hit_weight, settings.disk_cache_hit_weight);
    [(Tier::Host, host), (Tier::Disk, disk), (Tier::External, disk)]
}

impl CacheView {
    /// Nothing is known of the next decision.
    pub(crate) fn forget(&mut self) {
        self.filled = false;
    }

    /// Looks a prompt up, unless that was done for this decision.
    pub(crate) fn fill(
        &mut self,
        cache: &PartitionCache,
        settings: &RouterSettings,
        chain: &[u64],
        snapshot: &Snapshot,
    ) {
        if std::mem::replace(&mut self.filled, true) {
            return;
        }
        let rows = snapshot.rows.len();
        if chain.is_empty() || !settings.use_kv_events {
            self.told.clear(rows);
        } else {
            cache.index.look_up(chain, snapshot, &mut self.told);
        }
        self.device.clear();
        self.device.extend_from_slice(self.told.blocks(Tier::Device));
        if chain.is_empty() || cache.predictions.is_empty() {
            self.predicted.clear(rows);
        } else {
            cache.predictions.look_up(chain, snapshot, &mut self.predicted);
            let predicted = self.predicted.blocks(Tier::Device);
            self.device.iter_mut().zip(predicted).for_each(|(to, &blocks)| *to = to.max(blocks));
        }
        self.effective.clear();
        self.effective.extend_from_slice(&self.device);
        for (tier, weight) in lower_weights(settings) {
            if weight != 0.0 {
                let blocks = self.told.blocks(tier);
                self.effective.iter_mut().zip(blocks).for_each(|(to, &b)| *to += b * weight);
            }
        }
    }

    /// Whether any row holds anything of the prompt.
    #[must_use]
    pub fn any(&self) -> bool {
        self.told.any() || self.predicted.any()
    }

    /// Leading blocks in each row's device memory.
    #[must_use]
    pub fn device(&self) -> &[f64] {
        &self.device
    }

    /// Blocks of a tier below the device's that follow; empty where no such tier holds anything.
    #[must_use]
    pub fn lower(&self, tier: Tier) -> &[f64] {
        self.told.blocks(tier)
    }

    /// The weighted estimate over all tiers, in blocks.
    #[must_use]
    pub fn effective(&self) -> &[f64] {
        &self.effective
    }

    /// What one row holds; none if nobody asked what the rows hold.
    #[must_use]
    pub fn row(&self, row: usize) -> Option<RowOverlap> {
        let of = |column: &[f64]| column.get(row).copied().unwrap_or(0.0);
        self.filled.then(|| RowOverlap {
            device_blocks: of(&self.device) as u64,
            host_blocks: of(self.lower(Tier::Host)) as u64,
            disk_blocks: of(self.lower(Tier::Disk)) as u64,
            external_blocks: of(self.lower(Tier::External)) as u64,
            effective_blocks: of(&self.effective),
        })
    }
}

/// What a row holds of a prompt, in blocks: the leading ones on the device, then those that follow
/// in each slower tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct RowOverlap {
    /// In the device's memory, or predicted to be.
    pub device_blocks: u64,
    /// In the host's.
    pub host_blocks: u64,
    /// On its disk.
    pub disk_blocks: u64,
    /// In an external store.
    pub external_blocks: u64,
    /// All of them, weighted by tier.
    pub effective_blocks: f64,
}

impl RowOverlap {
    /// Prompt tokens that the engine needn't compute, as far as is known: whole blocks of the
    /// device and the host's tiers, and never the last token, which an engine computes always.
    #[must_use]
    pub fn usable_tokens(&self, prompt_tokens: u64, block_size: u32) -> u64 {
        let size = u64::from(block_size.max(1));
        let blocks =
            self.device_blocks + self.host_blocks + self.disk_blocks + self.external_blocks;
        let usable = prompt_tokens.saturating_sub(1) / size;
        blocks.min(usable) * size
    }
}

/// How many blocks of sorted, half-open ranges of positions stand at `position` or behind it.
#[must_use]
pub fn shared_beyond(hits: &[Range<u32>], position: u32) -> u64 {
    let beyond = |hit: &Range<u32>| u64::from(hit.end.saturating_sub(hit.start.max(position)));
    hits.iter().map(beyond).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_blocks_count_from_where_the_device_ends() {
        let hits = [2..5, 8..10];
        let counts = [0, 2, 3, 5, 9, 10, 11].map(|position| shared_beyond(&hits, position));
        assert_eq!(counts, [5, 5, 4, 2, 1, 0, 0]);
        assert_eq!(shared_beyond(&[], 0), 0);
    }

    #[test]
    fn the_last_token_is_never_taken_from_a_cache() {
        let overlap = RowOverlap { device_blocks: 3, host_blocks: 1, ..RowOverlap::default() };
        let tokens = [0, 1, 16, 17, 64, 65, 1000].map(|tokens| overlap.usable_tokens(tokens, 16));
        assert_eq!(tokens, [0, 0, 0, 16, 48, 64, 64]);
    }
}
