//! Who isn't in place at a desk and may be again: the version before, while the one that took its
//! place is new, and a new one that failed, while the version before stands in for it.
//!
//! Owns when the two change places. One classifier at a time holds requests: whoever comes is told
//! what is under way and asked about what is held, as after a reload. It doesn't know requests.

use std::time::Duration;

use super::seat::Seat;
use crate::policy::{BreakerSpec, BreakerState, OnFailure};

/// The version before is kept for so many good answers in a row, as a policy's is.
const PROVEN_AFTER: u32 = 1_000;

/// A new version gives its place up at its first failure, and for long enough that telling the other
/// one all that there is doesn't become the rule.
const AT_ONCE: BreakerSpec = BreakerSpec {
    failures: 1,
    wait: Duration::from_secs(1),
    longest_wait: Duration::from_secs(30),
};

/// Who isn't in place; none is nobody.
#[derive(Debug, Default)]
pub(super) enum Bench {
    /// Nobody.
    #[default]
    Empty,
    /// The version before the one in place.
    Before(Seat),
    /// The one for which the version before stands in.
    Failed(Seat),
}

impl Bench {
    /// Another version takes the place of `old`, which is kept if the owner wants that.
    pub(super) fn replaced(&mut self, old: Option<Seat>, new: &mut Seat) {
        let before = std::mem::take(self);
        if new.on_failure() != OnFailure::LastGood {
            return;
        }
        let last_good = match (before, old) {
            // It failed, or was never asked, since it came.
            (Self::Before(before), Some(old)) if old.good() == 0 => Some(before),
            (_, old) => old,
        };
        if let Some(mut last_good) = last_good {
            last_good.rest();
            new.breaks(AT_ONCE, true);
            *self = Self::Before(last_good);
        }
    }

    /// The version before takes the place of one that has just failed. False if there is none.
    pub(super) fn stands_in(&mut self, seat: &mut Option<Seat>) -> bool {
        match (std::mem::take(self), seat.take()) {
            (Self::Before(mut before), Some(mut failed)) => {
                failed.rest();
                before.stand_in_for(&failed);
                before.breaks(BreakerSpec::default(), false);
                *seat = Some(before);
                *self = Self::Failed(failed);
                true
            }
            (bench, unchanged) => {
                (*self, *seat) = (bench, unchanged);
                false
            }
        }
    }

    /// One that failed is tried again, if it is time for that.
    pub(super) fn gives_back(&mut self, seat: &mut Option<Seat>, now_ms: u64) {
        let due = |failed: &Seat| failed.breaker().state(now_ms) != BreakerState::Open;
        if !self.failed().is_some_and(due) {
            return;
        }
        if let (Self::Failed(failed), Some(mut before)) = (std::mem::take(self), seat.take()) {
            before.rest();
            *seat = Some(failed);
            *self = Self::Before(before);
        }
    }

    /// Whoever is in place has answered well: the version before isn't kept for ever.
    pub(super) fn proves(&mut self, seat: &mut Seat) {
        if matches!(self, Self::Before(_)) && seat.good() >= PROVEN_AFTER {
            seat.breaks(BreakerSpec::default(), false);
            *self = Self::Empty;
        }
    }

    /// Whether there is a version that could stand in for the one in place.
    pub(super) fn has_before(&self) -> bool {
        matches!(self, Self::Before(_))
    }

    /// Whether what `seat`, which is in place, gives no good answer about is left to another instance:
    /// of the version before, or of its own, if that is the version before and has just been put there.
    pub(super) fn leaves_to_another(&self, seat: &Seat, now_ms: u64) -> bool {
        let awaited = || !seat.is_there() && seat.breaker().state(now_ms) != BreakerState::Open;
        self.has_before() || self.failed().is_some() && awaited()
    }

    /// For whom the one in place stands in.
    pub(super) fn failed(&self) -> Option<&Seat> {
        match self {
            Self::Failed(failed) => Some(failed),
            _ => None,
        }
    }

    /// When the one that failed is tried again; none is never.
    pub(super) fn due_at_ms(&self, now_ms: u64) -> Option<u64> {
        let failed = self.failed()?;
        Some(now_ms.saturating_add(failed.breaker().open_for_ms(now_ms).unwrap_or(0)))
    }
}
