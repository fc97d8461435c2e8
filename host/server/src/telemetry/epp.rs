//! What is counted of the endpoint picker. Its requests, decisions and answers count as all others.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use super::metrics::registered;
use super::names::epp as names;

/// Upper bounds in seconds for either time: tens of microseconds are usual, more for prompts of many kilobytes.
const PICK_BOUNDS: &[f64] = &[
    1e-5, 2e-5, 3e-5, 4e-5, 6e-5, 8e-5, 1e-4, 1.5e-4, 2e-4, 3e-4, 5e-4, 7.5e-4, 1e-3, 1.5e-3, 2e-3,
    3e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 1.0,
];

/// The families.
#[derive(Debug)]
pub struct EppMetrics {
    streams: IntGauge,
    pick_seconds: Histogram,
    own_seconds: Histogram,
    refused: IntCounterVec,
    mismatched: IntCounter,
    body_bytes: IntGauge,
}

impl EppMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let gauge = |name, help| registered(registry, IntGauge::new(name, help));
        let histogram = |name, help| {
            let opts = HistogramOpts::new(name, help).buckets(PICK_BOUNDS.to_vec());
            registered(registry, Histogram::with_opts(opts))
        };
        let refused = Opts::new(names::REFUSED, "Requests that got no worker, by why");
        Self {
            streams: gauge(names::STREAMS, "Streams of gateways that are open, one a request"),
            pick_seconds: histogram(
                names::PICK_SECONDS,
                "From the last byte of a request that is needed to the word where it goes, waits included",
            ),
            own_seconds: histogram(
                names::OWN_SECONDS,
                "Work on a request's head and body as they came, and until the word where it goes, without waits",
            ),
            refused: registered(registry, IntCounterVec::new(refused, &["kind"])),
            mismatched: registered(
                registry,
                IntCounter::new(
                    names::MISMATCHED,
                    "Requests that a gateway sent to another endpoint than was picked",
                ),
            ),
            body_bytes: gauge(
                names::BODY_BYTES,
                "Bytes of request bodies that the endpoint picker holds",
            ),
        }
    }

    /// A stream begins.
    #[must_use]
    pub fn begin(&self) -> EppStream {
        self.streams.inc();
        EppStream(self.streams.clone())
    }

    /// A request got a worker, so long after all of it was there, and with so much work.
    pub fn picked(&self, answered: Duration, own: Duration) {
        self.pick_seconds.observe(answered.as_secs_f64());
        self.own_seconds.observe(own.as_secs_f64());
    }

    /// A request got none.
    pub fn refused(&self, kind: &'static str) {
        self.refused.with_label_values(&[kind]).inc();
    }

    /// A request went elsewhere than was picked.
    pub fn mismatched(&self) {
        self.mismatched.inc();
    }

    /// Shows the memory that request bodies take; for who keeps them.
    #[must_use]
    pub fn body_bytes(&self) -> IntGauge {
        self.body_bytes.clone()
    }
}

/// A stream. It ends when this is dropped.
#[derive(Debug)]
pub struct EppStream(IntGauge);

impl Drop for EppStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}
