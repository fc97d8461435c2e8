//! The room that all bodies share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus::IntGauge;

/// How much there is, and how much of it is taken.
#[derive(Clone, Debug)]
pub(in crate::openai) struct Room(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    all: usize,
    taken: AtomicUsize,
    gauge: IntGauge,
}

/// What one body has taken; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    room: Room,
    bytes: usize,
}

impl Room {
    /// So many bytes, all free. The gauge shows how many are taken.
    pub(in crate::openai) fn new(all: usize, gauge: IntGauge) -> Self {
        Self(Arc::new(Shared { all, taken: AtomicUsize::new(0), gauge }))
    }

    /// Whether there is so much at this moment.
    pub(super) fn has(&self, bytes: usize) -> bool {
        bytes <= self.0.all.saturating_sub(self.0.taken.load(Ordering::Relaxed))
    }

    /// The place of a body of which nothing has come.
    pub(super) fn nothing(&self) -> Held {
        Held { room: self.clone(), bytes: 0 }
    }
}

impl Held {
    /// Takes what is missing for so many bytes. False if there isn't so much; then nothing changes.
    pub(super) fn grow_to(&mut self, bytes: usize) -> bool {
        let Shared { all, taken, gauge } = &*self.room.0;
        let missing = bytes.saturating_sub(self.bytes);
        let fits = |now: usize| now.checked_add(missing).filter(|then| then <= all);
        let took = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if took {
            self.bytes += missing;
            gauge.add(missing as i64);
        }
        took
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Shared { taken, gauge, .. } = &*self.room.0;
        taken.fetch_sub(self.bytes, Ordering::Relaxed);
        gauge.sub(self.bytes as i64);
    }
}
