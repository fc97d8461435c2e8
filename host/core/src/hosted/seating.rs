//! The rows of one snapshot, ready to be chosen among by many threads at once.
//!
//! Owns what can be worked out once for a fleet: which rows are ready, whose turn comes after whose,
//! what each worker runs on, and where each row's requests are counted. It never changes; another one
//! takes its place when the fleet does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::counts::{Counts, Token};
use super::stripes;
use crate::eligibility::{Exclusion, Exclusions};
use crate::fleet::{Availability, Epoch, Snapshot};
use crate::ids::WorkerRank;

/// Where one row's requests are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) rank: WorkerRank,
    pub(super) epoch: Epoch,
    pub(super) slot: u32,
}

/// A ready worker's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first of them.
    pub(crate) first: u32,
    /// How many.
    pub(crate) ranks: u32,
}

/// The rows of one snapshot, with their counters.
#[derive(Debug, Default)]
pub struct Seating {
    snapshot: Arc<Snapshot>,
    /// One for each row.
    seats: Box<[Seat]>,
    /// The rows of ready workers, ascending.
    ready: Box<[u32]>,
    /// The same by worker.
    spans: Box<[Span]>,
    /// Whether each ready worker has one rank alone.
    single: bool,
    /// Why the others aren't ready.
    excluded: Exclusions,
    /// One for each worker: whether it runs on processors alone.
    on_cpu: Box<[bool]>,
    counts: Counts,
    /// Whether anything is, or may be, counted at all.
    used: Arc<AtomicBool>,
}

impl Seating {
    pub(super) fn new(
        snapshot: Arc<Snapshot>,
        seats: Box<[Seat]>,
        counts: Counts,
        used: Arc<AtomicBool>,
    ) -> Self {
        let mut this = Self { seats, counts, used, single: true, ..Self::default() };
        let (mut ready, mut spans) = (Vec::new(), Vec::new());
        let mut first = 0;
        for worker in &snapshot.workers {
            let ranks = worker.spec.data_parallel_size.get();
            match worker.availability {
                Availability::Ready => {
                    ready.extend(first..first + ranks);
                    spans.push(Span { first, ranks });
                    this.single &= ranks == 1;
                }
                Availability::Draining => this.excluded.count(Exclusion::Draining, ranks),
                Availability::Unhealthy => this.excluded.count(Exclusion::Unhealthy, ranks),
                Availability::Overloaded => this.excluded.count(Exclusion::Overloaded, ranks),
            }
            first += ranks;
        }
        (this.ready, this.spans) = (ready.into(), spans.into());
        this.on_cpu = snapshot.workers.iter().map(|worker| worker.spec.runs_on_cpu()).collect();
        this.snapshot = snapshot;
        this
    }

    /// The rows.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The rows of ready workers, ascending.
    #[must_use]
    pub fn ready(&self) -> &[u32] {
        &self.ready
    }

    /// Why the other rows aren't ready.
    pub(crate) fn excluded(&self) -> Exclusions {
        self.excluded
    }

    /// The ready rows whose turn is the `turn`th: one of each worker, then of each worker the next
    /// rank. None if none is ready.
    pub(crate) fn of_turn(&self, turn: u64) -> Option<u32> {
        let workers = self.spans.len() as u64;
        let at = turn.checked_rem(workers)? as usize;
        if self.single {
            return self.ready.get(at).copied();
        }
        let span = self.spans.get(at)?;
        let rank = (turn / workers).checked_rem(u64::from(span.ranks))?;
        Some(span.first + rank as u32)
    }

    /// How many turns there are before the first worker has the next.
    pub(crate) fn workers_in_turn(&self) -> u64 {
        self.spans.len() as u64
    }

    /// Requests that a row carries, however they were booked, by so many stripes.
    pub(super) fn load(&self, row: u32, stripes: usize) -> u32 {
        self.seat(row).map_or(0, |seat| self.counts.load(seat.slot, stripes))
    }

    /// Whether a row's worker runs on processors alone.
    #[must_use]
    pub fn is_on_cpu(&self, row: u32) -> bool {
        let worker = self.snapshot.worker_of_row.get(row as usize);
        worker.and_then(|&at| self.on_cpu.get(at as usize)).copied().unwrap_or(false)
    }

    pub(super) fn seat(&self, row: u32) -> Option<&Seat> {
        self.seats.get(row as usize)
    }

    pub(super) fn seats(&self) -> &[Seat] {
        &self.seats
    }

    pub(super) fn take(&self, seat: &Seat) -> Option<Token> {
        self.counts.take(seat.slot, stripes::mine())
    }

    /// The ledger says how many requests it has booked on a row.
    pub(crate) fn note_booked(&self, row: usize, requests: f64) {
        if let Some(seat) = self.seats.get(row) {
            self.counts.note_booked(seat.slot, requests as u32);
        }
    }

    /// Requests of a row that were booked here, and not in the ledger.
    pub(crate) fn taken(&self, row: usize) -> u32 {
        if !self.used.load(Ordering::SeqCst) {
            return 0;
        }
        self.seats.get(row).map_or(0, |seat| self.counts.taken(seat.slot))
    }

    /// Adds those to a column of rows.
    pub(crate) fn add_taken(&self, rows: &[u32], column: &mut [f64]) {
        if self.used.load(Ordering::SeqCst) {
            for (to, &row) in column.iter_mut().zip(rows) {
                *to += f64::from(self.taken(row as usize));
            }
        }
    }

    /// Requests that were booked here and are not over, of rows that have left included.
    pub(crate) fn total(&self) -> u64 {
        if self.used.load(Ordering::SeqCst) { self.counts.total() } else { 0 }
    }
}
