//! From an async task to a decision: one at a time per partition, and never a blocked thread.
//!
//! Owns the gate of each partition, at which tasks (not threads) wait, for as long as there is the
//! partition, and the choice between deciding in place and on a pool: a partition whose policy is
//! slow is decided on blocking threads, so that it can't hold up the others. A decision that needs
//! nothing that others hold is made past the gate. It doesn't know HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::RouteError;
use pointsman_core::clock::Stopwatch;
use pointsman_core::ids::PartitionKey;
use pointsman_core::partition::{Decision, Mode, Partition};
use pointsman_core::policy::pipeline::Told;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{InstallError, Installed, Policies, Router};
use pointsman_core::{BuildError, router::RegisterError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::clock::RouterClock;

/// A decision slower than this belongs on a pool.
const SLOW_MICROS: f64 = 200.0;

/// For how long a partition's policies are told of outcomes before decisions have their turn again.
const TELLING: Duration = Duration::from_millis(1);

/// Blocking threads that slow partitions share.
const POOL: usize = 4;

/// The gate of one partition.
#[derive(Debug)]
struct Gate {
    /// One permit: the tasks that wait stand in line. Whoever decides holds it to the end, be it a
    /// task or a thread.
    turn: Arc<Semaphore>,
    /// Somebody is to have the turn before all that stand in line: they step aside until then.
    paused: watch::Sender<bool>,
    /// Leaky count of slow decisions: how the last hundred or so went.
    slowness: AtomicU64,
}

/// A gate at which all step aside, until this is dropped.
struct Pause<'a>(&'a Gate);

impl<'a> Pause<'a> {
    fn of(gate: &'a Gate) -> Self {
        gate.paused.send_replace(true);
        Self(gate)
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.paused.send_replace(false);
    }
}

impl Gate {
    fn new() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            paused: watch::Sender::new(false),
            slowness: AtomicU64::new(0),
        }
    }

    /// Stands in line for the turn; none only if there will never be one again.
    async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            // The semaphore is never closed.
            let turn = self.turn.clone().acquire_owned().await.ok()?;
            if !*self.paused.borrow() {
                return Some(turn);
            }
            drop(turn);
            self.paused.subscribe().wait_for(|paused| !paused).await.ok()?;
        }
    }

    /// More than one decision in a hundred is slow.
    fn is_slow(&self) -> bool {
        self.slowness.load(Ordering::Relaxed) > Self::TURN_SLOW
    }

    /// A slow decision weighs as much as a hundred quick ones.
    fn note(&self, micros: f64) {
        let now = self.slowness.load(Ordering::Relaxed);
        let next =
            if micros > SLOW_MICROS { (now + 100).min(Self::MOST) } else { now.saturating_sub(1) };
        // Only the holder of the turn writes.
        self.slowness.store(next, Ordering::Relaxed);
    }

    /// Decides, and notes how long it took; by whoever has the turn.
    fn measured(
        &self,
        decide: impl FnOnce() -> Result<Decision, RouteError>,
    ) -> Result<Decision, RouteError> {
        let watch = Stopwatch::start();
        let decided = decide();
        self.note(match &decided {
            Ok(decision) => decision.receipt.micros,
            // A policy that fails slowly is as slow as one that decides slowly.
            Err(_) => watch.elapsed().as_nanos() as f64 / 1_000.0,
        });
        decided
    }

    const TURN_SLOW: u64 = 200;
    const MOST: u64 = 1_000;
}

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// The router says so.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A blocking thread died; a bug of ours or of a native policy.
    #[error("the decision was abandoned: {0}")]
    Abandoned(String),
}

/// Decides on behalf of async tasks.
#[derive(Debug)]
pub struct Dispatcher {
    router: Arc<Router>,
    clock: Arc<RouterClock>,
    gates: Mutex<BTreeMap<PartitionKey, Arc<Gate>>>,
    /// Places on the pool. A thread that decides holds one to the end.
    pool: Arc<Semaphore>,
}

impl Dispatcher {
    /// A dispatcher for `router`.
    #[must_use]
    pub fn new(router: Arc<Router>, clock: Arc<RouterClock>) -> Self {
        Self { router, clock, gates: Mutex::default(), pool: Arc::new(Semaphore::new(POOL)) }
    }

    /// The router.
    #[must_use]
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<RouterClock> {
        &self.clock
    }

    /// Decides. Dropping the future takes the request out of the line; a booking that was made
    /// already, or is being made on the pool, is given back.
    pub async fn decide(
        &self,
        request: Arc<RouteRequest>,
        mode: Mode,
    ) -> Result<Decision, DispatchError> {
        self.decide_then(request, mode, |decision| decision).await
    }

    /// The same. `then` is done with the decision before the partition makes the next one, and also
    /// if nobody waits for it any more; it is to be quick. Where decisions need nothing of each other
    /// they are made at once, without a turn.
    pub async fn decide_then<T: Send + 'static>(
        &self,
        request: Arc<RouteRequest>,
        mode: Mode,
        then: impl FnOnce(Decision) -> T + Send + 'static,
    ) -> Result<T, DispatchError> {
        if mode == Mode::Book
            && let Some(decision) = self.router.route_hosted(&request, self.clock.moment())
        {
            return Ok(then(decision));
        }
        let gate = self.gate(&request.partition);
        let turn = gate.enter().await;
        let (router, clock) = (self.router.clone(), self.clock.clone());
        if !gate.is_slow() {
            let decided = gate.measured(|| router.route(&request, clock.moment(), mode));
            return Ok(then(decided?));
        }
        let place = self.pool.clone().acquire_owned().await;
        // A thread can't be stopped: what it has taken goes with it, and is free when it is done,
        // not when its client hangs up. Else each client that does would leave one more thread
        // that waits for the partition.
        let (decided, waits) = oneshot::channel();
        let thread = tokio::task::spawn_blocking(move || {
            let outcome = gate.measured(|| router.route(&request, clock.moment(), mode));
            // What nobody waits for is given back before the next one is decided.
            drop(decided.send(outcome.map(then)));
            drop((turn, place));
        });
        match waits.await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => {
                let why = thread.await.err().map(|error| error.to_string());
                Err(DispatchError::Abandoned(why.unwrap_or_default()))
            }
        }
    }

    /// Puts policies in place: makes them off the decision path, then switches every partition
    /// while no task decides.
    pub async fn install(&self, policies: Policies) -> Result<Installed, InstallError> {
        let router = self.router.clone();
        let prepared = blocking(move || router.prepare(policies)).await??;
        let mut gates: Vec<_> =
            self.router.partitions().iter().map(|p| self.gate(p.key())).collect();
        // The slow ones first: the quick ones decide on until those have ended the decision that
        // they are at. Nobody waits for a line.
        gates.sort_by_key(|gate| std::cmp::Reverse(gate.slowness.load(Ordering::Relaxed)));
        let mut turns = Vec::with_capacity(gates.len());
        for gate in &gates {
            let pause = Pause::of(gate);
            turns.push((gate.turn.acquire().await, pause));
        }
        let router = self.router.clone();
        blocking(move || router.install(prepared)).await?
    }

    /// Tells a partition's policies what became of its decisions, as much as is quickly told.
    /// Returns how those that wanted to know took it. Nothing if somebody is at it.
    pub async fn tell_outcomes(&self, partition: &Arc<Partition>) -> Vec<Told> {
        let Some(telling) = partition.outcomes().begin_telling() else { return Vec::new() };
        // No task is to wait for the partition while they are told.
        let turn = self.gate(partition.key()).enter().await;
        let (its, now_ms) = (partition.clone(), self.clock.now_ms());
        let told = blocking(move || {
            let (mut all, mut told) = (Vec::new(), Vec::new());
            let watch = Stopwatch::start();
            while its.outcomes().any() && watch.elapsed() < TELLING {
                let outcomes = its.next_outcomes();
                told.extend(its.tell_deciders(&outcomes, now_ms));
                all.push(outcomes);
            }
            drop(turn);
            for outcomes in &all {
                told.extend(its.tell_shadows(outcomes, now_ms));
            }
            if told.iter().any(|told| told.failed.is_none()) {
                its.outcomes().were_told(all.iter().map(Vec::len).sum());
            }
            drop(telling);
            told
        });
        told.await.unwrap_or_else(|error| {
            tracing::error!(%error, "policies could not be told what became of decisions");
            Vec::new()
        })
    }

    /// Registers a worker; a policy may be made for its partition, so this takes a thread.
    pub async fn upsert_worker(
        &self,
        spec: pointsman_core::fleet::WorkerSpec,
    ) -> Result<(), RegisterError> {
        let router = self.router.clone();
        blocking(move || router.upsert_worker(spec)).await?
    }

    /// Forgets partitions that have been without workers for too long, and their gates, when so much
    /// time has passed since some start. Returns which.
    pub async fn forget_vacant(&self, passed: Duration) -> Vec<PartitionKey> {
        let now_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let router = self.router.clone();
        let gone = blocking(move || router.forget_vacant(now_ms)).await.unwrap_or_else(|error| {
            tracing::error!(%error, "vacant partitions could not be forgotten");
            Vec::new()
        });
        // A gate at which somebody stands stays until the next time, lest a second one be opened to
        // a partition that begins again.
        self.gates.lock().retain(|partition, gate| {
            Arc::strong_count(gate) > 1 || self.router.partition(partition).is_some()
        });
        gone
    }

    fn gate(&self, partition: &PartitionKey) -> Arc<Gate> {
        let mut gates = self.gates.lock();
        if let Some(gate) = gates.get(partition) {
            return gate.clone();
        }
        let gate = Arc::new(Gate::new());
        // A stranger's partition gets no gate to keep: names come from clients.
        if self.router.partition(partition).is_some() {
            gates.insert(partition.clone(), gate.clone());
        }
        gate
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BuildError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| BuildError::Abandoned(error.to_string()))
}

#[cfg(test)]
mod tests;
