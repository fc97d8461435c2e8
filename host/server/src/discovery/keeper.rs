//! The keeper: what others ask and tell of workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::fleet::{Availability, Epoch};
use pointsman_core::ids::{PartitionKey, WorkerId};
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::cache::{FeedView, Turns};
use super::error::{KeeperError, PushError};
use super::load::ScrapeCounts;
use super::registration::Registration;
use super::roster::Roster;
use super::standing::Farewell;
use super::view::WorkerView;
use crate::config::{Config, HealthConfig, LoadReportsConfig, Secret};
use crate::dispatch::Dispatcher;
use crate::feeds::pushed::{PushOutcome, Pushed};
use crate::json::Problems;

/// Who registered a worker last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The configuration file: it leaves when the file no longer names it.
    File,
    /// The API.
    Api,
    /// Something else that lists workers: it leaves when it is listed no longer.
    Listed,
}

/// What the keeper goes by.
#[derive(Clone, Debug)]
pub struct KeeperConfig {
    /// How workers are probed.
    pub health: HealthConfig,
    /// How engines are asked for their load; none: they aren't.
    pub load_reports: Option<LoadReportsConfig>,
    /// How long requests of a worker that leaves may go on.
    pub drain_timeout: Duration,
    /// Sent with probes, as with requests.
    pub worker_token: Option<Secret>,
}

impl From<&Config> for KeeperConfig {
    fn from(config: &Config) -> Self {
        Self {
            health: config.health.clone(),
            load_reports: config.load_reports.clone(),
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

/// What became of pushed events.
#[derive(Clone, Debug, Serialize)]
pub struct PushedEvents {
    /// The worker.
    pub worker_id: WorkerId,
    /// Which life of it: at another one than before, nothing is known of it, and all that it holds
    /// must be pushed again.
    pub epoch: Epoch,
    /// What became of them.
    #[serde(flatten)]
    pub outcome: PushOutcome,
}

/// Knows the workers: registers, probes and drains them. Its tasks end with it.
#[derive(Debug)]
pub struct WorkerKeeper {
    pub(super) roster: Arc<Roster>,
    /// What keeps those from it who list workers, by who it is.
    pub(super) sources: Mutex<BTreeMap<String, String>>,
    pushes: Turns,
    _stop: DropGuard,
}

impl WorkerKeeper {
    /// A keeper without workers.
    #[must_use]
    pub fn new(dispatcher: Arc<Dispatcher>, config: KeeperConfig) -> Self {
        let stop = CancellationToken::new();
        let roster = Roster::new(dispatcher, config, stop.clone());
        let (sources, pushes) = (Mutex::default(), Turns::default());
        Self { roster: Arc::new(roster), sources, pushes, _stop: stop.drop_guard() }
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
        self.owned(|roster| async move {
            let id = registration.spec.worker_id;
            let _turn = roster.turn.lock().await;
            let created = roster.register(registration, origin).await?;
            Ok(Registered { created, worker: roster.look(id).await? })
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
        self.owned(move |roster| async move {
            // Read and written in one turn, so that of two changes neither is lost.
            let _turn = roster.turn.lock().await;
            let router = roster.dispatcher.router();
            let worker = router.worker(id).ok_or(KeeperError::Unknown(id))?;
            if worker.availability == Availability::Draining {
                return Err(KeeperError::Draining(id));
            }
            let (origin, lease) = {
                let entries = roster.entries.lock();
                let entry = entries.get(&id).ok_or(KeeperError::Unknown(id))?;
                (entry.origin, entry.standing.term().map(|term| term.length))
            };
            match Registration::changed(&worker.spec, lease, &changes) {
                Err(problems) => Ok(Err(problems)),
                Ok(registration) => {
                    let created = roster.register(registration, origin).await?;
                    Ok(Ok(Registered { created, worker: roster.look(id).await? }))
                }
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
        self.owned(move |roster| async move {
            let _turn = roster.turn.lock().await;
            if roster.let_go(id, force, Farewell::Deleted).await? {
                return Ok(Removal::Gone);
            }
            let view = roster.look(id).await;
            Ok(view.map_or(Removal::Gone, |view| Removal::Draining(Box::new(view))))
        })
        .await
    }

    /// Renews a worker's lease. Waits for what the view waits for: see [`WorkerKeeper::worker`].
    ///
    /// # Errors
    ///
    /// There is no such worker, it has no lease, or it is leaving.
    pub fn heartbeat(&self, id: WorkerId) -> Result<WorkerView, KeeperError> {
        {
            let mut entries = self.roster.entries.lock();
            // A lease that ran out this instant may not have been noticed yet.
            self.roster.tick_entry(&mut entries, id);
            let entry = entries.get_mut(&id).ok_or(KeeperError::Unknown(id))?;
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

    /// A connection to a worker failed: it gets nothing until a probe succeeds. Where none is sent, that is
    /// a failure like any other. A report about an earlier life of the worker is ignored.
    pub fn unreachable(&self, id: WorkerId, epoch: Epoch, why: &str) {
        let health = &self.roster.config.health;
        if !health.probes {
            // Nothing would find out that it is back: it counts as a failed request.
            self.failed(id, epoch, Instant::now(), why);
            return;
        }
        self.roster.report(id, epoch, |standing, nudge| {
            if standing.unreachable(why, Instant::now(), health) {
                nudge.probe.notify_one();
            }
        });
    }

    /// A worker said that it has too much to do: it gets nothing for so long, two seconds at most.
    /// A report about an earlier life of the worker is ignored.
    pub fn overloaded(&self, id: WorkerId, epoch: Epoch, for_: Duration) {
        self.roster.report(id, epoch, |standing, nudge| {
            standing.overloaded(for_, Instant::now());
            nudge.timing.notify_one();
        });
    }

    /// A worker said that it has had too many requests, which may be meant for one client alone: it
    /// speaks for the worker when several in a row are told so, and unless most of its partition's
    /// workers would be left alone then.
    pub fn declined(&self, id: WorkerId, epoch: Epoch, for_: Duration) {
        self.roster.declined(id, epoch, for_);
    }

    /// An exchange with a worker, begun at `began`, ended well: it answered, and what it answered
    /// was whole.
    pub fn answered_well(&self, id: WorkerId, epoch: Epoch, began: Instant) {
        self.roster.answered_well(id, epoch, began);
    }

    /// An exchange with a worker, begun at `began`, failed in a way that may be the worker's fault.
    /// Several in a row leave it out for a while, unless most of its partition's workers fail: see
    /// `health.eject_after`.
    pub fn failed(&self, id: WorkerId, epoch: Epoch, began: Instant, why: &str) {
        self.roster.failed(id, epoch, began, why);
    }

    /// Takes events that are pushed on behalf of a worker's engine: `body` is described in
    /// [`crate::feeds::pushed`].
    ///
    /// # Errors
    ///
    /// There is no such worker, it takes no pushed events, the body is wrong, or too many are pushed
    /// at a time. Nothing is applied then.
    pub async fn push_events(
        &self,
        id: WorkerId,
        body: bytes::Bytes,
    ) -> Result<PushedEvents, PushError> {
        let (cache, epoch) = {
            let entries = self.roster.entries.lock();
            let entry = entries.get(&id).ok_or(PushError::Unknown(id))?;
            (entry.cache.clone(), entry.epoch)
        };
        let refused = move |refusal| PushError::Refused { worker: id, refusal };
        let turn = self.pushes.take().await.ok_or(PushError::Busy)?;
        let take = move || {
            let _turn = turn;
            // What a worker doesn't take needn't be read.
            cache.takes_pushed().map_err(refused)?;
            let pushed = Pushed::read(&body)?;
            let to = cache.pushed(pushed.dp_rank).map_err(refused)?;
            let outcome = to.take(cache.worker(), pushed);
            let outcome = outcome.ok_or(refused(super::cache::PushRefusal::Over))?;
            Ok(PushedEvents { worker_id: id, epoch, outcome })
        };
        tokio::task::spawn_blocking(take)
            .await
            .unwrap_or_else(|error| Err(PushError::Abandoned(error.to_string())))
    }

    /// What is known of every worker's cache feeds. Waits as [`WorkerKeeper::worker`] does.
    #[must_use]
    pub fn cache_feeds(&self) -> BTreeMap<WorkerId, Vec<FeedView>> {
        let lives: Vec<_> = {
            let entries = self.roster.entries.lock();
            entries.iter().map(|(&id, entry)| (id, entry.cache.clone())).collect()
        };
        lives.into_iter().map(|(id, cache)| (id, cache.view().0)).collect()
    }

    /// An engine of a partition says how many tokens of a prompt it had cached: evidence for or
    /// against what is known of its caches.
    pub fn had_cached(&self, partition: &PartitionKey, tokens: u64) {
        if let Some(partition) = self.roster.dispatcher.router().partition(partition) {
            partition.cache().answered(tokens);
        }
    }

    /// A worker by id. Waits while the index of its partition is being written to: call it where
    /// blocking is allowed.
    #[must_use]
    pub fn worker(&self, id: WorkerId) -> Option<WorkerView> {
        self.roster.view(id)
    }

    /// All workers, ascending by id. Waits as [`WorkerKeeper::worker`] does.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerView> {
        let ids: Vec<_> = self.roster.entries.lock().keys().copied().collect();
        ids.into_iter().filter_map(|id| self.roster.view(id)).collect()
    }

    /// How often each was left out for its failures, in its present life.
    #[must_use]
    pub fn ejections(&self) -> BTreeMap<WorkerId, u64> {
        let entries = self.roster.entries.lock();
        entries.iter().map(|(&id, entry)| (id, entry.standing.conduct.total())).collect()
    }

    /// What became of asking each one's engine for its load, in its present life; empty where nobody
    /// asks.
    #[must_use]
    pub(crate) fn load_scrapes(&self) -> BTreeMap<WorkerId, ScrapeCounts> {
        if self.roster.config.load_reports.is_none() {
            return BTreeMap::new();
        }
        let entries = self.roster.entries.lock();
        entries.iter().map(|(&id, entry)| (id, entry.load.counts())).collect()
    }

    /// Who lists workers and can't be heard, with why.
    #[must_use]
    pub fn unheard(&self) -> BTreeMap<String, String> {
        self.sources.lock().clone()
    }

    /// Does something while all views of a worker have to wait, as they do for a long write.
    #[cfg(test)]
    pub(crate) fn while_held(&self, id: WorkerId, work: impl FnOnce()) {
        let cache = self.roster.entries.lock().get(&id).map(|entry| entry.cache.clone());
        cache.expect("a worker").while_held(work);
    }

    /// Ends all tasks and waits for their end. Workers stay registered.
    pub async fn stop(&self) {
        self.roster.stop.cancel();
        self.roster.entries.lock().values().for_each(|entry| entry.cache.end());
        self.roster.tasks.close();
        self.roster.tasks.wait().await;
    }

    /// Runs work of several steps to its end, even if the caller goes away in the middle.
    pub(super) async fn owned<T, F>(
        &self,
        work: impl FnOnce(Arc<Roster>) -> F,
    ) -> Result<T, KeeperError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, KeeperError>> + Send + 'static,
    {
        if self.roster.stop.is_cancelled() {
            return Err(KeeperError::Stopping);
        }
        let done = self.roster.tasks.spawn(work(self.roster.clone())).await;
        done.unwrap_or(Err(KeeperError::Stopping))
    }
}

#[cfg(test)]
mod tests;
