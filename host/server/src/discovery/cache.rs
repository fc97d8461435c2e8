//! What the engine of one life of a worker tells of its cache, and its way into the index.
//!
//! Owns, for each life: where its events come from (given, found by asking the engine, or pushed),
//! the feeds that bring them, and the [`gate`] that keeps what an earlier life still had to say from
//! a later one. The roster begins and ends it with the worker; the watching task follows the engine.
//! It doesn't know what events mean ([`crate::feeds`] does), or what the index is asked.
//!
//! Locks: the roster's entries, then a life's own, then its gate, then the index.

mod ask;
mod follow;
mod gate;
mod run;
mod turns;
mod view;

use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_core::fleet::{CacheFeed, CacheFeedMode, Epoch, WorkerSpec};
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use pointsman_core::partition::Partition;
use tokio::sync::Notify;

use crate::feeds::Source;
use run::{PushedRank, Run};

pub(super) use turns::Turns;
pub use view::{FeedView, HeldView};

/// The worker, as far as its cache goes.
#[derive(Debug)]
pub(super) struct Worker {
    id: WorkerId,
    ranks: Vec<DpRank>,
    block_size: u32,
    epoch: Epoch,
    seed: u64,
}

impl Worker {
    fn rank(&self, rank: u32) -> WorkerRank {
        WorkerRank { worker_id: self.id, dp_rank: DpRank(rank) }
    }
}

/// One life's events.
#[derive(Debug)]
pub(super) struct CacheLife {
    worker: Worker,
    partition: Arc<Partition>,
    state: Mutex<State>,
    /// Something is to be looked at before its time.
    wake: Notify,
}

#[derive(Debug)]
struct State {
    /// Where events are to come from.
    wanted: CacheFeed,
    /// Grows with every change of that.
    version: u64,
    /// None when the life is over.
    run: Option<Run>,
    /// The engine is to be asked again, if it is one that is asked.
    ask_again: bool,
    /// Why there are no feeds, or not all.
    problem: Option<String>,
}

/// Why nothing can be pushed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushRefusal {
    /// The worker says so.
    #[error("takes no pushed events: its kv_event_source_mode is {0}; register it with push")]
    Mode(&'static str),
    /// Its engine publishes.
    #[error(
        "takes no pushed events: its engine publishes at {0}; push nothing, or register it with push"
    )]
    Published(String),
    /// It isn't there any more, or begins anew.
    #[error("began anew meanwhile: nothing of it is known; push all that it holds again")]
    Over,
    /// It has no such rank, or several and none is named.
    #[error("has {}, {}; name one that it has as dp_rank", ranks_of(first, last), named_as(found))]
    Rank {
        /// The one that was named, if any was.
        found: Option<DpRank>,
        /// Its first.
        first: DpRank,
        /// Its last.
        last: DpRank,
    },
}

impl CacheLife {
    /// Before anything was told. The life before it, if there was one, has ended: what that left
    /// behind on its last step is cleared.
    pub(super) fn begin(spec: &WorkerSpec, epoch: Epoch, partition: Arc<Partition>) -> Arc<Self> {
        let worker = Worker {
            id: spec.worker_id,
            ranks: spec.ranks().collect(),
            block_size: spec.block_size.get(),
            epoch,
            seed: spec.worker_id.0 ^ epoch.0.rotate_left(40),
        };
        let run = Some(Run::start(&worker, partition.clone(), Vec::new()));
        let wanted = spec.cache_feed.clone();
        let state = State { wanted, version: 0, run, ask_again: false, problem: None };
        let life = Self { worker, partition, state: Mutex::new(state), wake: Notify::new() };
        life.ranks().for_each(|rank| life.partition.cache().remove_rank(rank));
        Arc::new(life)
    }

    /// Events are to come from elsewhere, if that is news: what is known is forgotten.
    pub(super) fn describe(&self, feed: &CacheFeed) {
        let mut state = self.state.lock();
        if state.wanted == *feed {
            return;
        }
        state.wanted = feed.clone();
        state.version += 1;
        state.problem = None;
        self.replace(&mut state, Vec::new());
        self.wake.notify_one();
    }

    /// It is over: once this returns, nothing of it reaches the index.
    pub(super) fn end(&self) {
        if let Some(run) = self.state.lock().run.take() {
            run.end();
        }
    }

    /// The worker was out of reach and is back, perhaps as another process: what was known of it is
    /// asked for again.
    pub(super) fn recovered(&self) {
        let mut state = self.state.lock();
        self.forget(&state);
        if let Some(run) = &state.run {
            run.feeds.iter().for_each(|one| one.feed.resync());
        }
        state.ask_again = true;
        self.wake.notify_one();
    }

    /// The engine sleeps, and has given up its cache.
    pub(super) fn fell_asleep(&self) {
        self.forget(&self.state.lock());
    }

    /// Whether pushed events are taken, of whatever rank.
    pub(super) fn takes_pushed(&self) -> Result<(), PushRefusal> {
        takes_pushed(&self.state.lock())
    }

    /// Who takes the pushed events of a rank; of the only one, if none is named.
    pub(super) fn pushed(&self, rank: Option<DpRank>) -> Result<Arc<PushedRank>, PushRefusal> {
        let mut state = self.state.lock();
        takes_pushed(&state)?;
        let run = state.run.as_mut().ok_or(PushRefusal::Over)?;
        let ranks = &self.worker.ranks;
        let (first, last) = match ranks.as_slice() {
            [] => return Err(PushRefusal::Over),
            [only] => (*only, *only),
            [first, .., last] => (*first, *last),
        };
        let named = rank.or((first == last).then_some(first));
        let known = named.filter(|rank| ranks.contains(rank));
        let known = known.ok_or(PushRefusal::Rank { found: rank, first, last })?;
        Ok(run.pushed(&self.worker, known))
    }

    /// What takes pushed events needs to know of the worker.
    pub(super) fn worker(&self) -> &Worker {
        &self.worker
    }

    /// What is known of its feeds. Waits for the index, but nobody waits for this meanwhile.
    pub(super) fn view(&self) -> (Vec<FeedView>, Option<String>) {
        let (mut feeds, problem) = {
            let state = self.state.lock();
            let feeds = state.run.as_ref().map(FeedView::all);
            (feeds.unwrap_or_default(), state.problem.clone())
        };
        for feed in &mut feeds {
            feed.look_up(self.partition.cache(), self.worker.rank(feed.rank));
        }
        (feeds, problem)
    }

    /// Does something while a view of it has to wait.
    #[cfg(test)]
    pub(super) fn while_held(&self, work: impl FnOnce()) {
        let _state = self.state.lock();
        work();
    }

    /// Ends the run that there is, clears, and begins one with these sources.
    fn replace(&self, state: &mut State, sources: Vec<Source>) {
        let Some(run) = state.run.take() else { return };
        run.end();
        self.ranks().for_each(|rank| self.partition.cache().remove_rank(rank));
        state.run = Some(Run::start(&self.worker, self.partition.clone(), sources));
    }

    /// All that was told and predicted of it, unless it is over: then others see to that.
    fn forget(&self, state: &State) {
        if let Some(run) = &state.run {
            run.gate.forget(self.ranks());
        }
    }

    fn ranks(&self) -> impl Iterator<Item = WorkerRank> + '_ {
        self.worker.ranks.iter().map(|rank| self.worker.rank(rank.0))
    }
}

fn ranks_of(first: &DpRank, last: &DpRank) -> String {
    if first == last { format!("rank {first} alone") } else { format!("ranks {first} to {last}") }
}

fn named_as(found: &Option<DpRank>) -> String {
    found.map_or_else(|| "and none is named".to_owned(), |rank| format!("not {rank}"))
}

fn takes_pushed(state: &State) -> Result<(), PushRefusal> {
    match state.wanted.kv_event_source_mode {
        CacheFeedMode::Zmq => return Err(PushRefusal::Mode("zmq")),
        CacheFeedMode::None => return Err(PushRefusal::Mode("none")),
        CacheFeedMode::Auto | CacheFeedMode::Push => {}
    }
    let feeds = &state.run.as_ref().ok_or(PushRefusal::Over)?.feeds;
    let given = state.wanted.kv_events_endpoints.values().next().cloned();
    match given.or_else(|| feeds.first().map(|one| one.source.endpoint.to_string())) {
        Some(endpoint) => Err(PushRefusal::Published(endpoint)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
