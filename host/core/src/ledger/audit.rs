//! Whether the books are right: every column counted again from the live bookings.
//!
//! Owns the second count and what it found. Bookings wait only while it takes down what there is; it
//! counts afterwards. It mends nothing: what is wrong is a mistake in this program, and is to be seen.

use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use serde::Serialize;

use super::Ledger;
use super::active_blocks::RunId;
use super::bookings::BookingId;
use super::books::Books;
use super::columns::Columns;
use super::growth::{WHOLE, blocks_of};
use crate::ids::WorkerRank;

/// So many discrepancies are told in full.
const MOST_TOLD: usize = 16;

/// A value that isn't the sum of what is booked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Discrepancy {
    /// Where.
    #[serde(flatten)]
    pub worker: WorkerRank,
    /// What: a column, or `active_block_holders`.
    pub column: &'static str,
    /// What the books say.
    pub shown: f64,
    /// What the bookings say.
    pub expected: f64,
}

/// What a second count found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Audit {
    /// Live bookings that were counted, of rows that left included.
    pub bookings: u64,
    /// Rows.
    pub rows: u64,
    /// Values that aren't the sum of what is booked. Always 0, unless this program is wrong.
    pub wrong: u64,
    /// The first few of them.
    pub discrepancies: Vec<Discrepancy>,
}

/// One row's bookings of one run of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    bookings: u32,
    ids: BookingId,
    blocks: u32,
}

/// What there is, taken down under the lock.
#[derive(Default)]
struct Notes {
    rows: Vec<WorkerRank>,
    /// Column by column.
    shown: Vec<(&'static str, Vec<f64>)>,
    weights: Vec<u128>,
    /// Row, requests' prefill tokens, own blocks, discount, by booking.
    bookings: HashMap<BookingId, (u32, u64, u64, u32)>,
    /// Whose bookings go through which runs.
    steps: Vec<((RunId, u32), BookingId, u32)>,
    holders: Vec<((RunId, u32), u32, BookingId)>,
    live: u64,
}

impl Ledger {
    /// Counts every column again from the live bookings. It takes a while for many thousands of
    /// bookings, and holds up bookings for a part of that: some tens of nanoseconds for each.
    #[must_use]
    pub fn audit(&self) -> Audit {
        let notes = self.read(Notes::take);
        let audit = notes.count();
        self.discrepancies.store(audit.wrong, Ordering::Relaxed);
        audit
    }
}

impl Notes {
    fn take(books: &Books) -> Self {
        let mut notes = Self {
            rows: books.snapshot.rows.clone(),
            shown: books.columns.each().map(|(name, column)| (name, column.to_vec())).into(),
            weights: books.weights.clone(),
            live: books.bookings.len() as u64,
            ..Self::default()
        };
        for (id, booking) in books.bookings.iter() {
            let Some(row) = booking.row else { continue };
            let facts = (row, booking.prefill_tokens, booking.own_blocks, booking.discount);
            notes.bookings.insert(id, facts);
            books.blocks.runs_of(booking.leaf, |run, blocks| {
                notes.steps.push(((run, row), id, blocks));
            });
        }
        books.blocks.for_each_holder(|run, row, bookings, ids| {
            notes.holders.push(((run, row), bookings, ids));
        });
        notes
    }

    fn count(&self) -> Audit {
        let mut audit =
            Audit { bookings: self.live, rows: self.rows.len() as u64, ..Audit::default() };
        let mut columns = Columns::with_rows(self.rows.len());
        let mut weights = vec![0_u128; self.rows.len()];
        let add = |column: &mut [f64], row: u32, value: f64| {
            if let Some(to) = column.get_mut(row as usize) {
                *to += value;
            }
        };
        for &(row, prefill_tokens, own_blocks, discount) in self.bookings.values() {
            add(&mut columns.active_requests, row, 1.0);
            add(&mut columns.active_prefill_tokens, row, prefill_tokens as f64);
            weigh(&mut weights, row, own_blocks, discount);
        }
        let tallies = self.tallies();
        for ((_, row), tally) in &tallies {
            let alone = self.bookings.get(&tally.ids).filter(|_| tally.bookings == 1);
            weigh(&mut weights, *row, u64::from(tally.blocks), alone.map_or(0, |facts| facts.3));
        }
        columns.active_decode_blocks = weights.iter().map(|weight| blocks_of(*weight)).collect();
        for ((name, shown), (_, expected)) in self.shown.iter().zip(columns.each()) {
            self.compare(&mut audit, name, shown, expected);
        }
        // What the column doesn't show for being rounded.
        let exact =
            |weights: &[u128]| weights.iter().map(|w| *w as f64 / f64::from(WHOLE)).collect();
        let (shown, expected): (Vec<f64>, Vec<f64>) = (exact(&self.weights), exact(&weights));
        self.compare(&mut audit, "active_decode_blocks", &shown, &expected);
        self.compare_holders(&mut audit, tallies);
        audit
    }

    /// Who holds which run, by the bookings.
    fn tallies(&self) -> HashMap<(RunId, u32), Tally> {
        let mut tallies = HashMap::<(RunId, u32), Tally>::new();
        for &(at, id, blocks) in &self.steps {
            let tally = tallies.entry(at).or_default();
            tally.bookings += 1;
            tally.ids ^= id;
            tally.blocks = blocks;
        }
        tallies
    }

    fn compare(&self, audit: &mut Audit, column: &'static str, shown: &[f64], expected: &[f64]) {
        if shown.len() != self.rows.len() {
            audit.wrong += 1;
        }
        for ((&worker, &shown), &expected) in self.rows.iter().zip(shown).zip(expected) {
            if shown != expected {
                audit.note(Discrepancy { worker, column, shown, expected });
            }
        }
    }

    fn compare_holders(&self, audit: &mut Audit, mut tallies: HashMap<(RunId, u32), Tally>) {
        let mut differs = |row: u32, shown: u32, expected: u32| {
            if let Some(&worker) = self.rows.get(row as usize) {
                let (shown, expected) = (f64::from(shown), f64::from(expected));
                let column = "active_block_holders";
                audit.note(Discrepancy { worker, column, shown, expected });
            }
        };
        for &((run, row), bookings, ids) in &self.holders {
            let tally = tallies.remove(&(run, row)).unwrap_or_default();
            if (tally.bookings, tally.ids) != (bookings, ids) {
                differs(row, bookings, tally.bookings);
            }
        }
        tallies.iter().for_each(|((_, row), tally)| differs(*row, 0, tally.bookings));
    }
}

impl Audit {
    fn note(&mut self, discrepancy: Discrepancy) {
        self.wrong += 1;
        if self.discrepancies.len() < MOST_TOLD {
            self.discrepancies.push(discrepancy);
        }
    }
}

fn weigh(weights: &mut [u128], row: u32, blocks: u64, discount: u32) {
    if let Some(weight) = weights.get_mut(row as usize) {
        *weight += u128::from(blocks) * u128::from(WHOLE - discount.min(WHOLE));
    }
}
