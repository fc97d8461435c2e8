//! The room that all bodies share, and the ones on their way in that may have to give theirs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::IntGauge;
use tokio::time::Instant;

use super::pace::GRACE;
use super::sender::Sender;

/// How much there is, and how much of it is taken.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    all: usize,
    taken: AtomicUsize,
    gauge: IntGauge,
    /// How long a sender may be slow when room is short.
    grace: Duration,
    /// Before any of theirs, if both are held.
    senders: Mutex<Senders>,
}

#[derive(Debug, Default)]
struct Senders {
    next: u64,
    by_number: HashMap<u64, Arc<Sender>>,
}

/// What one body has taken; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    room: Room,
    bytes: usize,
}

impl Room {
    /// So many bytes, all free. The gauge shows how many are taken.
    pub(crate) fn new(all: usize, gauge: IntGauge) -> Self {
        Self::with_grace(all, gauge, GRACE)
    }

    pub(super) fn with_grace(all: usize, gauge: IntGauge, grace: Duration) -> Self {
        let (taken, senders) = (AtomicUsize::new(0), Mutex::default());
        Self(Arc::new(Shared { all, taken, gauge, grace, senders }))
    }

    /// How long a sender may be slow when room is short.
    pub(super) fn grace(&self) -> Duration {
        self.0.grace
    }

    /// A sender may have to give way from now on. Returns the number that it has until it leaves.
    pub(super) fn enter(&self, sender: &Arc<Sender>) -> u64 {
        let mut senders = self.0.senders.lock();
        let number = senders.next;
        senders.next += 1;
        senders.by_number.insert(number, sender.clone());
        number
    }

    pub(super) fn leave(&self, number: u64) {
        self.0.senders.lock().by_number.remove(&number);
    }

    /// Makes room for so many bytes by taking it from senders that are slow, but for one. If they
    /// don't hold so much, they keep it.
    pub(super) fn relieve(&self, bytes: usize, but: Option<u64>) {
        let senders = self.0.senders.lock();
        let now = Instant::now();
        let others = senders.by_number.iter().filter(|(number, _)| Some(**number) != but);
        let slow = others.filter_map(|(_, sender)| Some((sender.late(now)?, sender)));
        let mut slow: Vec<_> = slow.filter(|((_, holds), _)| *holds > 0).collect();
        let held: usize = slow.iter().map(|((_, holds), _)| holds).sum();
        if held.saturating_add(self.free()) < bytes {
            return;
        }
        slow.sort_unstable_by_key(|((late, _), _)| std::cmp::Reverse(*late));
        for (_, sender) in slow {
            if self.has(bytes) {
                return;
            }
            sender.give_way();
        }
    }

    /// Whether there is so much at this moment.
    pub(super) fn has(&self, bytes: usize) -> bool {
        bytes <= self.free()
    }

    fn free(&self) -> usize {
        self.0.all.saturating_sub(self.0.taken.load(Ordering::Relaxed))
    }

    /// The place of a body of which nothing has come.
    pub(crate) fn nothing(&self) -> Held {
        Held { room: self.clone(), bytes: 0 }
    }
}

impl Held {
    /// How much it has taken.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes what is missing for so many bytes. False if there isn't so much; then nothing changes.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let Shared { all, taken, gauge, .. } = &*self.room.0;
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
