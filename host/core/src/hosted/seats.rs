//! Who is booked where without the partition's lock, and by whose choice.
//!
//! Owns the counters' places through changes of the fleet: a row that goes on keeps its counter, and
//! one that left has its until the last of its requests is over. What is published here is read by
//! every decision with one atomic load, and never changed in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use parking_lot::Mutex;

use super::Hosting;
use super::counts::{Counts, Token};
use super::seating::{Seat, Seating};
use crate::fleet::{Epoch, Snapshot};
use crate::ids::WorkerRank;

/// A booking that takes no lock. Dropping it gives the load back; it can't be given back twice.
#[derive(Debug)]
pub struct HostedLease {
    /// Gives the load back.
    _token: Token,
    worker: WorkerRank,
    epoch: Epoch,
}

impl HostedLease {
    /// Where it is booked.
    #[must_use]
    pub fn worker(&self) -> WorkerRank {
        self.worker
    }

    /// The worker's life that it is booked on.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

/// A policy that decides side by side, and what it decides over.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) hosting: Arc<Hosting>,
    pub(crate) seating: Arc<Seating>,
    version: u64,
}

/// The counters of a partition, and who decides there without its lock.
#[derive(Debug, Default)]
pub struct Seats {
    /// None while decisions are made under the partition's lock.
    serving: ArcSwapOption<Serving>,
    /// Grows with whatever is published. A booking by an older version is undone.
    version: AtomicU64,
    seating: ArcSwap<Seating>,
    used: Arc<AtomicBool>,
    changes: Mutex<Changes>,
}

#[derive(Debug, Default)]
struct Changes {
    hosting: Option<Arc<Hosting>>,
    counts: Counts,
    /// Slots that were ever given out.
    slots: u32,
    free: Vec<u32>,
    /// Slots of rows that have left, with requests that may not be over.
    departed: Vec<u32>,
}

impl Seats {
    /// Takes up a changed fleet. The caller sees to it that fleets come in their order.
    pub(crate) fn realign(&self, snapshot: &Arc<Snapshot>) -> Arc<Seating> {
        let mut changes = self.changes.lock();
        let before = self.seating.load_full();
        let mut old = before.seats().iter().peekable();
        let mut seats = Vec::with_capacity(snapshot.rows.len());
        for (row, &rank) in snapshot.rows.iter().enumerate() {
            let epoch = snapshot.worker(row).map_or(Epoch(0), |worker| worker.epoch);
            // Both stand in the order of their ranks.
            while let Some(gone) = old.next_if(|seat| seat.rank < rank) {
                changes.departed.push(gone.slot);
            }
            let same_rank = old.next_if(|seat| seat.rank == rank);
            let goes_on = same_rank.filter(|seat| seat.epoch == epoch).map(|seat| seat.slot);
            if goes_on.is_none() {
                changes.departed.extend(same_rank.map(|seat| seat.slot));
            }
            let slot = goes_on.unwrap_or_else(|| changes.give_slot());
            seats.push(Seat { rank, epoch, slot });
        }
        changes.departed.extend(old.map(|seat| seat.slot));
        let slots = changes.slots;
        changes.counts.reserve(slots);
        let counts = changes.counts.clone();
        let seating = Seating::new(snapshot.clone(), seats.into(), counts, self.used.clone());
        let seating = Arc::new(seating);
        self.seating.store(seating.clone());
        self.publish(&mut changes);
        seating
    }

    /// Has a policy decide without the partition's lock from now on, or none.
    pub(crate) fn serve(&self, hosting: Option<Arc<Hosting>>) {
        let mut changes = self.changes.lock();
        let same = match (&changes.hosting, &hosting) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            (None, None) => true,
            _ => false,
        };
        if !same {
            changes.hosting = hosting;
            self.publish(&mut changes);
        }
    }

    /// Gives back what rows that left no longer need.
    pub(crate) fn tidy(&self) {
        self.sweep(&mut self.changes.lock());
    }

    /// Whether some policy decides without the partition's lock.
    pub(crate) fn serves(&self) -> bool {
        self.serving.load().is_some()
    }

    /// The same, if that policy doesn't read prompts: a picker over what rows carry.
    pub(crate) fn serves_unread(&self) -> bool {
        self.serving.load().as_ref().is_some_and(|serving| serving.hosting.reads_no_prompt())
    }

    pub(super) fn serving(&self) -> Guard<Option<Arc<Serving>>> {
        self.serving.load()
    }

    fn publish(&self, changes: &mut Changes) {
        let version = self.version.load(Ordering::Relaxed) + 1;
        let serving = changes.hosting.as_ref().map(|hosting| {
            self.used.store(true, Ordering::SeqCst);
            let (hosting, seating) = (hosting.clone(), self.seating.load_full());
            Arc::new(Serving { hosting, seating, version })
        });
        self.serving.store(serving);
        // From here on, a booking over what was there before is undone. One that isn't was counted
        // before this, and so is seen by the sweep.
        self.version.store(version, Ordering::SeqCst);
        self.sweep(changes);
    }

    fn sweep(&self, changes: &mut Changes) {
        let Changes { hosting, counts, free, departed, .. } = changes;
        departed.retain(|&slot| {
            let over = counts.taken_by_anyone(slot) == 0;
            if over {
                counts.note_booked(slot, 0);
                free.push(slot);
            }
            !over
        });
        if hosting.is_none() && self.used.load(Ordering::SeqCst) && counts.total() == 0 {
            self.used.store(false, Ordering::SeqCst);
        }
    }

    /// Books one more request on a row. None when what was decided over has changed since.
    pub(super) fn book(&self, serving: &Serving, row: u32) -> Option<HostedLease> {
        let seat = serving.seating.seat(row)?;
        let token = serving.seating.take(seat)?;
        let lease = HostedLease { _token: token, worker: seat.rank, epoch: seat.epoch };
        (self.version.load(Ordering::SeqCst) == serving.version).then_some(lease)
    }
}

impl Changes {
    fn give_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }
}
