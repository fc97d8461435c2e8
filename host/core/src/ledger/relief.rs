//! Who is told that load has fallen.
//!
//! Owns one flag and one bell. Whoever waits for a worker to have less to do says so; the next
//! release, or change of the fleet, rings once. While nobody waits, a release reads one flag more
//! than it would otherwise.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Is rung when load has fallen: on any thread, so it must not wait for anything.
pub trait Bell: fmt::Debug + Send + Sync {
    /// Load may have fallen since somebody waits for it.
    fn ring(&self);
}

/// Whether somebody waits for load to fall, and how he is told.
#[derive(Debug, Default)]
pub struct Relief {
    awaited: AtomicBool,
    by_time: AtomicBool,
    bell: Mutex<Option<Arc<dyn Bell>>>,
}

impl Relief {
    /// Rings `bell` once when load falls next. To be called *before* load is looked at: what falls
    /// after that look is told then.
    pub fn wait(&self, bell: &Arc<dyn Bell>) {
        {
            let mut present = self.bell.lock();
            if !present.as_ref().is_some_and(|present| Arc::ptr_eq(present, bell)) {
                *present = Some(bell.clone());
            }
        }
        self.awaited.store(true, Ordering::Release);
    }

    /// Whether load falls by time alone, too, as with a model of prefill, or while an engine's report of
    /// being busy grows old: then no bell rings for that, and whoever waits has to look again and again.
    #[must_use]
    pub fn falls_by_time(&self) -> bool {
        self.by_time.load(Ordering::Relaxed)
    }

    /// Says whether load falls by time.
    pub fn set_falls_by_time(&self, by_time: bool) {
        self.by_time.store(by_time, Ordering::Relaxed);
    }

    /// Nobody waits any more.
    pub fn rest(&self) {
        self.awaited.store(false, Ordering::Release);
    }

    /// Whether the bell would ring: nothing has fallen since somebody waits.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Acquire)
    }

    /// Load has fallen, the fleet has changed, or an engine says otherwise than before how busy it is.
    /// Called after the lock of what has changed was let go: who looked at it before that has said so
    /// before, and is seen here.
    pub(crate) fn ring(&self) {
        if self.is_awaited() && self.awaited.swap(false, Ordering::AcqRel) {
            let bell = self.bell.lock().clone();
            if let Some(bell) = bell {
                bell.ring();
            }
        }
    }
}
