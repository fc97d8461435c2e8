//! The keeper: one reload at a time, asked for by the folder, by the clock or by an operator.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_core::clock::Stopwatch;
use tokio::sync::Notify;
use tokio::time::{Duration, MissedTickBehavior, interval, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::components::Components;
use super::configuration::ConfigFile;
use super::open::Opened;
use super::report::ReloadReport;
use super::state::State;
use super::status::{PoliciesStatus, ReloadCounts};
use super::undecided::{self, Undecided};
use crate::config::Config;
use crate::discovery::WorkerKeeper;
use crate::dispatch::Dispatcher;
use crate::shared_cache::SharedCache;

/// How long a look takes at most, where nothing is wrong.
const LOOK: Duration = Duration::from_secs(2);

/// Between two looks at what an operator waits for.
const PAUSE: Duration = Duration::from_millis(20);

/// Several writes often come together: a copy, a rename, a second file.
const SETTLE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Inner {
    /// As it was at start.
    pub(super) running: Arc<Config>,
    pub(super) components: Arc<dyn Components>,
    pub(super) dispatcher: Arc<Dispatcher>,
    pub(super) workers: Arc<WorkerKeeper>,
    pub(super) shared_cache: Arc<SharedCache>,
    pub(super) state: Mutex<State>,
    pub(super) file: Mutex<ConfigFile>,
    /// Reloads, one at a time; each begins with a look at the newest state.
    pub(super) turn: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Knows the policies: the folder, the YAML, reloads. Its tasks end with it.
#[derive(Debug)]
pub struct PolicyKeeper {
    inner: Arc<Inner>,
    _stop: DropGuard,
}

impl PolicyKeeper {
    /// Begins to watch. The router behind `dispatcher` was made with `opened`'s policies.
    #[must_use]
    pub fn start(
        opened: Opened,
        dispatcher: Arc<Dispatcher>,
        workers: Arc<WorkerKeeper>,
        shared_cache: Arc<SharedCache>,
        config: Arc<Config>,
        config_path: Option<PathBuf>,
    ) -> Self {
        opened.log();
        let Opened { state, components, .. } = opened;
        let stop = CancellationToken::new();
        let inner = Arc::new(Inner {
            running: config,
            components,
            dispatcher,
            workers,
            shared_cache,
            state: Mutex::new(state),
            file: Mutex::new(ConfigFile::unread(config_path)),
            turn: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        });
        inner.tasks.spawn(watch(inner.clone(), stop.clone()));
        Self { inner, _stop: stop.drop_guard() }
    }

    /// Looks at the folder and the file now, waits for what is being compiled, and puts in place
    /// what changed. What was refused before is tried again. Meanwhile other reloads go on.
    ///
    /// None when the router is being stopped.
    pub async fn reload(&self) -> Option<ReloadReport> {
        if self.inner.stop.is_cancelled() {
            return None;
        }
        let (inner, stop) = (self.inner.clone(), self.inner.stop.clone());
        // A task of its own: an operator who hangs up doesn't stop a reload half-way.
        let reload = async move {
            stop.run_until_cancelled(inner.wait_for_components()).await?;
            Some(inner.reload(true).await)
        };
        self.inner.tasks.spawn(reload).await.ok().flatten()
    }

    /// What there is, what decides, and how it does.
    #[must_use]
    pub fn status(&self) -> PoliciesStatus {
        let Inner { state, dispatcher, components, .. } = &*self.inner;
        let (router, clock) = (dispatcher.router(), dispatcher.clock());
        PoliciesStatus::of(&state.lock(), router, clock, components.counts())
    }

    /// The partitions whose policy can decide nothing now, with nobody to stand in. Waits for decisions
    /// that are being made.
    #[must_use]
    pub fn undecided(&self) -> Vec<Undecided> {
        let Inner { state, dispatcher, .. } = &*self.inner;
        undecided::find(state, dispatcher.router(), dispatcher.clock().now_ms())
    }

    /// How reloads went.
    #[must_use]
    pub fn reload_counts(&self) -> ReloadCounts {
        self.inner.state.lock().counts.clone()
    }

    /// Ends all tasks and waits for their end; a reload that runs is finished first.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl Inner {
    /// Looks at the components until none is on its way or being compiled, but for one that is
    /// written again and again no longer than a compilation may take.
    async fn wait_for_components(self: &Arc<Self>) {
        let watch = Stopwatch::start();
        while watch.elapsed() < self.running.wasm.compile_timeout + LOOK {
            let components = self.components.clone();
            let looked = tokio::task::spawn_blocking(move || {
                // What is wrong is for the reload to tell, which looks once more.
                components.look().is_ok() && components.is_busy()
            });
            if !looked.await.unwrap_or(false) {
                return;
            }
            sleep(PAUSE).await;
        }
    }
}

async fn watch(inner: Arc<Inner>, stop: CancellationToken) {
    let changed = Arc::new(Notify::new());
    let wake = changed.clone();
    let guard = inner.components.watch(Box::new(move || wake.notify_one()));
    let mut rescan = interval(inner.running.wasm.rescan_interval);
    rescan.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once; what it would find was just looked at.
    rescan.tick().await;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = rescan.tick() => {}
            () = changed.notified() => sleep(SETTLE).await,
        }
        inner.reload(false).await;
    }
    // The watch ends only after a look that is under way.
    let ended = tokio::task::spawn_blocking(move || drop(guard)).await;
    if let Err(error) = ended {
        tracing::error!(%error, "the watch over the policies folder has panicked");
    }
}

#[cfg(test)]
mod tests;
