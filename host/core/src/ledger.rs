//! The ledger: what each row carries, as columns.
//!
//! Owns a partition's rows and their load, in step: both sit behind one lock, so that a reader
//! never sees the load of one fleet beside the rows of another. Load changes on booking and
//! release and is never rebuilt. A [`Lease`] is the only way to book, and gives the load back when
//! it is dropped, wherever that happens. Bookings are fenced by the worker's epoch: what an earlier
//! life of a worker carried never touches a later one.
//!
//! The ledger doesn't know policies, queues or requests beyond their charge.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use crate::fleet::{Epoch, Snapshot};
use crate::ids::WorkerRank;

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
    /// Their load.
    pub columns: Columns,
    live_leases: u64,
}

impl Books {
    fn epoch_of(&self, row: usize) -> Option<Epoch> {
        self.snapshot.worker(row).map(|worker| worker.epoch)
    }

    fn row_of(&self, rank: WorkerRank, epoch: Epoch) -> Option<usize> {
        self.snapshot.row_of(rank).filter(|&row| self.epoch_of(row) == Some(epoch))
    }
}

/// The ledger of one partition.
#[derive(Debug, Default)]
pub struct Ledger {
    books: Mutex<Books>,
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
    pub fn realign(&self, snapshot: Snapshot) {
        let mut books = self.books.lock();
        if snapshot.generation < books.snapshot.generation {
            return;
        }
        let mut columns = Columns::with_rows(snapshot.rows.len());
        for (row, &rank) in snapshot.rows.iter().enumerate() {
            let Some(worker) = snapshot.worker(row) else { continue };
            if let Some(old) = books.row_of(rank, worker.epoch) {
                columns.active_requests[row] = books.columns.active_requests[old];
                columns.active_prefill_tokens[row] = books.columns.active_prefill_tokens[old];
                columns.active_decode_blocks[row] = books.columns.active_decode_blocks[old];
            }
        }
        books.columns = columns;
        books.snapshot = Arc::new(snapshot);
    }

    /// Books a charge on a row of `snapshot`. None when that worker has left since.
    pub fn book(self: &Arc<Self>, snapshot: &Snapshot, row: usize, charge: Charge) -> Option<Lease> {
        let rank = *snapshot.rows.get(row)?;
        let epoch = snapshot.worker(row)?.epoch;
        let mut books = self.books.lock();
        let now_at = if books.snapshot.generation == snapshot.generation {
            row
        } else {
            books.row_of(rank, epoch)?
        };
        let columns = &mut books.columns;
        columns.active_requests[now_at] += 1.0;
        columns.active_prefill_tokens[now_at] += charge.prefill_tokens as f64;
        columns.active_decode_blocks[now_at] += charge.decode_blocks as f64;
        books.live_leases += 1;
        drop(books);
        Some(Lease {
            ledger: self.clone(),
            rank,
            epoch,
            charge,
            hint: (snapshot.generation, now_at),
        })
    }

    /// The load of every row, in row order.
    #[must_use]
    pub fn loads(&self) -> Vec<RowLoad> {
        let books = self.books.lock();
        let columns = &books.columns;
        let rows = books.snapshot.rows.iter().enumerate();
        rows.map(|(row, &worker)| RowLoad {
            worker,
            active_requests: columns.active_requests[row] as u64,
            active_prefill_tokens: columns.active_prefill_tokens[row] as u64,
            active_decode_blocks: columns.active_decode_blocks[row] as u64,
        })
        .collect()
    }

    /// Leases that have not been dropped, of rows that left included.
    #[must_use]
    pub fn live_leases(&self) -> u64 {
        self.books.lock().live_leases
    }

    /// Requests that a worker carries, over its ranks.
    #[must_use]
    pub fn active_requests_of(&self, worker: crate::ids::WorkerId) -> u64 {
        let books = self.books.lock();
        let rows = books.snapshot.rows.iter().zip(&books.columns.active_requests);
        rows.filter(|(rank, _)| rank.worker_id == worker).map(|(_, &n)| n as u64).sum()
    }

    fn give_back(&self, lease: &Lease, charge: Charge, requests: f64) {
        let mut books = self.books.lock();
        if requests > 0.0 {
            books.live_leases = books.live_leases.saturating_sub(1);
        }
        let (generation, hinted) = lease.hint;
        let row = if books.snapshot.generation == generation {
            hinted
        } else {
            match books.row_of(lease.rank, lease.epoch) {
                Some(row) => row,
                // The worker left, and its load with it.
                None => return,
            }
        };
        let columns = &mut books.columns;
        let take = |column: &mut Vec<f64>, amount: f64| {
            debug_assert!(column[row] >= amount, "a lease gave back more than was booked");
            column[row] = (column[row] - amount).max(0.0);
        };
        take(&mut columns.active_requests, requests);
        take(&mut columns.active_prefill_tokens, charge.prefill_tokens as f64);
        take(&mut columns.active_decode_blocks, charge.decode_blocks as f64);
    }
}

/// A booking. Dropping it gives the load back; it can't be given back twice.
#[derive(Debug)]
pub struct Lease {
    ledger: Arc<Ledger>,
    rank: WorkerRank,
    epoch: Epoch,
    /// What is still booked.
    charge: Charge,
    /// The row, good for one generation of the fleet; saves the search.
    hint: (u64, usize),
}

impl Lease {
    /// Where it is booked.
    #[must_use]
    pub fn worker(&self) -> WorkerRank {
        self.rank
    }

    /// The worker's life that it is booked on.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The first token has come: gives the prefill tokens back. Again is nothing.
    pub fn prefill_done(&mut self) {
        let prefill_tokens = std::mem::take(&mut self.charge.prefill_tokens);
        if prefill_tokens > 0 {
            let ledger = self.ledger.clone();
            ledger.give_back(self, Charge { prefill_tokens, decode_blocks: 0 }, 0.0);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.ledger.give_back(self, self.charge, 1.0);
    }
}

#[cfg(test)]
mod tests;
