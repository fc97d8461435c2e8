//! One run of a worker's feeds: from when its sources became known until they are others, or its
//! life ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_core::ids::{DpRank, WorkerRank};
use pointsman_core::partition::Partition;

use super::Worker;
use super::gate::Gate;
use crate::feeds::pushed::{PushOutcome, Pushed};
use crate::feeds::{Feed, FeedConfig, FeedSnapshot, FeedStats, Intake, Source, Timing};
use crate::telemetry::Seldom;

/// A feed, and where it is from.
#[derive(Debug)]
pub(super) struct RankFeed {
    pub(super) source: Source,
    pub(super) feed: Feed,
    warned: Mutex<Warned>,
}

/// What was pushed of one rank.
#[derive(Debug)]
pub(in crate::discovery) struct PushedRank {
    rank: WorkerRank,
    intake: Mutex<Intake>,
    stats: FeedStats,
    gate: Arc<Gate>,
    warned: Mutex<Warned>,
}

/// What the log was told of a rank's block size.
#[derive(Debug, Default)]
struct Warned {
    /// The one that was complained of.
    size: Option<u32>,
    /// Blocks of one wrong size after those of another are no reason to tell it again and again.
    log: Seldom,
}

/// One run of a worker's feeds.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) gate: Arc<Gate>,
    pub(super) feeds: Vec<RankFeed>,
    pub(super) pushed: BTreeMap<DpRank, Arc<PushedRank>>,
}

impl Run {
    /// Starts a feed for each source; none at all takes what is pushed.
    pub(super) fn start(worker: &Worker, partition: Arc<Partition>, sources: Vec<Source>) -> Self {
        let gate = Gate::new(partition, worker.epoch);
        let start = |source: Source| {
            let rank = worker.rank(source.rank);
            let config = FeedConfig {
                rank,
                block_size: Some(worker.block_size),
                source: source.clone(),
                timing: Timing::default(),
                seed: worker.seed ^ u64::from(source.rank).rotate_left(17),
            };
            let feed = Feed::start(config, gate.clone());
            RankFeed { source, feed, warned: Mutex::default() }
        };
        let feeds = sources.into_iter().map(start).collect();
        Self { feeds, pushed: BTreeMap::new(), gate }
    }

    /// Ends it: nothing of it reaches the index from now on.
    pub(super) fn end(self) {
        self.gate.close();
    }

    pub(super) fn has_sources(&self, sources: &[Source]) -> bool {
        self.feeds.len() == sources.len()
            && self.feeds.iter().zip(sources).all(|(feed, source)| feed.source == *source)
    }

    /// What takes the pushed events of a rank.
    pub(super) fn pushed(&mut self, worker: &Worker, rank: DpRank) -> Arc<PushedRank> {
        let gate = &self.gate;
        let pushed = self.pushed.entry(rank).or_insert_with(|| {
            let rank = worker.rank(rank.0);
            Arc::new(PushedRank {
                rank,
                intake: Mutex::new(Intake::new(rank, Some(worker.block_size))),
                stats: FeedStats::default(),
                gate: gate.clone(),
                warned: Mutex::default(),
            })
        });
        pushed.clone()
    }

    /// Says once for each rank that its engine's blocks aren't those that the worker is said to have.
    pub(super) fn warn_of_block_sizes(&self, worker: &Worker) {
        for one in &self.feeds {
            warn(worker, one.source.rank, &one.feed.snapshot(), &one.warned);
        }
        for one in self.pushed.values() {
            one.warn(worker);
        }
    }
}

impl PushedRank {
    /// Applies what was pushed; none if the run has ended meanwhile. Pushes of one rank wait for each
    /// other, so call it where blocking is allowed.
    pub(in crate::discovery) fn take(
        &self,
        worker: &Worker,
        pushed: Pushed,
    ) -> Option<PushOutcome> {
        let outcome = pushed.apply(&mut self.intake.lock(), &self.stats, &*self.gate);
        self.warn(worker);
        self.gate.is_open().then_some(outcome)
    }

    pub(super) fn snapshot(&self) -> FeedSnapshot {
        self.stats.snapshot()
    }

    fn warn(&self, worker: &Worker) {
        warn(worker, self.rank.dp_rank.0, &self.snapshot(), &self.warned);
    }
}

fn warn(worker: &Worker, rank: u32, stats: &FeedSnapshot, warned: &Mutex<Warned>) {
    let mut warned = warned.lock();
    let size = stats.wrong_block_size;
    if size == warned.size {
        return;
    }
    if size.is_some() && warned.log.tell(stats.age_ms).is_none() {
        return;
    }
    warned.size = size;
    if let Some(size) = size {
        tracing::warn!(
            worker = %worker.id,
            rank,
            engine = size,
            registered = worker.block_size,
            "an engine's blocks have another size than its worker is registered with: none of its \
             events are indexed; register it with the engine's"
        );
    }
}
