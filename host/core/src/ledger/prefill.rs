//! Prompt tokens that wait for their first token, and what is left of them at a moment.
//!
//! Owns each row's line of prefills, oldest first. The oldest is the *anchor*: an engine is thought
//! to be at work on that one, for as long as a model said. Where all of a row's durations are known, the
//! row's tokens melt at the anchor's rate; else only the anchor's own do. Without a model nothing melts.
//! Nothing is rebuilt as time goes by: a reader says when he reads.

use super::bookings::{BookingId, Bookings, NOBODY};

/// The prefills of all rows.
#[derive(Debug, Default)]
pub(super) struct Prefills {
    lines: Vec<Line>,
    /// Since when the anchor is at work, in milliseconds; infinite until the next look at the clock.
    since: Vec<f64>,
    /// Tokens that it does in a millisecond; 0 where nothing melts.
    rate: Vec<f64>,
    /// The most that can melt.
    most: Vec<f64>,
    /// Rows in which something melts.
    melting: usize,
    /// Rows whose anchor's beginning the next look at the clock is to say.
    waiting: Vec<u32>,
    /// The latest moment that was told.
    told_ms: u64,
}

/// A row's prefills, in the order in which they came.
#[derive(Clone, Copy, Debug)]
struct Line {
    first: BookingId,
    last: BookingId,
    /// Those whose duration isn't known.
    unknown: u32,
}

impl Default for Line {
    fn default() -> Self {
        Self { first: NOBODY, last: NOBODY, unknown: 0 }
    }
}

impl Prefills {
    /// Takes note of the time.
    pub(super) fn look(&mut self, now_ms: u64) {
        self.told_ms = self.told_ms.max(now_ms);
        while let Some(row) = self.waiting.pop() {
            if let Some(since) = self.since.get_mut(row as usize).filter(|s| s.is_infinite()) {
                *since = self.told_ms as f64;
            }
        }
    }

    /// A booking's prefill begins to wait; `booked` are the row's tokens with it.
    pub(super) fn begin(&mut self, bookings: &mut Bookings, row: u32, id: BookingId, booked: f64) {
        let Some(line) = self.lines.get_mut(row as usize) else { return };
        let last = std::mem::replace(&mut line.last, id);
        if last == NOBODY {
            line.first = id;
            if let Some(since) = self.since.get_mut(row as usize) {
                *since = self.told_ms as f64;
            }
        } else if let Some(last) = bookings.get_mut(last) {
            last.after = id;
        }
        if let Some(booking) = bookings.get_mut(id) {
            (booking.before, booking.after) = (last, NOBODY);
            line.unknown += u32::from(booking.prefill_ms.is_none());
        }
        self.refresh(bookings, row, booked);
    }

    /// A booking's prefill waits no more; `booked` are the row's tokens without it. Where the time isn't
    /// known, whoever comes next begins at the next look at the clock.
    pub(super) fn end(
        &mut self,
        bookings: &mut Bookings,
        row: u32,
        id: BookingId,
        booked: f64,
        now_ms: Option<u64>,
    ) {
        let (Some(line), Some(&booking)) = (self.lines.get_mut(row as usize), bookings.get(id))
        else {
            return;
        };
        match bookings.get_mut(booking.before) {
            Some(before) => before.after = booking.after,
            None => line.first = booking.after,
        }
        match bookings.get_mut(booking.after) {
            Some(after) => after.before = booking.before,
            None => line.last = booking.before,
        }
        let all_known = line.unknown == 0;
        line.unknown -= u32::from(booking.prefill_ms.is_none()).min(line.unknown);
        if booking.before == NOBODY {
            self.anchor(row, now_ms);
        } else if all_known {
            self.shift(row, booking.prefill_tokens as f64, now_ms);
        }
        self.refresh(bookings, row, booked);
    }

    /// What is left of a row's tokens at a moment.
    pub(super) fn left(&self, row: usize, booked: f64, now_ms: u64) -> f64 {
        let value = |column: &[f64]| column.get(row).copied().unwrap_or_default();
        left(booked, value(&self.rate), value(&self.since), value(&self.most), now_ms as f64)
    }

    /// Whether anything melts anywhere.
    pub(super) fn melts(&self) -> bool {
        self.melting > 0
    }

    /// The same of all rows.
    pub(super) fn fill(&self, booked: &[f64], now_ms: u64, column: &mut [f64]) {
        let now = now_ms as f64;
        let rows = booked.iter().zip(&self.rate).zip(self.since.iter().zip(&self.most));
        for (to, ((&booked, &rate), (&since, &most))) in column.iter_mut().zip(rows) {
            *to = left(booked, rate, since, most, now);
        }
    }

    /// Gives every row its new number. Those that have none are forgotten, with their line.
    pub(super) fn renumber(&mut self, new: &[Option<u32>], rows: usize) {
        let before = std::mem::take(self);
        self.told_ms = before.told_ms;
        self.lines.resize(rows, Line::default());
        for column in [&mut self.since, &mut self.rate, &mut self.most] {
            column.resize(rows, 0.0);
        }
        for (old, row) in new.iter().enumerate() {
            let Some(row) = *row else { continue };
            carry(&mut self.lines, row, &before.lines, old);
            carry(&mut self.since, row, &before.since, old);
            carry(&mut self.rate, row, &before.rate, old);
            carry(&mut self.most, row, &before.most, old);
        }
        self.melting = self.rate.iter().filter(|rate| **rate > 0.0).count();
        let waits = (0..).zip(&self.since).filter(|(_, since)| since.is_infinite());
        self.waiting = waits.map(|(row, _)| row).collect();
    }

    /// The oldest of a row begins.
    fn anchor(&mut self, row: u32, now_ms: Option<u64>) {
        let Some(since) = self.since.get_mut(row as usize) else { return };
        match now_ms {
            Some(now_ms) => *since = now_ms as f64,
            None if since.is_infinite() => {}
            None => {
                *since = f64::INFINITY;
                self.waiting.push(row);
            }
        }
    }

    /// One that isn't the oldest has left: what was thought done of it is no longer to be taken off.
    fn shift(&mut self, row: u32, tokens: f64, now_ms: Option<u64>) {
        let rate = self.rate.get(row as usize).copied().unwrap_or_default();
        let now = now_ms.unwrap_or(self.told_ms) as f64;
        if let Some(since) = self.since.get_mut(row as usize).filter(|_| rate > 0.0) {
            *since = (*since + tokens / rate).min(now.max(*since));
        }
    }

    fn refresh(&mut self, bookings: &Bookings, row: u32, booked: f64) {
        let at = row as usize;
        let Some(line) = self.lines.get(at) else { return };
        let anchor = bookings.get(line.first);
        let tokens = anchor.map_or(0.0, |anchor| anchor.prefill_tokens as f64);
        let duration = anchor.and_then(|anchor| anchor.prefill_ms);
        // A duration of almost nothing is still one.
        let melts = duration.map_or(0.0, |ms| (tokens / ms).min(f64::MAX));
        let can_melt = if line.unknown == 0 { booked } else { tokens };
        let (Some(since), Some(rate), Some(most)) =
            (self.since.get_mut(at), self.rate.get_mut(at), self.most.get_mut(at))
        else {
            return;
        };
        if *rate > 0.0 && can_melt > *most {
            // An anchor that is overdue has done nothing of what comes now.
            *since = since.max(self.told_ms as f64 - *most / *rate);
        }
        self.melting += usize::from(melts > 0.0);
        self.melting -= usize::from(*rate > 0.0).min(self.melting);
        (*rate, *most) = (melts, can_melt);
    }
}

fn left(booked: f64, rate: f64, since: f64, most: f64, now: f64) -> f64 {
    // What is left is rounded up: a token that isn't done is to do. But for a millionth of one, which is
    // lost in the numbers.
    booked - (rate * (now - since).max(0.0) + 1e-6).floor().min(most)
}

/// Copies a row's value to where that row is now.
pub(super) fn carry<T: Copy>(to: &mut [T], row: u32, from: &[T], old: usize) {
    if let (Some(to), Some(from)) = (to.get_mut(row as usize), from.get(old)) {
        *to = *from;
    }
}
