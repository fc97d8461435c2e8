//! How long something took, over many times, in memory that doesn't grow with them: the bench reads
//! its own.

use std::fmt;

use anyhow::Result;
use hdrhistogram::Histogram;
use pointsman_core::clock::Stopwatch;

/// Longest time that is told apart: a minute, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// Times in nanoseconds, each kept to a thousandth.
#[derive(Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, LONGEST, 3)?))
    }

    /// One more, from the start of `watch` until now.
    pub(crate) fn note(&mut self, watch: &Stopwatch) {
        let nanos = u64::try_from(watch.elapsed().as_nanos()).unwrap_or(LONGEST);
        self.0.saturating_record(nanos);
    }

    pub(crate) fn p50(&self) -> u64 {
        self.0.value_at_quantile(0.5)
    }

    pub(crate) fn p99(&self) -> u64 {
        self.0.value_at_quantile(0.99)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |share: f64| self.0.value_at_quantile(share) as f64 / 1e3;
        let (p50, p99, p999, count) = (us(0.5), us(0.99), us(0.999), self.0.len());
        write!(f, "p50 {p50:.2} us, p99 {p99:.2}, p99.9 {p999:.2} ({count} decisions)")
    }
}
