//! The ledger: what each row carries, as columns.
//!
//! Owns a partition's rows and their load, in step: both sit behind one lock, so that a reader
//! never sees the load of one fleet beside the rows of another. Load changes on booking and
//! release and is never rebuilt. A [`Lease`] is the only way to book, and gives the load back when
//! it is dropped, wherever that happens. Bookings are fenced by the worker's epoch: what an earlier
//! life of a worker carried never touches a later one.
//!
//! The ledger doesn't know policies, queues or requests beyond their charge.

mod lease;

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use crate::fleet::{Epoch, Snapshot};
use crate::hosted::{Seating, Seats};
use crate::ids::{WorkerId, WorkerRank};

use lease::Booked;

pub use lease::Lease;

/// The most tokens or blocks that one booking charges: far above any request, and low enough that
/// thousands of them at once stay exact in a column of doubles.
pub const MAX_CHARGE: u64 = 1 << 40;

/// What a request adds to the row that it is booked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Prompt tokens to be computed; given back at the first token.
    pub prefill_tokens: u64,
    /// KV blocks that it holds until its end.
    pub decode_blocks: u64,
}

/// The load of one row, for display.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RowLoad {
    /// Which.
    #[serde(flatten)]
    pub worker: WorkerRank,
    /// Requests booked and not yet released.
    pub active_requests: u64,
    /// Prompt tokens of requests without a first token.
    pub active_prefill_tokens: u64,
    /// KV blocks of all active requests.
    pub active_decode_blocks: u64,
}

/// The load columns of a partition, one value per snapshot row. Counts, exact below 2^53.
#[derive(Debug, Default)]
pub struct Columns {
    /// Requests booked and not yet released.
    pub active_requests: Vec<f64>,
    /// Prompt tokens of requests without a first token.
    pub active_prefill_tokens: Vec<f64>,
    /// KV blocks of all active requests.
    pub active_decode_blocks: Vec<f64>,
}

impl Columns {
    fn with_rows(rows: usize) -> Self {
        Self {
            active_requests: vec![0.0; rows],
            active_prefill_tokens: vec![0.0; rows],
            active_decode_blocks: vec![0.0; rows],
        }
    }
}

/// Rows and load, as they are under the lock.
#[derive(Debug, Default)]
pub struct Books {
    /// The rows.
    pub snapshot: Arc<Snapshot>,
    /// Their load, as far as it was booked here.
    pub columns: Columns,
    /// What was booked on them without this lock.
    pub seating: Arc<Seating>,
    live_leases: u64,
}

impl Books {
    /// Leases that have not been dropped, of rows that left included.
    #[must_use]
    pub fn live_leases(&self) -> u64 {
        self.live_leases + self.seating.total()
    }

    /// Requests that a row carries, wherever they were booked.
    fn active_requests(&self, row: usize) -> u64 {
        let booked = self.columns.active_requests.get(row).map_or(0, |&requests| requests as u64);
        booked + u64::from(self.seating.taken(row))
    }

    fn row_of(&self, rank: WorkerRank, epoch: Epoch) -> Option<usize> {
        let row = self.snapshot.row_of(rank)?;
        (self.snapshot.worker(row)?.epoch == epoch).then_some(row)
    }

    /// The same, with a row that was right at some generation; saves the search while it is.
    fn find(&self, rank: WorkerRank, epoch: Epoch, hint: (u64, usize)) -> Option<usize> {
        let (generation, row) = hint;
        let still = generation == self.snapshot.generation
            && self.snapshot.rows.get(row) == Some(&rank)
            && self.snapshot.worker(row).is_some_and(|worker| worker.epoch == epoch);
        if still { Some(row) } else { self.row_of(rank, epoch) }
    }

    /// Changes the load of a row: `by` is given each column's value and its share.
    fn change(&mut self, row: usize, requests: u64, charge: Charge, by: fn(f64, f64) -> f64) {
        let columns = &mut self.columns;
        let shares = [
            (&mut columns.active_requests, requests),
            (&mut columns.active_prefill_tokens, charge.prefill_tokens),
            (&mut columns.active_decode_blocks, charge.decode_blocks),
        ];
        for (column, share) in shares {
            if let Some(value) = column.get_mut(row) {
                *value = by(*value, share as f64);
            }
        }
        if let Some(&requests) = columns.active_requests.get(row) {
            self.seating.note_booked(row, requests);
        }
    }
}

/// The ledger of one partition.
#[derive(Debug, Default)]
pub struct Ledger {
    books: Mutex<Books>,
    seats: Seats,
}

impl Ledger {
    /// The rows now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.books.lock().snapshot.clone()
    }

    /// Reads rows and load together. Keep `read` short: bookings and releases wait for it.
    pub fn read<T>(&self, read: impl FnOnce(&Books) -> T) -> T {
        read(&self.books.lock())
    }

    /// Takes up a changed fleet. Rows that go on (same rank, same epoch) keep their load.
    pub fn realign(&self, snapshot: impl Into<Arc<Snapshot>>) {
        let snapshot = snapshot.into();
        let mut books = self.books.lock();
        if snapshot.generation < books.snapshot.generation {
            return;
        }
        let mut columns = Columns::with_rows(snapshot.rows.len());
        for (row, &rank) in snapshot.rows.iter().enumerate() {
            let Some(worker) = snapshot.worker(row) else { continue };
            let Some(old) = books.row_of(rank, worker.epoch) else { continue };
            let carry = |to: &mut [f64], from: &[f64]| {
                if let (Some(to), Some(from)) = (to.get_mut(row), from.get(old)) {
                    *to = *from;
                }
            };
            let before = &books.columns;
            carry(&mut columns.active_requests, &before.active_requests);
            carry(&mut columns.active_prefill_tokens, &before.active_prefill_tokens);
            carry(&mut columns.active_decode_blocks, &before.active_decode_blocks);
        }
        books.columns = columns;
        books.seating = self.seats.realign(&snapshot);
        books.snapshot = snapshot;
    }

    /// Books a charge on a row of `snapshot`, each part at most [`MAX_CHARGE`]. None when that
    /// worker has left since.
    pub fn book(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        row: usize,
        charge: Charge,
    ) -> Option<Lease> {
        let rank = *snapshot.rows.get(row)?;
        let epoch = snapshot.worker(row)?.epoch;
        let charge = Charge {
            prefill_tokens: charge.prefill_tokens.min(MAX_CHARGE),
            decode_blocks: charge.decode_blocks.min(MAX_CHARGE),
        };
        let mut books = self.books.lock();
        let row = books.find(rank, epoch, (snapshot.generation, row))?;
        books.change(row, 1, charge, |load, share| load + share);
        books.live_leases += 1;
        let hint = (books.snapshot.generation, row);
        drop(books);
        Some(Lease::booked(self.clone(), rank, epoch, charge, hint))
    }

    /// The load of every row, in row order.
    #[must_use]
    pub fn loads(&self) -> Vec<RowLoad> {
        let books = self.books.lock();
        let columns = &books.columns;
        let rows = books.snapshot.rows.iter().enumerate();
        let count = |column: &[f64], row: usize| column.get(row).map_or(0, |&load| load as u64);
        rows.map(|(row, &worker)| RowLoad {
            worker,
            active_requests: books.active_requests(row),
            active_prefill_tokens: count(&columns.active_prefill_tokens, row),
            active_decode_blocks: count(&columns.active_decode_blocks, row),
        })
        .collect()
    }

    /// Leases that have not been dropped, of rows that left included.
    #[must_use]
    pub fn live_leases(&self) -> u64 {
        self.books.lock().live_leases()
    }

    /// What is booked without this ledger's lock; part of each row's active requests.
    #[must_use]
    pub fn seats(&self) -> &Seats {
        &self.seats
    }

    /// Requests that a worker carries, over its ranks.
    #[must_use]
    pub fn active_requests_of(&self, worker: WorkerId) -> u64 {
        let books = self.books.lock();
        let rows = books.snapshot.rows.iter().enumerate();
        let its = rows.filter(|(_, rank)| rank.worker_id == worker);
        its.map(|(row, _)| books.active_requests(row)).sum()
    }

    fn give_back(&self, lease: &Booked, requests: u64, charge: Charge) {
        let mut books = self.books.lock();
        books.live_leases = books.live_leases.saturating_sub(requests);
        // Else the worker left, and its load with it.
        if let Some(row) = books.find(lease.rank, lease.epoch, lease.hint) {
            books.change(row, requests, charge, |load, share| (load - share).max(0.0));
        }
    }
}

#[cfg(test)]
mod tests;
