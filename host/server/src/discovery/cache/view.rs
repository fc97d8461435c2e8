//! What is known of a worker's cache feeds, as it is shown.

use pointsman_core::cache::PartitionCache;
use pointsman_core::ids::WorkerRank;
use pointsman_core::index::RankStats;
use serde::Serialize;

use super::run::Run;
use crate::feeds::{Address, FeedSnapshot, FeedState, Source};

/// One rank's feed, as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct FeedView {
    /// The rank.
    pub rank: u32,
    /// Where events come from; none if they are pushed.
    pub endpoint: Option<Address>,
    /// Where old events are asked for again.
    pub replay_endpoint: Option<Address>,
    /// What is known of the feed. Pushed ones are always live.
    #[serde(flatten)]
    pub feed: FeedSnapshot,
    /// Blocks that the rank holds by what it told, by tier; none before it told anything.
    pub held: Option<HeldView>,
    /// Blocks that wait for their parent to be known.
    pub orphans: usize,
}

/// Blocks by tier.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HeldView {
    /// In the device's memory.
    pub device: usize,
    /// In the host's.
    pub host: usize,
    /// On its disk.
    pub disk: usize,
    /// In an external store.
    pub external: usize,
}

impl FeedView {
    /// Of each feed, without what the index has of it.
    pub(super) fn all(run: &Run) -> Vec<Self> {
        let of_feed = |source: Option<&Source>, rank: u32, feed: FeedSnapshot| Self {
            rank,
            endpoint: source.map(|source| source.endpoint.clone()),
            replay_endpoint: source.and_then(|source| source.replay_endpoint.clone()),
            feed,
            held: None,
            orphans: 0,
        };
        let feeds = run
            .feeds
            .iter()
            .map(|one| of_feed(Some(&one.source), one.source.rank, one.feed.snapshot()));
        let pushed = run.pushed.iter().map(|(rank, one)| {
            let live = FeedSnapshot { state: FeedState::Live, ..one.snapshot() };
            of_feed(None, rank.0, live)
        });
        feeds.chain(pushed).collect()
    }

    /// Adds what the index has.
    pub(super) fn look_up(&mut self, cache: &PartitionCache, rank: WorkerRank) {
        let stats = cache.rank_stats(rank);
        self.held = stats.map(HeldView::from);
        self.orphans = stats.map_or(0, |stats| stats.orphans);
    }
}

impl From<RankStats> for HeldView {
    fn from(stats: RankStats) -> Self {
        let [device, host, disk, external] = stats.held;
        Self { device, host, disk, external }
    }
}
