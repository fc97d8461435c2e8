//! What is counted of requests that two workers share.

use std::sync::Arc;

use pointsman_core::clock::Stopwatch;
use pointsman_core::ids::Role;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use super::metrics::{keep_models, registered};
use super::names;

/// Upper bounds in seconds for a prefill: a short prompt to a very long one behind others.
const BOUNDS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// The families.
#[derive(Clone, Debug)]
pub struct Legs {
    legs: IntCounterVec,
    prefill_seconds: HistogramVec,
    handovers: IntCounterVec,
    bypassed: IntCounterVec,
}

impl Legs {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let seconds = "From sending a prefill to the end of its answer";
        let seconds = HistogramOpts::new(names::PREFILL_SECONDS, seconds).buckets(BOUNDS.to_vec());
        Self {
            legs: counter(
                names::LEGS,
                "Legs of requests that two workers share, by how they ended",
                &[names::MODEL, "role", "outcome"],
            ),
            prefill_seconds: registered(registry, HistogramVec::new(seconds, &[names::MODEL])),
            handovers: counter(
                names::HANDOVERS,
                "Answers to vLLM prefills, by whether they said where the blocks are",
                &[names::MODEL, "outcome"],
            ),
            bypassed: counter(
                names::BYPASSED_PREFILLS,
                "Requests whose decode worker computed the prompt, by why",
                &[names::MODEL, "reason"],
            ),
        }
    }

    /// A prefill is sent.
    #[must_use]
    pub fn prefill(&self, model: &Arc<str>) -> PrefillLeg {
        let watch = Stopwatch::start();
        PrefillLeg { legs: self.clone(), model: model.clone(), watch, outcome: "aborted" }
    }

    /// A decode has ended, so.
    pub fn decoded(&self, model: &str, outcome: &str) {
        self.legs.with_label_values(&[model, Role::Decode.as_str(), outcome]).inc();
    }

    /// A vLLM prefill was answered.
    pub fn handed_over(&self, model: &str, said_where: bool) {
        let outcome = if said_where { "kept" } else { "missing" };
        self.handovers.with_label_values(&[model, outcome]).inc();
    }

    /// A decode worker computes a prompt.
    pub fn bypassed(&self, model: &str, reason: &str) {
        self.bypassed.with_label_values(&[model, reason]).inc();
    }

    pub(super) fn keep_models(&self, served: &impl Fn(&str) -> bool) {
        keep_models(&self.legs, served);
        keep_models(&self.prefill_seconds, served);
        keep_models(&self.handovers, served);
        keep_models(&self.bypassed, served);
    }
}

/// A prefill on its way. Counted when this is dropped: as one whose client went away, unless it ended.
#[derive(Debug)]
pub struct PrefillLeg {
    legs: Legs,
    model: Arc<str>,
    watch: Stopwatch,
    outcome: &'static str,
}

impl PrefillLeg {
    /// It ended, so.
    pub fn ends(mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for PrefillLeg {
    fn drop(&mut self) {
        let Self { legs, model, watch, outcome } = self;
        legs.legs.with_label_values(&[&**model, Role::Prefill.as_str(), outcome]).inc();
        let took = watch.elapsed().as_secs_f64();
        legs.prefill_seconds.with_label_values(&[&**model]).observe(took);
    }
}
