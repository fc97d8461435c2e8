//! The folder of policies: which component of each type serves, and what became of newer ones.
//!
//! Owns, for each `*.wasm` file, the last version that loaded, and why the file's present content
//! doesn't serve if it doesn't. A file is read when its stamp changes, and compiled when its digest
//! does. Putting a new version into partitions is the router's business, and so is when.
//!
//! A look through the folder compiles nothing: each new version is compiled on a thread of its own,
//! and on that one alone. wasmtime can also share a component out over all cores, but those threads
//! are one pool for all: a component that comes later waits until the large one before it is done. So
//! a Python component of 18 MB takes 24 s of one core where two cores take 13 s (40 s on a machine that
//! has other work for both), two of them take as long as before, and a small one beside it takes what
//! it takes alone. Decisions don't tell the difference: `POST /v1/route` has a p99 of 5 ms on two idle
//! cores and 9 to 15 ms beside either. (Debug build, 2026-11-29.)

mod compiler;
mod entries;
mod scan;
mod stamp;
mod status;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::classifier::ClassifierProvider;
use pointsman_core::clock::Stopwatch;
use pointsman_core::policy::PolicyProvider;

use crate::component::ComponentPolicy;
use crate::engine::PolicyEngine;
use crate::trust::Trust;
use compiler::Compiler;
use entries::Entries;
use scan::Seen;
pub use status::{FolderState, TypeChange, TypeStatus};
pub use watch::WatchGuard;

/// How soon a file that may still be on its way is looked at again.
const SOON: Duration = Duration::from_millis(100);

/// How many versions of one file are waited for, when each is overtaken while it is compiled.
const MOST_OVERTAKEN: usize = 3;

/// How a folder is kept an eye on.
#[derive(Clone, Debug)]
pub struct FolderOptions {
    /// How often the folder is looked through, whatever the watcher says: links that flip, network
    /// file systems and container mounts don't always tell.
    pub rescan: Duration,
    /// How long it must be quiet before what changed is taken up.
    pub debounce: Duration,
    /// How old a file that doesn't load must be before that is believed: a younger one may still be
    /// on its way.
    pub settle: Duration,
    /// Which content may serve.
    pub trust: Trust,
}

impl Default for FolderOptions {
    fn default() -> Self {
        Self {
            rescan: Duration::from_secs(2),
            debounce: Duration::from_millis(50),
            settle: Duration::from_millis(500),
            trust: Trust::default(),
        }
    }
}

/// A folder of policies. Cheap to clone.
#[derive(Clone)]
pub struct PolicyFolder {
    inner: Arc<Inner>,
}

struct Inner {
    engine: PolicyEngine,
    dir: PathBuf,
    options: FolderOptions,
    /// Held while the folder is looked through: one at a time, so that versions come in order.
    scanning: Mutex<()>,
    compiler: Compiler,
    entries: Mutex<Entries>,
}

impl PolicyFolder {
    /// A folder, not looked into yet: call [`PolicyFolder::rescan`] next.
    #[must_use]
    pub fn open(engine: &PolicyEngine, dir: impl Into<PathBuf>, options: FolderOptions) -> Self {
        let inner = Inner {
            engine: engine.clone(),
            dir: dir.into(),
            options,
            scanning: Mutex::default(),
            compiler: Compiler::new(engine.config().compile_timeout),
            entries: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// Looks through the folder now, has compiled what is new, and waits for that: for a look that
    /// is under way, for compilations up to their time limit, and, for as long as
    /// [`FolderOptions::settle`] says, for files that are still on their way. Call it on a thread
    /// that may wait.
    #[must_use]
    pub fn rescan(&self) -> FolderState {
        let since = Stopwatch::start();
        let mut turns: BTreeMap<String, usize> = BTreeMap::new();
        let mut changes = Vec::new();
        loop {
            let Seen { mut state, ended } = self.see();
            changes.append(&mut state.changes);
            let may_be_on_its_way = since.elapsed() <= self.inner.options.settle + SOON;
            if !may_be_on_its_way {
                // What failed before that was perhaps half a file, and is compiled again.
                ended.into_iter().for_each(|name| *turns.entry(name).or_default() += 1);
            }
            let on_its_way = state.unsettled && may_be_on_its_way;
            let compiling = state
                .compiling
                .iter()
                .any(|name| turns.get(name).is_none_or(|turns| *turns < MOST_OVERTAKEN));
            if !on_its_way && !compiling {
                return FolderState { changes, ..state };
            }
            self.inner.compiler.wait(SOON);
        }
    }

    /// Looks through the folder now, and has compiled what is new; another look takes that up.
    /// Waits for nothing but a look that is under way.
    #[must_use]
    pub fn look(&self) -> FolderState {
        self.see().state
    }

    fn see(&self) -> Seen {
        let _one_at_a_time = self.inner.scanning.lock();
        scan::scan(&self.inner)
    }

    /// Whether another look may soon find more than the last did: a file is on its way or being
    /// compiled.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let stuck = self.inner.compiler.stuck().is_some();
        let entries = self.inner.entries.lock();
        entries.unsettled || !entries.compiling(stuck).is_empty()
    }

    /// The policies that can be named now, by type.
    #[must_use]
    pub fn policies(&self) -> Vec<ComponentPolicy> {
        self.inner.entries.lock().serving().cloned().collect()
    }

    /// Those of them that select workers, as the core's catalogue takes them.
    #[must_use]
    pub fn providers(&self) -> Vec<Arc<dyn PolicyProvider>> {
        let policies = self.policies().into_iter().filter(ComponentPolicy::selects_workers);
        policies.map(|policy| Arc::new(policy) as Arc<dyn PolicyProvider>).collect()
    }

    /// Those of them that classify requests, as the core's catalogue takes them.
    #[must_use]
    pub fn classifiers(&self) -> Vec<Arc<dyn ClassifierProvider>> {
        let policies = self.policies().into_iter().filter(ComponentPolicy::classifies_requests);
        policies.map(|policy| Arc::new(policy) as Arc<dyn ClassifierProvider>).collect()
    }

    /// A policy by its type.
    #[must_use]
    pub fn policy(&self, policy_type: &str) -> Option<ComponentPolicy> {
        let entries = self.inner.entries.lock();
        entries.serving().find(|policy| policy.policy_type() == policy_type).cloned()
    }

    /// What stands in the folder, and what serves.
    #[must_use]
    pub fn status(&self) -> Vec<TypeStatus> {
        self.inner.entries.lock().status(self.inner.compiler.stuck())
    }

    /// Watches the folder on a thread of its own until the guard is dropped, and calls `changed`
    /// there whenever what serves, or why something doesn't, is another than before.
    pub fn watch(
        &self,
        changed: impl Fn(&FolderState) + Send + 'static,
    ) -> std::io::Result<WatchGuard> {
        watch::start(self.clone(), changed)
    }
}

impl fmt::Debug for PolicyFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyFolder")
            .field("dir", &self.inner.dir)
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}
