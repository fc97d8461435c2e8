//! The folder of policies: which component of each type serves, and what became of newer ones.
//!
//! Owns, for each `*.wasm` file, the last version that loaded, and why the file's present content
//! doesn't serve if it doesn't. A file is read when its stamp changes, and compiled when its digest
//! does. Putting a new version into partitions is the router's business, and so is when.

mod scan;
mod stamp;
mod status;
mod watch;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::clock::Stopwatch;
use pointsman_core::policy::PolicyProvider;

use crate::component::ComponentPolicy;
use crate::engine::PolicyEngine;
use scan::Entries;
pub use status::{FolderState, TypeChange, TypeStatus};
pub use watch::WatchGuard;

/// How soon a file that may still be on its way is looked at again.
const SOON: Duration = Duration::from_millis(100);

/// How a folder is kept an eye on.
#[derive(Clone, Copy, Debug)]
pub struct FolderOptions {
    /// How often the folder is looked through, whatever the watcher says: links that flip, network
    /// file systems and container mounts don't always tell.
    pub rescan: Duration,
    /// How long it must be quiet before what changed is taken up.
    pub debounce: Duration,
    /// How old a file that doesn't load must be before that is believed: a younger one may still be
    /// on its way.
    pub settle: Duration,
}

impl Default for FolderOptions {
    fn default() -> Self {
        Self {
            rescan: Duration::from_secs(2),
            debounce: Duration::from_millis(50),
            settle: Duration::from_millis(500),
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
            entries: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// Looks through the folder now, and compiles what is new; waits for a look that is under way,
    /// and, for as long as [`FolderOptions::settle`] says, for files that are still on their way.
    /// May take as long as compiling takes, so call it on a thread that may.
    #[must_use]
    pub fn rescan(&self) -> FolderState {
        let since = Stopwatch::start();
        let mut state = self.look();
        while state.unsettled && since.elapsed() <= self.inner.options.settle + SOON {
            thread::sleep(SOON);
            let before = std::mem::take(&mut state.changes);
            state = self.look();
            state.changes.splice(..0, before);
        }
        state
    }

    /// One look.
    fn look(&self) -> FolderState {
        let _one_at_a_time = self.inner.scanning.lock();
        scan::scan(&self.inner)
    }

    /// The policies that can be named now, by type.
    #[must_use]
    pub fn policies(&self) -> Vec<ComponentPolicy> {
        self.inner.entries.lock().serving().cloned().collect()
    }

    /// The same, as the core's catalogue takes them.
    #[must_use]
    pub fn providers(&self) -> Vec<Arc<dyn PolicyProvider>> {
        let policies = self.policies().into_iter();
        policies.map(|policy| Arc::new(policy) as Arc<dyn PolicyProvider>).collect()
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
        self.inner.entries.lock().status()
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
