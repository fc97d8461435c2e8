//! How one worker answers, and what failures in a row cost it.
//!
//! Owns the rule by which a worker that passes its probes and fails its requests is left out for a
//! while: such a worker is always idle, and would draw all traffic of whoever weighs by load. Time
//! and outcomes come in, decisions come out. It doesn't know other workers: whether one may be left
//! out at all is asked of [`may_leave_out`], by whoever knows them all.
//!
//! # The rule
//!
//! `health.eject_after` failures in a row eject a worker for one second. After that it is tried
//! again: one more failure ejects it for twice as long, thirty seconds at most; one good answer
//! clears everything. An exchange that began before an ejection says nothing about what came after
//! it.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause: a moment for a worker that stumbled, and enough that one that is broken gets
/// about one request a second.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause: what a worker that has come back waits at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What requests have shown of one life of a worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Conduct {
    /// Failures in a row.
    failures: u32,
    /// Ejections in a row.
    ejections: u32,
    /// When the last one of these was; none when there are none.
    ejected: Option<Instant>,
    /// Until when it is left out; none when it isn't.
    out_until: Option<Instant>,
    /// Ejections in all.
    total: u64,
    /// Why it is left out, in words.
    why: String,
    /// It has been told that it would be left out, but for the others.
    spared: bool,
}

impl Conduct {
    /// An exchange that began at `began` ended well. Returns whether that changes anything.
    pub(super) fn did_well(&mut self, began: Instant) -> bool {
        let is_clean = self.failures == 0 && self.ejections == 0;
        if is_clean || self.is_old(began) {
            return false;
        }
        *self = Self { total: self.total, ..Self::default() };
        true
    }

    /// An exchange that began at `began` failed. Returns whether the worker is due to be ejected.
    pub(super) fn failed(&mut self, began: Instant, eject_after: u32) -> bool {
        if self.is_old(began) || eject_after == 0 {
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        let due = self.ejections > 0 || self.failures >= eject_after;
        due && self.out_until.is_none()
    }

    /// It is left out from now on. Returns for how long.
    pub(super) fn eject(&mut self, last: &str, now: Instant) -> Duration {
        // Beyond this, doubling changes nothing.
        let doublings = self.ejections.min(16);
        let pause = (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE);
        self.ejections = self.ejections.saturating_add(1);
        self.total = self.total.saturating_add(1);
        self.ejected = Some(now);
        self.out_until = Some(now + pause);
        self.why = format!(
            "{} failures in a row, the last: {last}; left out for {} s, then tried again",
            self.failures,
            pause.as_secs()
        );
        pause
    }

    /// It isn't left out any more, since the cause is elsewhere. Its failures stay counted.
    pub(super) fn readmit(&mut self) {
        self.ejections = 0;
        self.ejected = None;
        self.out_until = None;
    }

    /// It stays although it is due. Returns whether that is news.
    pub(super) fn spare(&mut self) -> bool {
        !std::mem::replace(&mut self.spared, true)
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now: Instant) {
        self.out_until = self.out_until.filter(|&until| until > now);
    }

    /// Until when it is left out.
    pub(super) fn out_until(&self) -> Option<Instant> {
        self.out_until
    }

    /// Why it is left out; none when it isn't.
    pub(super) fn why(&self) -> Option<&str> {
        self.out_until.map(|_| self.why.as_str())
    }

    /// How often it was ejected in this life.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether it is on its way out, or out: it has half as many failures in a row as it takes.
    pub(super) fn is_failing(&self, eject_after: u32) -> bool {
        self.ejections > 0 || self.failures >= eject_after.div_ceil(2).max(1)
    }

    fn is_old(&self, began: Instant) -> bool {
        self.ejected.is_some_and(|ejected| began < ejected)
    }
}

/// Whether so many workers may be left out for their failures. Not more than half: when most of
/// them fail, the cause is elsewhere (a request that breaks engines, a network, a release), and
/// leaving workers out only drives all load to the rest.
pub(super) fn may_leave_out(failing: usize, usable: usize) -> bool {
    failing.saturating_mul(2) <= usable
}

#[cfg(test)]
mod tests;
