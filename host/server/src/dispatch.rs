//! From an async task to a decision: one at a time per partition, and never a blocked thread.
//!
//! Owns the gate of each partition, at which tasks (not threads) wait, for as long as there is the
//! partition, and the choice between deciding in place and on a pool: a partition whose policy is
//! slow is decided on blocking threads, so that it can't hold up the others. A decision that needs
//! nothing that others hold is made past the gate. It doesn't know HTTP.
//!
//! Behind the gate there may be a line: requests that wait for a worker to have less to do. See
//! `waiting`.

mod gate;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::RouteError;
use pointsman_core::admission::{ClassReport, Foreseen, Line};
use pointsman_core::clock::Stopwatch;
use pointsman_core::eligibility::BusyThresholds;
use pointsman_core::ids::PartitionKey;
use pointsman_core::partition::{Decision, Mode, Partition};
use pointsman_core::policy::pipeline::Told;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{InstallError, Installed, Policies, Router};
use pointsman_core::{BuildError, router::RegisterError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::clock::RouterClock;
use gate::{Gate, Pause};
use waiting::{Desk, Entered};

/// For how long a partition's policies are told of outcomes before decisions have their turn again.
const TELLING: Duration = Duration::from_millis(1);

/// Blocking threads that slow partitions share.
const POOL: usize = 4;

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
    /// One for each gate behind which somebody waits. They end with this.
    attendants: Mutex<JoinSet<()>>,
}

impl Dispatcher {
    /// A dispatcher for `router`.
    #[must_use]
    pub fn new(router: Arc<Router>, clock: Arc<RouterClock>) -> Self {
        let pool = Arc::new(Semaphore::new(POOL));
        Self { router, clock, gates: Mutex::default(), pool, attendants: Mutex::default() }
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

    /// Decides, as soon as a worker has little enough to do if the request's class waits for that.
    /// Dropping the future takes the request out of the line; a booking that was made already, or is
    /// being made on the pool, is given back.
    pub async fn decide(
        &self,
        request: Arc<RouteRequest>,
        mode: Mode,
    ) -> Result<Decision, DispatchError> {
        self.decide_then(request, mode, |decision, _| decision).await
    }

    /// The same. `then` is done with the decision, and with the milliseconds for which the request waited
    /// if it did, before the partition makes the next one, and also
    /// if nobody waits for it any more; it is to be quick. Where decisions need nothing of each other
    /// they are made at once, without a turn.
    pub async fn decide_then<T: Send + 'static>(
        &self,
        request: Arc<RouteRequest>,
        mode: Mode,
        then: impl FnOnce(Decision, Option<u64>) -> T + Send + 'static,
    ) -> Result<T, DispatchError> {
        if mode == Mode::Book
            && let Some(decision) = self.router.route_hosted(&request, self.clock.moment())
        {
            return Ok(then(decision, None));
        }
        let desk = self.desk(self.gate(&request.partition));
        let enters = desk.clone();
        match desk.in_turn(move || enters.enter(&request, mode, then)).await? {
            Entered::Decided(outcome) => Ok(outcome?),
            Entered::Waits(stay) => {
                self.attend(&desk);
                let outcome = desk.outcome(stay).await;
                let gone = || DispatchError::Abandoned("the one who decided is gone".to_owned());
                Ok(outcome.ok_or_else(gone)??)
            }
        }
    }

    /// What the line before a partition would have in store for a request that came now; none where
    /// there is no such partition. Nothing is decided, and nobody waits.
    ///
    /// # Errors
    ///
    /// The thread that looked died.
    pub async fn foresee(
        &self,
        request: Arc<RouteRequest>,
    ) -> Result<Option<Foreseen>, DispatchError> {
        let desk = self.desk(self.gate(&request.partition));
        let looks = desk.clone();
        desk.in_turn(move || looks.foresee(&request)).await
    }

    /// Sees to it that somebody goes when load falls.
    fn attend(&self, desk: &Desk) {
        if let Some(attendance) = desk.attendance() {
            let mut attendants = self.attendants.lock();
            // Those that have ended.
            while attendants.try_join_next().is_some() {}
            attendants.spawn(attendance);
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
        let (router, lines) = (self.router.clone(), gates.clone());
        blocking(move || {
            let installed = router.install(prepared)?;
            for gate in &lines {
                // Whoever waits may have less to wait for now.
                gate.line.lock().heed(&router.queue_profile(&gate.partition.model));
                if let Some(partition) = router.partition(&gate.partition) {
                    partition.ledger().relief().rest();
                }
                gate.rings.ring();
            }
            Ok(installed)
        })
        .await?
    }

    /// Sets beyond what a rank of a model's workers is busy: see [`Router::set_busy_thresholds`]. Whoever
    /// waits is looked at again.
    pub fn set_busy_thresholds(&self, model: &str, thresholds: Option<BusyThresholds>) -> bool {
        let known = self.router.set_busy_thresholds(model, thresholds);
        let gates = self.gates.lock();
        gates
            .values()
            .filter(|gate| &*gate.partition.model == model)
            .for_each(|it| it.look_again());
        known
    }

    /// How each class of a partition does: what waits there, and what has happened.
    #[must_use]
    pub fn classes(&self, partition: &PartitionKey) -> Vec<ClassReport> {
        let gate = self.gates.lock().get(partition).cloned();
        match gate {
            Some(gate) => gate.line.lock().report(),
            None => Line::<()>::new(self.router.queue_profile(&partition.model)).report(),
        }
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

    fn desk(&self, gate: Arc<Gate>) -> Desk {
        let (router, clock, pool) = (self.router.clone(), self.clock.clone(), self.pool.clone());
        Desk { router, clock, gate, pool }
    }

    fn gate(&self, partition: &PartitionKey) -> Arc<Gate> {
        let mut gates = self.gates.lock();
        if let Some(gate) = gates.get(partition) {
            return gate.clone();
        }
        let profile = self.router.queue_profile(&partition.model);
        let gate = Arc::new(Gate::new(partition.clone(), profile));
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
