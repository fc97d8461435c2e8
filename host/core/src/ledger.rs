//! The ledger: what each row carries, as columns.
//!
//! Owns a partition's rows and their load, in step: both sit behind one lock, so that a reader
//! never sees the load of one fleet beside the rows of another. Load changes on booking, as a request goes on,
//! and on release; it is never rebuilt. A [`Lease`] is the only way to book, and gives the load back when
//! it is dropped, wherever that happens. Bookings are fenced by the worker's epoch: what an earlier
//! life of a worker carried never touches a later one.
//!
//! The ledger doesn't know policies, queues or requests beyond their charge.

mod active_blocks;
mod audit;
mod bookings;
mod books;
mod charge;
mod columns;
mod growth;
mod lease;
mod prefill;
mod relief;
mod reservations;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::fleet::Snapshot;
use crate::hosted::Seats;
use crate::ids::WorkerId;

pub use audit::{Audit, Discrepancy};
pub use books::Books;
pub use charge::{Charge, MAX_CHARGE, PromptBlocks};
pub use columns::{Columns, RowLoad};
pub use growth::Growth;
pub use lease::Lease;
pub use relief::{Bell, Relief};
pub use reservations::{
    AttemptId, Change, DEFAULT_EXPIRY, ReservationView, Reservations, ReserveError, Terms,
};

/// The ledger of one partition.
#[derive(Debug, Default)]
pub struct Ledger {
    books: Mutex<Books>,
    /// The generation of the rows, for those who know rows and don't want to wait.
    generation: AtomicU64,
    seats: Seats,
    relief: Relief,
    /// What the last second count found wrong.
    discrepancies: AtomicU64,
}

impl Ledger {
    /// The rows now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.books.lock().snapshot.clone()
    }

    /// The rows now, if they aren't these: takes no lock while they are.
    pub(crate) fn snapshot_unless(&self, known: Option<Arc<Snapshot>>) -> Arc<Snapshot> {
        let now = self.generation.load(Ordering::Acquire);
        known.filter(|known| known.generation == now).unwrap_or_else(|| self.snapshot())
    }

    /// Reads rows and load together. Keep `read` short: bookings and releases wait for it.
    pub fn read<T>(&self, read: impl FnOnce(&Books) -> T) -> T {
        read(&self.books.lock())
    }

    /// The same, by somebody who knows the time.
    pub fn read_at<T>(&self, now_ms: u64, read: impl FnOnce(&Books) -> T) -> T {
        let mut books = self.books.lock();
        books.look(now_ms);
        read(&books)
    }

    /// Takes up a changed fleet. Rows that go on (same rank, same epoch) keep their load; what was
    /// booked on the others is forgotten at once.
    pub fn realign(&self, snapshot: impl Into<Arc<Snapshot>>) {
        let snapshot = snapshot.into();
        let mut books = self.books.lock();
        if books.realign(snapshot) {
            self.generation.store(books.snapshot.generation, Ordering::Release);
            books.seating = self.seats.realign(&books.snapshot);
            drop(books);
            self.relief.ring();
        }
    }

    /// Books a charge on a row of `snapshot`. None when that worker has left since.
    pub fn book(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        row: usize,
        charge: Charge<'_>,
        now_ms: u64,
    ) -> Option<Lease> {
        let rank = *snapshot.rows.get(row)?;
        let epoch = snapshot.worker(row)?.epoch;
        let mut books = self.books.lock();
        let row = books.find(snapshot, row)?;
        let booked = books.book(row, &charge, now_ms);
        drop(books);
        Some(Lease::in_books(self.clone(), booked, (rank, epoch), charge.growth))
    }

    /// The load of every row, in row order. Prefill tokens as they were booked: see
    /// [`Ledger::loads_at`].
    #[must_use]
    pub fn loads(&self) -> Vec<RowLoad> {
        self.books.lock().loads(None)
    }

    /// The same at a moment: prefill tokens as far as they are thought to be left then, as a policy is shown
    /// them.
    #[must_use]
    pub fn loads_at(&self, now_ms: u64) -> Vec<RowLoad> {
        let mut books = self.books.lock();
        books.look(now_ms);
        books.loads(Some(now_ms))
    }

    /// Has the columns say what nobody booked.
    pub(crate) fn impose(&self, set: impl FnOnce(&mut Columns)) {
        set(&mut self.books.lock().columns);
    }

    /// Leases that have not been dropped, of rows that left included.
    #[must_use]
    pub fn live_leases(&self) -> u64 {
        self.books.lock().live_leases()
    }

    /// Who is told when load falls, or the fleet changes.
    #[must_use]
    pub fn relief(&self) -> &Relief {
        &self.relief
    }

    /// What is booked without this ledger's lock; part of each row's active requests.
    #[must_use]
    pub fn seats(&self) -> &Seats {
        &self.seats
    }

    /// How many values the last [`Ledger::audit`] found wrong; 0 before the first.
    #[must_use]
    pub fn discrepancies(&self) -> u64 {
        self.discrepancies.load(Ordering::Relaxed)
    }

    /// Requests that a worker carries, over its ranks.
    #[must_use]
    pub fn active_requests_of(&self, worker: WorkerId) -> u64 {
        let books = self.books.lock();
        let rows = books.snapshot.rows.iter().enumerate();
        let its = rows.filter(|(_, rank)| rank.worker_id == worker);
        its.map(|(row, _)| books.active_requests(row)).sum()
    }
}

#[cfg(test)]
mod tests;
