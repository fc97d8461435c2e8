//! The keeper: registered workers, their standings, and the tasks that watch them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::fleet::{Availability, Epoch, WorkerSpec};
use pointsman_core::ids::WorkerId;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::error::KeeperError;
use super::probe::Target;
use super::registration::{Problems, Registration};
use super::standing::{Farewell, Standing};
use super::view::WorkerView;
use super::watch::{Nudge, Tick, Watch};
use crate::config::{Config, HealthConfig, Secret};
use crate::dispatch::Dispatcher;

/// Who registered a worker last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The configuration file: it leaves when the file no longer names it.
    File,
    /// The API.
    Api,
}

/// What the keeper goes by.
#[derive(Clone, Debug)]
pub struct KeeperConfig {
    /// How workers are probed.
    pub health: HealthConfig,
    /// How long requests of a worker that leaves may go on.
    pub drain_timeout: Duration,
    /// Sent with probes, as with requests.
    pub worker_token: Option<Secret>,
}

impl From<&Config> for KeeperConfig {
    fn from(config: &Config) -> Self {
        Self {
            health: config.health.clone(),
            drain_timeout: config.drain_timeout,
            worker_token: config.proxy.worker_token.clone(),
        }
    }
}

/// What a registration did.
#[derive(Clone, Debug)]
pub struct Registered {
    /// The worker wasn't there before.
    pub created: bool,
    /// The worker now.
    pub worker: WorkerView,
}

/// What a removal did.
#[derive(Clone, Debug)]
pub enum Removal {
    /// It is gone.
    Gone,
    /// It goes when it carries nothing any more.
    Draining(Box<WorkerView>),
}

#[derive(Debug)]
struct Entry {
    epoch: Epoch,
    origin: Origin,
    standing: Standing,
    nudge: Nudge,
    /// Ends the task that watches this life.
    stop: CancellationToken,
}

/// What the keeper and the watching tasks share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: KeeperConfig,
    dispatcher: Arc<Dispatcher>,
    /// Held for moments only; the fleet and the ledgers are asked under it, never the other way.
    entries: Mutex<BTreeMap<WorkerId, Entry>>,
    /// Registrations and removals, one at a time: both take more than one step.
    pub(super) turn: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Knows the workers: registers, probes and drains them. Its tasks end with it.
#[derive(Debug)]
pub struct WorkerKeeper {
    pub(super) shared: Arc<Shared>,
    _stop: DropGuard,
}

impl WorkerKeeper {
    /// A keeper without workers.
    #[must_use]
    pub fn new(dispatcher: Arc<Dispatcher>, config: KeeperConfig) -> Self {
        let stop = CancellationToken::new();
        let shared = Shared {
            config,
            dispatcher,
            entries: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        };
        Self { shared: Arc::new(shared), _stop: stop.drop_guard() }
    }

    /// Registers a worker, or changes one. A newcomer is ready at once, and probed at once.
    ///
    /// # Errors
    ///
    /// The fleet refuses it, or no policy could be made for its partition.
    pub async fn register(
        &self,
        registration: Registration,
        origin: Origin,
    ) -> Result<Registered, KeeperError> {
        self.owned(|shared| async move {
            let _turn = shared.turn.lock().await;
            shared.register(registration, origin).await
        })
        .await
    }

    /// Changes a worker by a description of what changes.
    ///
    /// # Errors
    ///
    /// Outer: as [`WorkerKeeper::register`], or there is no such worker. Inner: what is wrong with
    /// the description.
    pub async fn change(
        &self,
        id: WorkerId,
        changes: serde_json::Value,
    ) -> Result<Result<Registered, Problems>, KeeperError> {
        self.owned(move |shared| async move {
            // Read and written in one turn, so that of two changes neither is lost.
            let _turn = shared.turn.lock().await;
            let router = shared.dispatcher.router();
            let worker = router.worker(id).ok_or(KeeperError::Unknown(id))?;
            if worker.availability == Availability::Draining {
                return Err(KeeperError::Draining(id));
            }
            let (origin, lease) = {
                let entries = shared.entries.lock();
                let entry = entries.get(&id).ok_or(KeeperError::Unknown(id))?;
                (entry.origin, entry.standing.term().map(|term| term.length))
            };
            match Registration::changed(&worker.spec, lease, &changes) {
                Err(problems) => Ok(Err(problems)),
                Ok(registration) => Ok(Ok(shared.register(registration, origin).await?)),
            }
        })
        .await
    }

    /// Lets a worker go: at once when `force`d or idle, else when its requests have ended or the
    /// drain time is over.
    ///
    /// # Errors
    ///
    /// There is no such worker.
    pub async fn remove(&self, id: WorkerId, force: bool) -> Result<Removal, KeeperError> {
        self.owned(move |shared| async move {
            let _turn = shared.turn.lock().await;
            shared.let_go(id, force, Farewell::Deleted)
        })
        .await
    }

    /// Renews a worker's lease.
    ///
    /// # Errors
    ///
    /// There is no such worker, it has no lease, or it is leaving.
    pub fn heartbeat(&self, id: WorkerId) -> Result<WorkerView, KeeperError> {
        {
            let mut entries = self.shared.entries.lock();
            let entry = entries.get_mut(&id).ok_or(KeeperError::Unknown(id))?;
            // A lease that ran out this instant may not have been noticed yet.
            self.shared.tick_entry(id, entry);
            if entry.standing.availability() == Availability::Draining {
                return Err(KeeperError::Draining(id));
            }
            if !entry.standing.heartbeat(Instant::now()) {
                return Err(KeeperError::NoLease(id));
            }
            entry.nudge.timing.notify_one();
        }
        self.worker(id).ok_or(KeeperError::Unknown(id))
    }

    /// A connection to a worker failed: it gets nothing until a probe succeeds. A report about an
    /// earlier life of the worker is ignored.
    pub fn unreachable(&self, id: WorkerId, epoch: Epoch, why: &str) {
        let health = &self.shared.config.health;
        self.shared.report(id, epoch, |standing, nudge| {
            if standing.unreachable(why, Instant::now(), health) {
                nudge.probe.notify_one();
            }
        });
    }

    /// A worker said that it has too much to do: it gets nothing for so long, two seconds at most.
    /// A report about an earlier life of the worker is ignored.
    pub fn overloaded(&self, id: WorkerId, epoch: Epoch, for_: Duration) {
        self.shared.report(id, epoch, |standing, nudge| {
            standing.overloaded(for_, Instant::now());
            nudge.timing.notify_one();
        });
    }

    /// A worker by id.
    #[must_use]
    pub fn worker(&self, id: WorkerId) -> Option<WorkerView> {
        self.shared.view(id)
    }

    /// All workers, ascending by id.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerView> {
        let ids: Vec<_> = self.shared.entries.lock().keys().copied().collect();
        ids.into_iter().filter_map(|id| self.shared.view(id)).collect()
    }

    /// Ends all tasks and waits for their end. Workers stay registered.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Runs work of several steps to its end, even if the caller goes away in the middle.
    pub(super) async fn owned<T, F>(
        &self,
        work: impl FnOnce(Arc<Shared>) -> F,
    ) -> Result<T, KeeperError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, KeeperError>> + Send + 'static,
    {
        if self.shared.stop.is_cancelled() {
            return Err(KeeperError::Stopping);
        }
        let done = self.shared.tasks.spawn(work(self.shared.clone())).await;
        done.unwrap_or(Err(KeeperError::Stopping))
    }
}

impl Shared {
    /// Registers; the caller has the turn.
    pub(super) async fn register(
        self: &Arc<Self>,
        registration: Registration,
        origin: Origin,
    ) -> Result<Registered, KeeperError> {
        let Registration { spec, lease } = registration;
        let id = spec.worker_id;
        let router = self.dispatcher.router();
        let created = router.worker(id).is_none();
        self.dispatcher.upsert_worker(spec).await?;
        let worker = router.worker(id).ok_or(KeeperError::Unknown(id))?;
        self.take_up(&worker.spec, worker.epoch, lease, origin);
        let worker = self.view(id).ok_or(KeeperError::Unknown(id))?;
        tracing::info!(worker = %id, epoch = worker.epoch.0, created, ?origin, "a worker is registered");
        Ok(Registered { created, worker })
    }

    fn take_up(
        self: &Arc<Self>,
        spec: &WorkerSpec,
        epoch: Epoch,
        lease: Option<Duration>,
        origin: Origin,
    ) {
        let (id, now) = (spec.worker_id, Instant::now());
        let mut entries = self.entries.lock();
        match entries.get_mut(&id) {
            Some(entry) if entry.epoch == epoch => {
                entry.origin = origin;
                entry.standing.registered_again(lease, now);
                entry.nudge.timing.notify_one();
                self.apply(id, entry);
            }
            earlier => {
                if let Some(earlier) = earlier {
                    earlier.stop.cancel();
                }
                let health = &self.config.health;
                let watch = Watch {
                    shared: self.clone(),
                    id,
                    epoch,
                    target: Target::new(
                        &spec.endpoint,
                        &health.path,
                        self.config.worker_token.clone(),
                    ),
                    nudge: Nudge::default(),
                    stop: self.stop.child_token(),
                };
                let entry = Entry {
                    epoch,
                    origin,
                    standing: Standing::new(lease, now),
                    nudge: watch.nudge.clone(),
                    stop: watch.stop.clone(),
                };
                self.apply(id, &entry);
                entries.insert(id, entry);
                self.tasks.spawn(watch.run());
            }
        }
    }

    /// Lets a worker go; the caller has the turn.
    pub(super) fn let_go(
        &self,
        id: WorkerId,
        force: bool,
        why: Farewell,
    ) -> Result<Removal, KeeperError> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&id).ok_or(KeeperError::Unknown(id))?;
        entry.standing.leave(why, Instant::now() + self.config.drain_timeout);
        self.apply(id, entry);
        if force || self.dispatcher.router().active_requests_of(id) == 0 {
            self.forget(&mut entries, id);
            return Ok(Removal::Gone);
        }
        entry.nudge.timing.notify_one();
        drop(entries);
        Ok(self.view(id).map_or(Removal::Gone, |view| Removal::Draining(Box::new(view))))
    }

    /// Takes a draining worker out, if its time has come. True when this life of it is over.
    pub(super) async fn remove_if_drained(&self, id: WorkerId, epoch: Epoch) -> bool {
        // Nobody registers it again between the look and the removal.
        let _turn = self.turn.lock().await;
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get(&id).filter(|entry| entry.epoch == epoch) else {
            return true;
        };
        let Some(until) = entry.standing.leaves_by() else { return false };
        let active = self.dispatcher.router().active_requests_of(id);
        if active > 0 && Instant::now() < until {
            return false;
        }
        if active > 0 {
            tracing::warn!(worker = %id, active, "a worker left with requests: its drain time is over");
        }
        self.forget(&mut entries, id);
        true
    }

    fn forget(&self, entries: &mut BTreeMap<WorkerId, Entry>, id: WorkerId) {
        if let Some(entry) = entries.remove(&id) {
            entry.stop.cancel();
        }
        match self.dispatcher.router().remove_worker(id) {
            Ok(_) => tracing::info!(worker = %id, "a worker is gone"),
            Err(error) => tracing::debug!(worker = %id, %error, "a worker was gone already"),
        }
    }

    pub(super) fn probed(
        &self,
        id: WorkerId,
        epoch: Epoch,
        answer: Result<(), String>,
        began: Instant,
    ) {
        let health = &self.config.health;
        self.report(id, epoch, |standing, _| {
            standing.probed(answer, began, Instant::now(), health);
        });
    }

    /// None when this life of the worker is over.
    pub(super) fn next_probe_in(&self, id: WorkerId, epoch: Epoch) -> Option<Duration> {
        let entries = self.entries.lock();
        let entry = entries.get(&id).filter(|entry| entry.epoch == epoch)?;
        Some(entry.standing.next_probe_in(&self.config.health))
    }

    pub(super) fn tick(&self, id: WorkerId, epoch: Epoch) -> Tick {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&id).filter(|entry| entry.epoch == epoch) else {
            return Tick::Gone;
        };
        self.tick_entry(id, entry);
        if entry.standing.leaves_by().is_some() {
            return Tick::Leaving;
        }
        Tick::At(entry.standing.next_tick())
    }

    fn tick_entry(&self, id: WorkerId, entry: &mut Entry) {
        entry.standing.tick(Instant::now(), self.config.drain_timeout);
        self.apply(id, entry);
    }

    /// Takes in a report about one life of a worker.
    fn report(&self, id: WorkerId, epoch: Epoch, take: impl FnOnce(&mut Standing, &Nudge)) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get_mut(&id).filter(|entry| entry.epoch == epoch) {
            take(&mut entry.standing, &entry.nudge);
            self.apply(id, entry);
        }
    }

    /// Tells the fleet how a worker stands.
    fn apply(&self, id: WorkerId, entry: &Entry) {
        let availability = entry.standing.availability();
        match self.dispatcher.router().set_availability(id, availability) {
            Ok(false) => {}
            Ok(true) => {
                let reason = entry.standing.why().unwrap_or("none");
                tracing::info!(worker = %id, ?availability, reason, "a worker's availability changed");
            }
            Err(error) => {
                tracing::debug!(worker = %id, %error, "the fleet doesn't know the worker")
            }
        }
    }

    pub(super) fn origin(&self, id: WorkerId) -> Option<Origin> {
        self.entries.lock().get(&id).map(|entry| entry.origin)
    }

    fn view(&self, id: WorkerId) -> Option<WorkerView> {
        let router = self.dispatcher.router();
        let worker = router.worker(id)?;
        let active = router.active_requests_of(id);
        let entries = self.entries.lock();
        let entry = entries.get(&id)?;
        Some(WorkerView::new(&worker, entry.origin, &entry.standing, active, Instant::now()))
    }
}

#[cfg(test)]
mod tests;
