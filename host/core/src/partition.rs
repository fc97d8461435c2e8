//! One partition: the workers of one model, group and role, with one policy.
//!
//! Owns the ledger, what is known of caches, the pipelines and the one lock under which they decide:
//! decisions of a partition are serial, so that each sees what the one before it booked. It doesn't
//! know other partitions, queues or who asks.

mod attempt;
mod counters;
mod direct;
mod hosted;
mod observers;
mod overload;
mod rollout;
mod sessions;
mod slot;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use crate::affinity::Affinity;
use crate::cache::{CacheView, PartitionCache};
use crate::classifier::{self, Capacity, Desk};
use crate::clock::{Moment, Stopwatch};
use crate::eligibility::{BusyThresholds, Eligibility, LoadReports, Overload};
use crate::error::RouteError;
use crate::fleet::{Snapshot, WorkerSpec};
use crate::hosted::Hosting;
use crate::ids::{DecisionId, PartitionKey};
use crate::ledger::{Audit, Lease, Ledger};
use crate::outcome::{OutcomeReporter, Outcomes};
use crate::policy::breaker::BreakerState;
use crate::policy::catalog::Digest;
use crate::policy::instance::Usage;
use crate::policy::pipeline::Pipeline;
use crate::policy::settings::RouterSettings;
use crate::receipt::{PolicyLabel, Receipt};
use crate::recording::{Sample, Shelf};
use crate::request::RouteRequest;
use crate::rollout::{Canary, Shadow};
use counters::Counters;

pub use counters::Counts;
pub use direct::{DirectBooking, DirectError, PotentialLoad};
pub(crate) use slot::{Next, Slot};

/// How often a decision is made again because the fleet changed while it was made.
const MOST_ATTEMPTS: usize = 4;

/// How often, at most, a cache is tidied at one look at the clock: a few ten thousand runs, in steps
/// that let events and decisions in between.
const MOST_TIDYING: usize = 64;

/// What is wanted of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Choose and book.
    Book,
    /// The same, and keep what the choice was made from. The stages are asked one by one.
    Record,
    /// Choose, book nothing, and report every row. A policy with state sees it as any decision.
    DryRun,
}

/// A chosen worker, with the booking that goes with it.
#[derive(Debug)]
pub struct Decision {
    /// The worker as registered.
    pub worker: Arc<WorkerSpec>,
    /// The record.
    pub receipt: Receipt,
    /// The booking; none for a dry run.
    pub lease: Option<Lease>,
    /// By this, what becomes of it is told to policies that learn; none if none does, and for a dry
    /// run.
    pub reporter: Option<OutcomeReporter>,
    /// What it was made from: where that is to be recorded, or shown to those who only watch.
    pub sample: Option<Sample>,
}

/// How one instance does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Its type.
    #[serde(rename = "type")]
    pub policy_type: Arc<str>,
    /// Its component's identity; none for a native policy.
    pub digest: Option<Digest>,
    /// Whether it is asked.
    pub breaker: BreakerState,
    /// For how much longer it isn't; none unless the breaker is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_for_ms: Option<u64>,
    /// Decisions in a row that it failed.
    pub failures_in_a_row: u32,
    /// How it failed last, in words: a stage, or being told of outcomes; none if it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What it has used; none if nobody keeps count of that.
    #[serde(flatten)]
    pub usage: Option<Usage>,
}

/// A partition without workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vacancy {
    /// The fleet's generation in which the last one left.
    pub(crate) since: u64,
    /// Leases that have not been dropped, and requests that may yet become some.
    pub(crate) bookings: u64,
}

/// The workers of one model, group and role.
#[derive(Debug)]
pub struct Partition {
    key: PartitionKey,
    /// What the pipelines were made for.
    block_size: AtomicU32,
    ledger: Arc<Ledger>,
    cache: PartitionCache,
    affinity: Arc<Affinity>,
    slot: Mutex<Slot>,
    /// What its engines say of their own load.
    reports: Arc<Mutex<LoadReports>>,
    reads_shared_cache: Arc<AtomicBool>,
    outcomes: Arc<Outcomes>,
    desk: Arc<Desk>,
    counters: Counters,
    began: Stopwatch,
    /// An operator has turned its policy off.
    disabled: Arc<AtomicBool>,
    /// It serves nobody: policies are tried in it.
    trial: bool,
}

impl Partition {
    /// A partition of workers with this block size, decided by `current`, or by `fallback` where
    /// that fails.
    #[must_use]
    pub fn new(key: PartitionKey, block_size: u32, current: Pipeline, fallback: Pipeline) -> Self {
        let (reads_shared_cache, outcomes) = (Arc::<AtomicBool>::default(), Arc::default());
        let (ledger, disabled) = (Arc::<Ledger>::default(), Arc::<AtomicBool>::default());
        let reports = Arc::<Mutex<LoadReports>>::default();
        let slot = Slot {
            current,
            previous: None,
            good_decisions: 0,
            fallback,
            hosting: None,
            ledger: ledger.clone(),
            reports: reports.clone(),
            disabled: disabled.clone(),
            canary: None,
            shadows: Arc::default(),
            shelf: Shelf::default(),
            reads_shared_cache: reads_shared_cache.clone(),
            outcomes: Arc::clone(&outcomes),
            busy: BusyThresholds::default(),
            busy_here: None,
            queues: false,
            overload: Overload::default(),
            snapshot: None,
            eligibility: Eligibility::default(),
            caches: CacheView::default(),
        };
        slot.heed();
        Self {
            key,
            block_size: AtomicU32::new(block_size),
            ledger,
            slot: Mutex::new(slot),
            reports,
            reads_shared_cache,
            outcomes,
            cache: PartitionCache::of_fleet(),
            affinity: Arc::default(),
            desk: Arc::new(Desk::new()),
            counters: Counters::default(),
            began: Stopwatch::start(),
            disabled,
            trial: false,
        }
    }

    /// The same to try policies in; its log lines say so.
    #[must_use]
    pub fn for_trial(self) -> Self {
        Self { trial: true, ..self }
    }

    /// The same with those that come after its policy.
    #[must_use]
    pub(crate) fn followed_by(self, shadows: Vec<Arc<Shadow>>, canary: Option<Canary>) -> Self {
        self.slot.lock().follow(shadows, canary);
        self
    }

    /// The same with who decides without its lock, if somebody can, and beyond what a rank is busy.
    #[must_use]
    pub(crate) fn hosted_by(self, hosting: Option<Arc<Hosting>>, busy: BusyThresholds) -> Self {
        let mut slot = self.slot.lock();
        (slot.hosting, slot.busy) = (hosting, busy);
        slot.heed();
        drop(slot);
        self
    }

    /// Which partition it is.
    #[must_use]
    pub fn key(&self) -> &PartitionKey {
        &self.key
    }

    /// Its ledger.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Counts its load again from the live bookings: see [`Ledger::audit`]. For a look now and then.
    #[must_use]
    pub fn audit(&self) -> Audit {
        self.ledger.audit()
    }

    /// What is known of its workers' caches.
    #[must_use]
    pub fn cache(&self) -> &PartitionCache {
        &self.cache
    }

    /// Where its requests ask to be let in, before anything is decided about them.
    #[must_use]
    pub fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// What each of its workers' ranks can hold.
    pub(crate) fn capacities(&self) -> Arc<[Capacity]> {
        classifier::capacities(&self.ledger.snapshot())
    }

    /// Takes up a changed fleet.
    pub(crate) fn realign(&self, snapshot: Snapshot) {
        let snapshot = Arc::new(snapshot);
        self.desk.fleet_changed(classifier::capacities(&snapshot));
        // The cache first: who comes is known there before anything can be booked on it, and what a
        // booking on who leaves has to tell is refused.
        self.cache.realign(&snapshot);
        self.reports.lock().realign(&snapshot);
        self.ledger.realign(snapshot);
    }

    /// Cleans up behind ranks that have left, and forgets predictions whose time is over.
    pub(crate) fn tidy(&self, now_ms: u64) {
        self.ledger.seats().tidy();
        for _ in 0..MOST_TIDYING {
            if !self.cache.tidy(now_ms) {
                return;
            }
        }
    }

    /// Runs since it began, as its counts do.
    #[must_use]
    pub fn began(&self) -> Stopwatch {
        self.began
    }

    /// What it has done since it began.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read(&self.outcomes)
    }

    /// Tokens in one block of its workers: of the last ones, if there are none now.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.block_size.load(Ordering::Relaxed)
    }

    /// Since when it has had no worker, and what is still booked on those that it had; none while
    /// it has one.
    pub(crate) fn vacancy(&self) -> Option<Vacancy> {
        self.ledger.read(|books| {
            let vacant = books.snapshot.workers.is_empty();
            vacant.then(|| Vacancy {
                since: books.snapshot.generation,
                bookings: books.live_leases() + self.desk.live(),
            })
        })
    }

    /// The policy that decides now. Waits for a decision that is being made.
    #[must_use]
    pub fn policy(&self) -> PolicyLabel {
        self.slot.lock().current.label()
    }

    /// How the policy's instances do, in the order of its recipe. Waits for a decision that is being
    /// made.
    #[must_use]
    pub fn standing(&self, now_ms: u64) -> Vec<Standing> {
        let slot = self.slot.lock();
        let sources = slot.current.sources().iter();
        let standing = sources.map(|source| Standing {
            policy_type: source.policy_type().clone(),
            digest: source.digest().cloned(),
            breaker: source.breaker().state(now_ms),
            open_for_ms: source.breaker().open_for_ms(now_ms),
            failures_in_a_row: source.breaker().failures_in_a_row(),
            last_error: source.last_error().map(ToString::to_string),
            usage: source.usage(),
        });
        standing.collect()
    }

    /// Whether an operator has turned its policy off.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.disabled.load(Ordering::Relaxed)
    }

    pub(crate) fn set_disabled(&self, disabled: bool) {
        let slot = self.slot.lock();
        self.disabled.store(disabled, Ordering::Relaxed);
        slot.host();
    }

    /// Whether requests of some class may have to wait: then none is decided past the lock, and past
    /// those who wait. Waits for a decision that is being made.
    pub(crate) fn set_queues(&self, queues: bool) {
        let mut slot = self.slot.lock();
        slot.queues = queues;
        slot.host();
    }

    /// Whether the policy that decides now reads what a cache that all workers share holds
    /// ([`RouteRequest::shared_hits`]). Never waits. Who stands in for a policy that failed isn't
    /// asked: it goes by what was found out for that one.
    #[must_use]
    pub fn reads_shared_cache(&self) -> bool {
        self.reads_shared_cache.load(Ordering::Relaxed)
    }

    /// Decides. Waits for a decision that is being made, so call it where waiting is allowed.
    pub fn decide(
        &self,
        request: &RouteRequest,
        settings: &Arc<RouterSettings>,
        decision_id: DecisionId,
        moment: Moment,
        mode: Mode,
    ) -> Result<Decision, RouteError> {
        let mut slot = self.slot.lock();
        let watch = Stopwatch::start();
        for _ in 0..MOST_ATTEMPTS {
            let attempt = self.attempt(&mut slot, request, settings, decision_id, moment, mode);
            let made = attempt.make(&mut slot, &watch);
            slot.snapshot = Some(attempt.snapshot);
            if let Some(mut decision) = made? {
                // A long prompt takes a while; the next decision needn't wait for all of it.
                drop(slot);
                if let Some(lease) = &mut decision.lease {
                    lease.predict();
                }
                return Ok(decision);
            }
        }
        // The fleet changes faster than we decide; as good as no fleet.
        Err(RouteError::NoEndpoints {
            partition: self.key.clone(),
            excluded: slot.eligibility.excluded,
        })
    }

    /// Holds decisions up until the guard is dropped: to put a new policy in place.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock()
    }

    /// Begins anew for workers of another block size: no state and no earlier version goes on.
    pub(crate) fn begin_anew(&self, block_size: u32, next: Next) {
        let mut slot = self.slot.lock();
        slot.hosting = None;
        slot.follow(next.shadows, next.canary);
        slot.decide_by(next.current);
        slot.previous = None;
        slot.good_decisions = 0;
        slot.fallback = next.fallback;
        (slot.hosting, slot.busy) = (next.hosting, next.busy);
        slot.heed();
        self.block_size.store(block_size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
