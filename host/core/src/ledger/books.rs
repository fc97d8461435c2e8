//! Rows and load, as they are under the ledger's lock.
//!
//! Owns what each booking does to its row: the columns, and what they are sums of. It doesn't know
//! who books, nor who may release what.

use std::sync::Arc;

use super::active_blocks::{ActiveBlocks, NO_RUN};
use super::bookings::{Booking, BookingId, Bookings, NOBODY};
use super::charge::{Charge, MAX_CHARGE, PromptBlocks};
use super::columns::{Columns, RowLoad, add};
use super::growth::{Step, WHOLE, blocks_of};
use super::prefill::{Prefills, carry};
use crate::fleet::Snapshot;
use crate::hosted::Seating;
use crate::ids::WorkerRank;

/// Rows and load, as they are under the lock.
#[derive(Debug, Default)]
pub struct Books {
    /// The rows.
    pub snapshot: Arc<Snapshot>,
    /// Their load, as far as it was booked here.
    pub columns: Columns,
    /// What was booked on them without this lock.
    pub seating: Arc<Seating>,
    /// What the blocks of each row weigh; the column shows it rounded.
    pub(super) weights: Vec<u128>,
    pub(super) bookings: Bookings,
    pub(super) blocks: ActiveBlocks,
    prefills: Prefills,
}

/// What a booking was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Booked {
    pub(super) id: BookingId,
    /// What its row's blocks were to be with it.
    pub(super) potential_decode_blocks: u64,
}

impl Books {
    /// Leases that have not been dropped, of rows that left included.
    #[must_use]
    pub fn live_leases(&self) -> u64 {
        self.bookings.len() as u64 + self.seating.total()
    }

    /// Requests that a row carries, wherever they were booked.
    #[must_use]
    pub fn active_requests(&self, row: usize) -> u64 {
        let booked = self.columns.active_requests.get(row).map_or(0, |&requests| requests as u64);
        booked + u64::from(self.seating.taken(row))
    }

    /// Takes what is already active of a prompt on each row off that row's value in `column`. `rows` says
    /// which rows these are, ascending.
    pub fn take_off_active(&self, prompt: &PromptBlocks<'_>, rows: &[u32], column: &mut [f64]) {
        let some = (rows.len() < self.snapshot.rows.len()).then_some(rows);
        self.blocks.take_off(prompt.hashes(), some, column);
    }

    /// Fills in the prompt tokens that wait for a first token, as far as they are thought to be left at
    /// a moment. `rows` says which rows these are, ascending.
    pub fn fill_prefill(&self, now_ms: u64, rows: &[u32], column: &mut [f64]) {
        let booked = &self.columns.active_prefill_tokens;
        if rows.len() == booked.len() {
            if self.prefills.melts() {
                self.prefills.fill(booked, now_ms, column);
            } else {
                column.iter_mut().zip(booked).for_each(|(to, booked)| *to = *booked);
            }
            return;
        }
        for (to, &row) in column.iter_mut().zip(rows) {
            let booked = booked.get(row as usize).copied().unwrap_or_default();
            *to = self.prefills.left(row as usize, booked, now_ms);
        }
    }

    /// Prompt tokens of a row that wait for a first token, as far as they are thought to be left at a
    /// moment.
    #[must_use]
    pub fn prefill_left(&self, row: usize, now_ms: u64) -> f64 {
        let booked = self.columns.active_prefill_tokens.get(row).copied().unwrap_or_default();
        self.prefills.left(row, booked, now_ms)
    }

    /// The blocks of a row of `snapshot` if it got a prompt: its active ones, and those of the prompt that
    /// aren't. The prompt's alone if its worker has left since.
    #[must_use]
    pub fn potential_decode_blocks(
        &self,
        snapshot: &Snapshot,
        row: usize,
        prompt: &PromptBlocks<'_>,
    ) -> u64 {
        let Some(row) = self.find(snapshot, row) else { return prompt.count() };
        let active = self.columns.active_decode_blocks.get(row as usize).copied();
        let shared = self.blocks.active(prompt.hashes(), row);
        active.unwrap_or_default() as u64 + prompt.count() - shared
    }

    /// The load of every row, in row order: at a moment, or as it was booked.
    pub(super) fn loads(&self, now_ms: Option<u64>) -> Vec<RowLoad> {
        let columns = &self.columns;
        let count = |column: &[f64], row: usize| column.get(row).copied().unwrap_or_default();
        let load = |(row, &worker): (usize, &WorkerRank)| {
            let booked = count(&columns.active_prefill_tokens, row);
            let left = now_ms.map_or(booked, |now_ms| self.prefills.left(row, booked, now_ms));
            RowLoad {
                worker,
                active_requests: self.active_requests(row),
                active_prefill_tokens: left as u64,
                active_decode_blocks: count(&columns.active_decode_blocks, row) as u64,
            }
        };
        self.snapshot.rows.iter().enumerate().map(load).collect()
    }

    pub(super) fn look(&mut self, now_ms: u64) {
        self.prefills.look(now_ms);
    }

    /// The row of a worker's life, which was `row` in `snapshot`.
    pub(crate) fn find(&self, snapshot: &Snapshot, row: usize) -> Option<u32> {
        let (rank, epoch) = (*snapshot.rows.get(row)?, snapshot.worker(row)?.epoch);
        let now = if snapshot.generation == self.snapshot.generation {
            (self.snapshot.rows.get(row) == Some(&rank)).then_some(row)?
        } else {
            self.snapshot.row_of(rank)?
        };
        (self.snapshot.worker(now)?.epoch == epoch).then_some(now as u32)
    }

    pub(super) fn book(&mut self, row: u32, charge: &Charge<'_>, now_ms: u64) -> Booked {
        self.look(now_ms);
        let prompt = &charge.prompt;
        let prefill_tokens = charge.prefill_tokens.min(MAX_CHARGE);
        let id = self.bookings.insert(Booking {
            row: Some(row),
            leaf: NO_RUN,
            own_blocks: prompt.rest(),
            discount: 0,
            prefill_tokens,
            prefill_ms: charge.prefill_ms.filter(|ms| ms.is_finite() && *ms > 0.0),
            before: NOBODY,
            after: NOBODY,
        });
        let requests = add(&mut self.columns.active_requests, row, 1.0);
        self.seating.note_booked(row as usize, requests);
        if prefill_tokens > 0 {
            let column = &mut self.columns.active_prefill_tokens;
            let booked = add(column, row, prefill_tokens as f64);
            self.prefills.begin(&mut self.bookings, row, id, booked);
        }
        let active = self.columns.active_decode_blocks.get(row as usize).copied();
        let fresh = if prompt.count() > 0 { self.hold(row, id, prompt) } else { 0 };
        let potential_decode_blocks = active.unwrap_or_default() as u64 + fresh;
        Booked { id, potential_decode_blocks }
    }

    /// Adds a prompt's blocks to its row. Returns how many that row didn't have.
    fn hold(&mut self, row: u32, id: BookingId, prompt: &PromptBlocks<'_>) -> u64 {
        let Self { blocks, bookings, weights, .. } = self;
        let Some(weight) = weights.get_mut(row as usize) else { return 0 };
        let mut fresh = prompt.rest();
        if let Some((chain, count)) = prompt.chain() {
            let held = blocks.hold(chain, count, row, id, |other, shared| {
                *weight += discount(bookings, other, shared);
            });
            fresh += held.fresh;
            if let Some(booking) = bookings.get_mut(id) {
                booking.leaf = held.leaf;
            }
        }
        *weight += u128::from(fresh) * u128::from(WHOLE);
        self.show(row);
        fresh
    }

    /// More of a booking's prompt is to be computed than was thought.
    pub(super) fn add_prefill(&mut self, id: BookingId, tokens: u64) {
        let Some(before) = self.bookings.get(id).map(|booking| booking.prefill_tokens) else {
            return;
        };
        let prefill_tokens = before.saturating_add(tokens).min(MAX_CHARGE);
        self.end_prefill(id, None);
        let Some(booking) = self.bookings.get_mut(id) else { return };
        booking.prefill_tokens = prefill_tokens;
        let Some(row) = booking.row.filter(|_| prefill_tokens > 0) else { return };
        let booked = add(&mut self.columns.active_prefill_tokens, row, prefill_tokens as f64);
        self.prefills.begin(&mut self.bookings, row, id, booked);
    }

    /// A booking's prompt has its first token.
    pub(super) fn end_prefill(&mut self, id: BookingId, now_ms: Option<u64>) {
        if let Some(now_ms) = now_ms {
            self.look(now_ms);
        }
        let Some(&Booking { row, prefill_tokens, .. }) = self.bookings.get(id) else { return };
        if prefill_tokens == 0 {
            return;
        }
        if let Some(row) = row {
            let column = &mut self.columns.active_prefill_tokens;
            let booked = add(column, row, -(prefill_tokens as f64));
            self.prefills.end(&mut self.bookings, row, id, booked, now_ms);
        }
        if let Some(booking) = self.bookings.get_mut(id) {
            booking.prefill_tokens = 0;
        }
    }

    /// A booking's blocks have changed.
    pub(super) fn grow(&mut self, id: BookingId, step: Step) {
        let Self { blocks, bookings, weights, .. } = self;
        let Some(booking) = bookings.get_mut(id) else { return };
        let before = *booking;
        booking.own_blocks = before.own_blocks.saturating_add(step.blocks).min(MAX_CHARGE);
        booking.discount = step.discount.unwrap_or(before.discount);
        let (Some(row), after) = (before.row, *booking) else { return };
        let Some(weight) = weights.get_mut(row as usize) else { return };
        let shared = blocks.alone(before.leaf, row);
        *weight += u128::from(after.own_blocks - before.own_blocks) * u128::from(WHOLE);
        *weight += off(before.discount, shared + before.own_blocks);
        *weight = weight.saturating_sub(off(after.discount, shared + after.own_blocks));
        self.show(row);
    }

    /// A booking is over.
    pub(super) fn release(&mut self, id: BookingId, now_ms: Option<u64>) {
        self.end_prefill(id, now_ms);
        let Some(booking) = self.bookings.remove(id) else { return };
        // Else the worker left, and its load with it.
        let Some(row) = booking.row else { return };
        let requests = add(&mut self.columns.active_requests, row, -1.0);
        self.seating.note_booked(row as usize, requests);
        if booking.leaf == NO_RUN && booking.own_blocks == 0 {
            return;
        }
        let Self { blocks, bookings, weights, .. } = self;
        let Some(weight) = weights.get_mut(row as usize) else { return };
        let mut less = 0;
        let gone = blocks.release(booking.leaf, row, id, |other, alone| {
            less += discount(bookings, other, alone);
        });
        let each = u128::from(WHOLE - booking.discount.min(WHOLE));
        less += u128::from(gone + booking.own_blocks) * each;
        *weight = weight.saturating_sub(less);
        self.show(row);
    }

    /// Takes up a changed fleet. Rows that go on (same rank, same epoch) keep their load; what was on the
    /// others is forgotten. False if there is a newer one already.
    pub(super) fn realign(&mut self, snapshot: Arc<Snapshot>) -> bool {
        if snapshot.generation < self.snapshot.generation {
            return false;
        }
        let old = std::mem::replace(&mut self.snapshot, snapshot);
        let (before, rows) = (old.rows.len(), self.snapshot.rows.len());
        let new: Vec<Option<u32>> = old.continued_in(&self.snapshot).collect();
        let same = before == rows && new.iter().zip(0..).all(|(new, row)| *new == Some(row));
        if same {
            return true;
        }
        let Self { blocks, bookings, .. } = self;
        for (id, booking) in bookings.iter_mut() {
            let Some(row) = booking.row else { continue };
            booking.row = new.get(row as usize).copied().flatten();
            if booking.row.is_none() {
                blocks.release(booking.leaf, row, id, |_, _| {});
                (booking.leaf, booking.prefill_tokens) = (NO_RUN, 0);
            }
        }
        blocks.renumber(&new, rows);
        self.prefills.renumber(&new, rows);
        let (columns, weights) =
            (std::mem::take(&mut self.columns), std::mem::take(&mut self.weights));
        self.columns = Columns::with_rows(rows);
        self.weights.resize(rows, 0);
        let now = &mut self.columns;
        for (old, row) in new.iter().enumerate() {
            let Some(row) = *row else { continue };
            carry(&mut now.active_requests, row, &columns.active_requests, old);
            carry(&mut now.active_prefill_tokens, row, &columns.active_prefill_tokens, old);
            carry(&mut now.active_decode_blocks, row, &columns.active_decode_blocks, old);
            carry(&mut self.weights, row, &weights, old);
        }
        true
    }

    fn show(&mut self, row: u32) {
        let weight = self.weights.get(row as usize).copied().unwrap_or_default();
        if let Some(shown) = self.columns.active_decode_blocks.get_mut(row as usize) {
            *shown = blocks_of(weight);
        }
    }
}

/// What is off the weight of so many blocks.
fn off(discount: u32, blocks: u64) -> u128 {
    u128::from(discount) * u128::from(blocks)
}

/// What is off the weight of so many blocks, if a booking is alone with them.
fn discount(bookings: &Bookings, id: BookingId, blocks: u32) -> u128 {
    bookings.get(id).map_or(0, |booking| off(booking.discount, u64::from(blocks)))
}
