//! The roster: the registered workers, how each stands, and what the fleet is told of it.
//!
//! Owns the steps of a worker's life and their order. The keeper asks it on behalf of others, the
//! watching tasks on behalf of time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::fleet::{Epoch, WorkerSpec};
use pointsman_core::ids::{PartitionKey, WorkerId};
use pointsman_core::partition::Partition;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cache::CacheLife;
use super::error::KeeperError;
use super::keeper::{KeeperConfig, Origin};
use super::load::LoadLife;
use super::probe::{Pulse, Target};
use super::registration::Registration;
use super::standing::{Farewell, Standing};
use super::view::WorkerView;
use super::watch::{Nudge, Tick, Watch};
use crate::dispatch::Dispatcher;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) epoch: Epoch,
    /// Where it serves: another partition is another life.
    pub(super) partition: PartitionKey,
    pub(super) origin: Origin,
    pub(super) standing: Standing,
    /// What its engine tells of its cache.
    pub(super) cache: Arc<CacheLife>,
    /// What became of asking its engine for its load.
    pub(super) load: Arc<LoadLife>,
    pub(super) nudge: Nudge,
    /// Ends the task that watches this life.
    stop: CancellationToken,
}

/// The registered workers.
#[derive(Debug)]
pub(super) struct Roster {
    pub(super) config: KeeperConfig,
    pub(super) dispatcher: Arc<Dispatcher>,
    /// Held for moments only; the fleet and the ledgers are asked under it, never the other way.
    pub(super) entries: Mutex<BTreeMap<WorkerId, Entry>>,
    /// Registrations and removals, one at a time: both take more than one step.
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

impl Roster {
    /// Nobody yet. The tasks that watch workers end with `stop`.
    pub(super) fn new(
        dispatcher: Arc<Dispatcher>,
        config: KeeperConfig,
        stop: CancellationToken,
    ) -> Self {
        Self {
            config,
            dispatcher,
            entries: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stop,
        }
    }

    /// Registers; the caller has the turn. Returns whether the worker wasn't there before.
    pub(super) async fn register(
        self: &Arc<Self>,
        registration: Registration,
        origin: Origin,
    ) -> Result<bool, KeeperError> {
        let Registration { spec, lease } = registration;
        let id = spec.worker_id;
        let router = self.dispatcher.router();
        let created = router.worker(id).is_none();
        self.dispatcher.upsert_worker(spec).await?;
        let worker = router.worker(id).ok_or(KeeperError::Unknown(id))?;
        let partition = router.partition(&worker.spec.partition);
        let partition = partition.ok_or(KeeperError::Unknown(id))?;
        self.take_up(&worker.spec, worker.epoch, partition, lease, origin).await?;
        tracing::info!(worker = %id, epoch = worker.epoch.0, created, ?origin, "a worker is registered");
        Ok(created)
    }

    /// Takes up what is registered; the caller has the turn. What waits for the index is done on a
    /// thread that may wait, and not under the entries: those are asked for every answer.
    async fn take_up(
        self: &Arc<Self>,
        spec: &WorkerSpec,
        epoch: Epoch,
        partition: Arc<Partition>,
        lease: Option<Duration>,
        origin: Origin,
    ) -> Result<(), KeeperError> {
        let id = spec.worker_id;
        if let Some(cache) = self.go_on(id, epoch, lease, origin) {
            let feed = spec.cache_feed.clone();
            return aside(move || cache.describe(&feed)).await;
        }
        let earlier = {
            let entries = self.entries.lock();
            entries.get(&id).map(|earlier| {
                earlier.stop.cancel();
                (earlier.cache.clone(), earlier.partition.clone())
            })
        };
        let (ended, left) = earlier.unzip();
        let this = spec.clone();
        let cache = aside(move || {
            if let Some(ended) = ended {
                ended.end();
            }
            CacheLife::begin(&this, epoch, partition)
        })
        .await?;
        self.begin(spec, epoch, cache, left, lease, origin);
        Ok(())
    }

    /// Takes in a registration of a life that goes on; none if it doesn't.
    fn go_on(
        &self,
        id: WorkerId,
        epoch: Epoch,
        lease: Option<Duration>,
        origin: Origin,
    ) -> Option<Arc<CacheLife>> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&id).filter(|entry| entry.epoch == epoch)?;
        entry.origin = origin;
        entry.standing.registered_again(lease, Instant::now());
        entry.nudge.timing.notify_one();
        self.apply(id, entry);
        Some(entry.cache.clone())
    }

    /// Begins a life; the one before it is over, and was lived in the partition `left`.
    fn begin(
        self: &Arc<Self>,
        spec: &WorkerSpec,
        epoch: Epoch,
        cache: Arc<CacheLife>,
        left: Option<PartitionKey>,
        lease: Option<Duration>,
        origin: Origin,
    ) {
        let id = spec.worker_id;
        let path = &self.config.health.path;
        let watch = Watch {
            roster: self.clone(),
            id,
            epoch,
            target: Target::new(&spec.endpoint, path, self.config.worker_token.clone()),
            cache: cache.clone(),
            load: Arc::default(),
            nudge: Nudge::default(),
            stop: self.stop.child_token(),
        };
        let entry = Entry {
            epoch,
            partition: spec.partition.clone(),
            origin,
            standing: Standing::new(lease, Instant::now()),
            cache,
            load: watch.load.clone(),
            nudge: watch.nudge.clone(),
            stop: watch.stop.clone(),
        };
        let mut entries = self.entries.lock();
        self.apply(id, &entry);
        entries.insert(id, entry);
        if let Some(left) = left.filter(|left| *left != spec.partition) {
            self.keep_enough(&mut entries, &left);
        }
        drop(entries);
        self.tasks.spawn(watch.run());
    }

    /// Lets a worker go; the caller has the turn. Returns whether it is gone already.
    pub(super) async fn let_go(
        self: &Arc<Self>,
        id: WorkerId,
        force: bool,
        why: Farewell,
    ) -> Result<bool, KeeperError> {
        {
            let mut entries = self.entries.lock();
            let entry = entries.get_mut(&id).ok_or(KeeperError::Unknown(id))?;
            entry.standing.leave(why, Instant::now() + self.config.drain_timeout);
            self.apply_for_good(&mut entries, id);
            if !force && self.dispatcher.router().active_requests_of(id) > 0 {
                if let Some(entry) = entries.get(&id) {
                    entry.nudge.timing.notify_one();
                }
                return Ok(false);
            }
        }
        self.forget(id).await?;
        Ok(true)
    }

    /// Takes a draining worker out, if its time has come. True when this life of it is over.
    pub(super) async fn remove_if_drained(self: &Arc<Self>, id: WorkerId, epoch: Epoch) -> bool {
        // Nobody registers it again between the look and the removal.
        let _turn = self.turn.lock().await;
        let until = {
            let entries = self.entries.lock();
            let Some(entry) = entries.get(&id).filter(|entry| entry.epoch == epoch) else {
                return true;
            };
            let Some(until) = entry.standing.leaves_by() else { return false };
            until
        };
        let active = self.dispatcher.router().active_requests_of(id);
        if active > 0 && Instant::now() < until {
            return false;
        }
        if active > 0 {
            tracing::warn!(worker = %id, active, "a worker left with requests: its drain time is over");
        }
        // It fails only when all stops.
        let _ = self.forget(id).await;
        true
    }

    /// Takes a worker out; the caller has the turn. The entries aren't held meanwhile: the index is
    /// waited for.
    async fn forget(self: &Arc<Self>, id: WorkerId) -> Result<(), KeeperError> {
        let entry = self.entries.lock().remove(&id);
        let roster = self.clone();
        aside(move || {
            if let Some(entry) = &entry {
                // Before the router clears its ranks: so they stay cleared.
                entry.cache.end();
            }
            match roster.dispatcher.router().remove_worker(id) {
                Ok(_) => tracing::info!(worker = %id, "a worker is gone"),
                Err(error) => tracing::debug!(worker = %id, %error, "a worker was gone already"),
            }
            // Last, since who waits for this may be the task that it ends, with the turn in hand.
            if let Some(entry) = entry {
                entry.stop.cancel();
            }
        })
        .await
    }

    pub(super) fn probed(
        &self,
        id: WorkerId,
        epoch: Epoch,
        answer: Result<Pulse, String>,
        began: Instant,
    ) {
        let health = &self.config.health;
        if answer == Ok(Pulse::Asleep) {
            let mut sleeps = false;
            self.report(id, epoch, |standing, _| sleeps = standing.fell_asleep(Instant::now()));
            if let Some(cache) = self.cache_of(id, epoch).filter(|_| sleeps) {
                // It waits for the index.
                self.tasks.spawn_blocking(move || cache.fell_asleep());
            }
            return;
        }
        let answer = answer.map(|_| ());
        self.report(id, epoch, |standing, _| {
            standing.probed(answer, began, Instant::now(), health);
        });
    }

    /// What goes with one life of a worker; none when that is over.
    fn cache_of(&self, id: WorkerId, epoch: Epoch) -> Option<Arc<CacheLife>> {
        let entries = self.entries.lock();
        entries.get(&id).filter(|entry| entry.epoch == epoch).map(|entry| entry.cache.clone())
    }

    /// None when this life of the worker is over.
    pub(super) fn next_probe_in(&self, id: WorkerId, epoch: Epoch) -> Option<Duration> {
        let entries = self.entries.lock();
        let entry = entries.get(&id).filter(|entry| entry.epoch == epoch)?;
        Some(entry.standing.next_probe_in(&self.config.health))
    }

    pub(super) fn tick(&self, id: WorkerId, epoch: Epoch) -> Tick {
        let mut entries = self.entries.lock();
        if entries.get(&id).is_none_or(|entry| entry.epoch != epoch) {
            return Tick::Gone;
        }
        self.tick_entry(&mut entries, id);
        let Some(entry) = entries.get(&id) else { return Tick::Gone };
        if entry.standing.leaves_by().is_some() {
            return Tick::Leaving;
        }
        Tick::At(entry.standing.next_tick())
    }

    pub(super) fn tick_entry(&self, entries: &mut BTreeMap<WorkerId, Entry>, id: WorkerId) {
        if let Some(entry) = entries.get_mut(&id) {
            entry.standing.tick(Instant::now(), self.config.drain_timeout);
            self.apply_for_good(entries, id);
        }
    }

    /// Takes in a report about one life of a worker.
    pub(super) fn report(
        &self,
        id: WorkerId,
        epoch: Epoch,
        take: impl FnOnce(&mut Standing, &Nudge),
    ) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get_mut(&id).filter(|entry| entry.epoch == epoch) {
            let was_usable = entry.standing.is_usable();
            take(&mut entry.standing, &entry.nudge);
            if !was_usable && entry.standing.is_usable() {
                // It waits for the index, and nobody is to wait for the entries meanwhile.
                let cache = entry.cache.clone();
                self.tasks.spawn_blocking(move || cache.recovered());
            }
            self.apply_for_good(&mut entries, id);
        }
    }

    /// Tells the fleet how a worker stands, and looks at what that means for the others.
    fn apply_for_good(&self, entries: &mut BTreeMap<WorkerId, Entry>, id: WorkerId) {
        let Some(entry) = entries.get(&id) else { return };
        if self.apply(id, entry) && !entry.standing.is_usable() {
            let partition = entry.partition.clone();
            self.keep_enough(entries, &partition);
        }
    }

    /// Tells the fleet how a worker stands. Returns whether that is news.
    pub(super) fn apply(&self, id: WorkerId, entry: &Entry) -> bool {
        let availability = entry.standing.availability();
        match self.dispatcher.router().set_availability(id, availability) {
            Ok(false) => false,
            Ok(true) => {
                let reason = entry.standing.why().unwrap_or("none");
                tracing::info!(worker = %id, ?availability, reason, "a worker's availability changed");
                true
            }
            Err(error) => {
                tracing::debug!(worker = %id, %error, "the fleet doesn't know the worker");
                false
            }
        }
    }

    pub(super) fn origin(&self, id: WorkerId) -> Option<Origin> {
        self.entries.lock().get(&id).map(|entry| entry.origin)
    }

    /// A worker, as it is shown. Waits for its partition's index, so not for a thread that others
    /// need: see [`Roster::look`]. The entries are let go before that.
    pub(super) fn view(&self, id: WorkerId) -> Option<WorkerView> {
        let router = self.dispatcher.router();
        let worker = router.worker(id)?;
        let active = router.active_requests_of(id);
        let (view, cache) = {
            let entries = self.entries.lock();
            let entry = entries.get(&id)?;
            (WorkerView::new(&worker, entry, active, Instant::now()), entry.cache.clone())
        };
        Some(view.with_feeds(cache.view()))
    }

    /// The same, on a thread that may wait.
    pub(super) async fn look(self: &Arc<Self>, id: WorkerId) -> Result<WorkerView, KeeperError> {
        let roster = self.clone();
        let view = tokio::task::spawn_blocking(move || roster.view(id)).await;
        view.map_err(|_| KeeperError::Stopping)?.ok_or(KeeperError::Unknown(id))
    }
}

/// Does something on a thread that may wait.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, KeeperError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| KeeperError::Stopping)
}
