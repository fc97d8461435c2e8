//! A breaker: an instance that keeps failing is not asked for a while.
//!
//! Owns the rule and how one instance stands by it. It takes failures in a row to open it; then it
//! waits, lets one decision try, and waits twice as long if that fails too. The decisions of a
//! partition are serial, so one that tries is alone. It doesn't know what a failure is, or who
//! decides meanwhile; time comes in as milliseconds on the router's clock.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::clock::written;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BreakerSpec {
    /// Failures in a row that open it; 0 keeps it shut for ever.
    pub failures: u32,
    /// How long the first time.
    #[serde(serialize_with = "as_written")]
    pub wait: Duration,
    /// How long at most; each failed try doubles the wait.
    #[serde(serialize_with = "as_written")]
    pub longest_wait: Duration,
}

fn as_written<S: Serializer>(wait: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&written(*wait))
}

impl BreakerSpec {
    /// One that never opens.
    #[must_use]
    pub fn off() -> Self {
        Self { failures: 0, ..Self::default() }
    }
}

impl Default for BreakerSpec {
    fn default() -> Self {
        Self {
            failures: 5,
            wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(30),
        }
    }
}

/// Whether an instance is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BreakerState {
    /// It is.
    #[default]
    Closed,
    /// The next decision is to try it.
    HalfOpen,
    /// It isn't.
    Open,
}

impl BreakerState {
    /// All of them, for metrics.
    pub const ALL: [Self; 3] = [Self::Closed, Self::HalfOpen, Self::Open];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        }
    }
}

/// What has become of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It opened, for so many milliseconds.
    Opened(u64),
    /// It closed.
    Closed,
}

/// The breaker of one instance.
#[derive(Clone, Copy, Debug)]
pub struct Breaker {
    spec: BreakerSpec,
    failures_in_a_row: u32,
    /// How often it opened in a row.
    opened: u32,
    /// When it may be tried; none while it is closed.
    until_ms: Option<u64>,
}

impl Breaker {
    /// A closed one.
    #[must_use]
    pub fn new(spec: BreakerSpec) -> Self {
        Self { spec, failures_in_a_row: 0, opened: 0, until_ms: None }
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self, now_ms: u64) -> BreakerState {
        match self.until_ms {
            None => BreakerState::Closed,
            Some(until) if until <= now_ms => BreakerState::HalfOpen,
            Some(_) => BreakerState::Open,
        }
    }

    /// Milliseconds until it may be tried; none unless it is open.
    #[must_use]
    pub fn open_for_ms(&self, now_ms: u64) -> Option<u64> {
        self.until_ms.map(|until| until.saturating_sub(now_ms)).filter(|&wait| wait > 0)
    }

    /// Failures in a row.
    #[must_use]
    pub fn failures_in_a_row(&self) -> u32 {
        self.failures_in_a_row
    }

    /// Takes note of a decision that the instance was asked for.
    pub fn note(&mut self, failed: bool, now_ms: u64) -> Option<Turn> {
        if !failed {
            let was_open = self.until_ms.is_some();
            *self = Self::new(self.spec);
            return was_open.then_some(Turn::Closed);
        }
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let tried = self.until_ms.is_some();
        if self.spec.failures == 0 || !(tried || self.failures_in_a_row >= self.spec.failures) {
            return None;
        }
        let wait = self.spec.wait.saturating_mul(1 << self.opened.min(30));
        let wait = wait.min(self.spec.longest_wait).as_millis();
        let wait = u64::try_from(wait).unwrap_or(u64::MAX).max(1);
        self.opened = self.opened.saturating_add(1);
        self.until_ms = Some(now_ms.saturating_add(wait));
        Some(Turn::Opened(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_failures_in_a_row() {
        let mut breaker = Breaker::new(BreakerSpec::default());
        for decision in 0..1_000 {
            assert_eq!(breaker.note(decision % 5 != 0, decision), None, "four of five fail");
            assert_eq!(breaker.state(decision), BreakerState::Closed);
        }
        assert_eq!(breaker.note(true, 1_000), Some(Turn::Opened(100)), "with the four before");
    }

    #[test]
    fn each_failed_try_doubles_the_wait_and_a_good_one_closes() {
        let mut breaker = Breaker::new(BreakerSpec { failures: 1, ..BreakerSpec::default() });
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..12 {
            assert_ne!(breaker.state(now), BreakerState::Open);
            let Some(Turn::Opened(wait)) = breaker.note(true, now) else { break };
            assert_eq!(breaker.state(now + wait - 1), BreakerState::Open);
            assert_eq!(breaker.open_for_ms(now), Some(wait));
            waits.push(wait);
            now += wait;
        }
        let expected = [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600];
        assert_eq!(waits.get(..9), Some(&expected[..]));
        assert_eq!(waits.get(9..), Some(&[30_000; 3][..]));
        assert_eq!(breaker.state(now), BreakerState::HalfOpen);
        assert_eq!(breaker.note(false, now), Some(Turn::Closed));
        assert_eq!((breaker.state(now), breaker.failures_in_a_row()), (BreakerState::Closed, 0));
        assert_eq!(breaker.note(true, now), Some(Turn::Opened(100)), "all of that is forgotten");
    }

    #[test]
    fn its_times_are_shown_as_the_yaml_writes_them() {
        let shown = serde_json::to_value(BreakerSpec::default()).ok();
        let expected = serde_json::json!({ "failures": 5, "wait": "100ms", "longest_wait": "30s" });
        assert_eq!(shown, Some(expected));
    }

    #[test]
    fn one_that_is_off_never_opens() {
        let mut breaker = Breaker::new(BreakerSpec::off());
        for now in 0..1_000 {
            assert_eq!(breaker.note(true, now), None);
        }
        assert_eq!(breaker.state(1_000), BreakerState::Closed);
        assert_eq!(breaker.failures_in_a_row(), 1_000);
    }
}
