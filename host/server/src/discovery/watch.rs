//! The task that goes with each life of a worker: it probes, it lets time pass, and it follows what
//! the engine tells of its cache and of its load.
//!
//! It ends with the worker's life, or with the keeper.

use std::sync::Arc;
use std::time::Duration;

use pointsman_core::clock::Chance;
use pointsman_core::fleet::Epoch;
use pointsman_core::ids::WorkerId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::cache::CacheLife;
use super::load::{LoadLife, Whose};
use super::probe::{Target, Unasked};
use super::roster::Roster;

/// How often a worker that leaves is looked at. Releases come from everywhere and tell nobody.
const DRAIN_TICK: Duration = Duration::from_millis(50);

/// With no lease and no overload, nothing happens by the passing of time alone.
const FAR: Duration = Duration::from_secs(3_600);

/// What goes on for long is told once in so long.
const QUIET: Duration = Duration::from_secs(60);

/// What wakes the task up before its time.
#[derive(Clone, Debug, Default)]
pub(super) struct Nudge {
    /// The next probe is due at another time.
    pub(super) probe: Arc<Notify>,
    /// A deadline has changed.
    pub(super) timing: Arc<Notify>,
}

/// One life of one worker.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) roster: Arc<Roster>,
    pub(super) id: WorkerId,
    pub(super) epoch: Epoch,
    pub(super) target: Target,
    pub(super) cache: Arc<CacheLife>,
    pub(super) load: Arc<LoadLife>,
    pub(super) nudge: Nudge,
    pub(super) stop: CancellationToken,
}

impl Watch {
    pub(super) async fn run(self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.probe() => {}
            () = self.pass_time() => {}
            () = self.follow_cache() => {}
            () = self.follow_load() => {}
        }
    }

    async fn probe(&self) {
        if !self.roster.config.health.probes {
            return std::future::pending().await;
        }
        let mut chance = Chance::new(self.id.0 ^ self.epoch.0.rotate_left(32));
        let mut excused: Option<Instant> = None;
        loop {
            let began = Instant::now();
            let limit = self.roster.config.health.timeout;
            let answer = timeout(limit, self.target.ask()).await;
            let late = || Err(format!("no answer within {} ms", limit.as_millis()).into());
            match answer.unwrap_or_else(|_| late()) {
                Ok(pulse) => self.roster.probed(self.id, self.epoch, Ok(pulse), began),
                Err(Unasked::Worker(why)) => {
                    self.roster.probed(self.id, self.epoch, Err(why), began);
                }
                Err(Unasked::Shortage(error)) => {
                    // Nothing is learnt of the worker. Soon told again, but not by each probe.
                    if excused.is_none_or(|at| began.duration_since(at) >= QUIET) {
                        excused = Some(began);
                        tracing::warn!(worker = %self.id, %error, "a worker can't be probed for want of the router's own resources; raise the limit on open files");
                    }
                }
            }
            let ended = Instant::now();
            loop {
                let Some(wait) = self.roster.next_probe_in(self.id, self.epoch) else { return };
                // A tenth either way, so that probes of many workers don't beat in time.
                let wait = wait.mul_f64(0.9 + 0.2 * chance.unit());
                tokio::select! {
                    () = sleep_until(ended + wait) => break,
                    () = self.nudge.probe.notified() => {}
                }
            }
        }
    }

    async fn follow_cache(&self) {
        let router = self.roster.dispatcher.router();
        self.cache.follow(&self.target, router, self.roster.config.health.timeout).await;
    }

    async fn follow_load(&self) {
        let Some(config) = &self.roster.config.load_reports else {
            return std::future::pending().await;
        };
        let (id, epoch, dispatcher) = (self.id, self.epoch, &self.roster.dispatcher);
        let whose = Whose { id, epoch, target: &self.target, dispatcher };
        self.load.follow(whose, config).await;
    }

    async fn pass_time(&self) {
        loop {
            let next = match self.roster.tick(self.id, self.epoch) {
                Tick::Gone => return,
                Tick::At(next) => next.unwrap_or_else(|| Instant::now() + FAR),
                Tick::Leaving => {
                    if self.roster.remove_if_drained(self.id, self.epoch).await {
                        return;
                    }
                    Instant::now() + DRAIN_TICK
                }
            };
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.nudge.timing.notified() => {}
            }
        }
    }
}

/// What a look at a worker's deadlines says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tick {
    /// This life of it is over.
    Gone,
    /// Nothing to do before then.
    At(Option<Instant>),
    /// It leaves as soon as it carries nothing.
    Leaving,
}
