//! What the cache that all workers share was asked, and what it said.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts, Registry};

use super::metrics::registered;
use super::names::shared_cache as names;

/// Upper bounds in seconds: a look-up next door to the longest time that may be allowed.
const BOUNDS: &[f64] =
    &[1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0];

/// The words for why there was no answer.
const REASONS: [&str; 6] =
    ["timeout", "unreachable", "shortage", "status", "too_long", "bad_answer"];

/// Why it wasn't asked although it should have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// Too many questions are on their way.
    Busy,
    /// It failed too often lately.
    Resting,
}

impl Unasked {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Resting => "resting",
        }
    }
}

/// The families.
#[derive(Debug)]
pub struct SharedCacheMetrics {
    seconds: Histogram,
    errors: IntCounterVec,
    unasked: IntCounterVec,
    asked_blocks: IntCounter,
    hit_blocks: IntCounter,
    beyond_blocks: IntCounter,
}

impl SharedCacheMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registered(registry, IntCounter::new(name, help));
        // Every word is there, at zero at least, so that an alert on it can be written.
        let by_reason = |name: &str, help: &str, reasons: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), &["reason"]);
            let counters = registered(registry, counters);
            reasons.iter().for_each(|reason| drop(counters.with_label_values(&[*reason])));
            counters
        };
        let seconds = HistogramOpts::new(
            names::QUERY_SECONDS,
            "From asking the shared cache to its answer, or to the end of the patience with it",
        );
        Self {
            seconds: registered(registry, Histogram::with_opts(seconds.buckets(BOUNDS.to_vec()))),
            errors: by_reason(
                names::ERRORS,
                "Questions that the shared cache didn't answer as it should",
                &REASONS,
            ),
            unasked: by_reason(
                names::UNASKED,
                "Prompts that the shared cache should have been asked about, and wasn't",
                &[Unasked::Busy, Unasked::Resting].map(Unasked::as_str),
            ),
            asked_blocks: counter(
                names::ASKED_BLOCKS,
                "Blocks that the shared cache was asked for, of the questions that it answered",
            ),
            hit_blocks: counter(names::HIT_BLOCKS, "Those of them that it holds"),
            beyond_blocks: counter(
                names::BEYOND_BLOCKS,
                "Blocks that it holds beyond what the chosen worker has on its device",
            ),
        }
    }

    /// A question has ended, one way or the other.
    pub fn asked(&self, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
    }

    /// It was answered: so many of so many blocks are there.
    pub fn answered(&self, asked_blocks: u64, hit_blocks: u64) {
        self.asked_blocks.inc_by(asked_blocks);
        self.hit_blocks.inc_by(hit_blocks);
    }

    /// It wasn't answered.
    pub fn failed(&self, reason: &str) {
        self.errors.with_label_values(&[reason]).inc();
    }

    /// Nothing was asked.
    pub fn unasked(&self, why: Unasked) {
        self.unasked.with_label_values(&[why.as_str()]).inc();
    }

    /// A worker was chosen, beyond whose device it holds so many blocks.
    pub(super) fn beyond(&self, blocks: u64) {
        self.beyond_blocks.inc_by(blocks);
    }
}
