//! The same pickers for many threads at once, without the partition's lock. With the same seed and
//! loads each picks what it would under the lock; but for turns, of which each way has its own.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Chance;
use crate::hosted::{Ask, HostedPicker, Padded, Rows, STRIPES};

/// Every worker in turn.
///
/// There is one sequence of turns that all threads share, and one for each stripe of them. A stripe's
/// first decision in a millisecond is of the shared one, so that requests that come one after the
/// other go to one worker after the other, whichever threads take them; the others in the same
/// millisecond are of the stripe's own, so that busy threads need nothing of each other. Each sequence
/// gives every worker its turn before any its next: over any number of decisions, two workers' counts
/// differ by no more than there are sequences, which is at most [`STRIPES`] + 1.
#[derive(Debug)]
pub(super) struct RoundRobin {
    shared: Padded<AtomicU64>,
    stripes: [Padded<Turns>; STRIPES],
}

#[derive(Debug)]
struct Turns {
    next: AtomicU64,
    /// The millisecond of the last shared turn.
    shared_at: AtomicU64,
}

impl Default for RoundRobin {
    fn default() -> Self {
        let turns = || Turns { next: AtomicU64::new(0), shared_at: AtomicU64::new(u64::MAX) };
        Self { shared: Padded::default(), stripes: std::array::from_fn(|_| Padded(turns())) }
    }
}

impl HostedPicker for RoundRobin {
    fn choose(&self, ask: &Ask<'_>) -> Option<u32> {
        match ask.rows {
            Rows::Ready(_) => ask.of_turn(self.take_turn(ask)?),
            Rows::Span { .. } => {
                let mut chance = Chance::new(ask.moment.seed);
                ask.rows.nth(chance.below(ask.rows.count()))
            }
            // Who has waited longest among some is known under the lock alone.
            Rows::Passing(_) => None,
        }
    }
}

impl RoundRobin {
    fn take_turn(&self, ask: &Ask<'_>) -> Option<u64> {
        let Padded(mine) = self.stripes.get(ask.stripe)?;
        let now_ms = ask.moment.now_ms;
        if mine.shared_at.load(Ordering::Relaxed) != now_ms {
            mine.shared_at.store(now_ms, Ordering::Relaxed);
            return Some(self.shared.0.fetch_add(1, Ordering::Relaxed));
        }
        let turn = mine.next.fetch_add(1, Ordering::Relaxed);
        // Stripes begin far from each other: at a half of the workers, a quarter, three quarters, …
        let spread = (ask.stripe as u64).reverse_bits() >> (64 - STRIPES.trailing_zeros());
        // The first of them right after the shared sequence's first.
        let start = 1 + ask.workers_in_turn() * spread / STRIPES as u64;
        Some(turn.wrapping_add(start))
    }
}

/// Any row, evenly.
#[derive(Debug)]
pub(super) struct Random;

impl HostedPicker for Random {
    fn choose(&self, ask: &Ask<'_>) -> Option<u32> {
        ask.rows.nth(Chance::new(ask.moment.seed).below(ask.rows.count()))
    }
}

/// The fewest active requests; ties evenly.
#[derive(Debug)]
pub(super) struct LeastLoaded;

impl HostedPicker for LeastLoaded {
    fn choose(&self, ask: &Ask<'_>) -> Option<u32> {
        least_loaded(ask, |_| true)
    }
}

/// The row with the fewest requests of those that are `wanted`.
pub(super) fn least_loaded(ask: &Ask<'_>, wanted: impl Fn(u32) -> bool) -> Option<u32> {
    let mut chance = Chance::new(ask.moment.seed);
    let (mut best, mut lowest, mut ties) = (None, u32::MAX, 0_u32);
    ask.rows.each(|row| {
        if !wanted(row) {
            return;
        }
        let load = ask.load(row);
        if best.is_none() || load < lowest {
            (best, lowest, ties) = (Some(row), load, 1);
        } else if load == lowest {
            ties += 1;
            if chance.unit() < 1.0 / f64::from(ties) {
                best = Some(row);
            }
        }
    });
    best
}

/// The less loaded of two rows drawn at random; the first of them if they are equal.
#[derive(Debug)]
pub(super) struct PowerOfTwo;

impl HostedPicker for PowerOfTwo {
    fn choose(&self, ask: &Ask<'_>) -> Option<u32> {
        let count = ask.rows.count();
        if count < 2 {
            return ask.rows.nth(0);
        }
        let mut chance = Chance::new(ask.moment.seed);
        let first = chance.below(count);
        // Drawn from the rest, so that it is never the first again.
        let second = (first + 1 + chance.below(count - 1)) % count;
        let (first, second) = (ask.rows.nth(first)?, ask.rows.nth(second)?);
        Some(if ask.load(second) < ask.load(first) { second } else { first })
    }
}

/// Where the request says, and nowhere else.
#[derive(Debug)]
pub(super) struct Direct;

impl HostedPicker for Direct {
    fn choose(&self, ask: &Ask<'_>) -> Option<u32> {
        ask.target?;
        ask.rows.nth(Chance::new(ask.moment.seed).below(ask.rows.count()))
    }
}
