//! The counters of a request's way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::policy::Cause;
use pointsman_core::policy::pipeline::Told;
use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use super::classes::PolicyClasses;
use super::epp::EppMetrics;
use super::legs::Legs;
use super::names;
use super::outcome::Outcome;
use super::predictions::Predictions;
use super::receipts::{Receipts, Record, Usage};
use super::selections::SelectionMetrics;
use super::shared_cache::SharedCacheMetrics;
use crate::serve::Counts;

/// Upper bounds in seconds for requests: a quick embedding to a long generation.
const REQUEST_BOUNDS: &[f64] = &[
    0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
    600.0,
];
/// Upper bounds in seconds for decisions: microseconds are usual, milliseconds a policy's deadline.
const DECISION_BOUNDS: &[f64] =
    &[1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.1];
/// Upper bounds in units of fuel: a few instructions to the usual limit.
const FUEL_BOUNDS: &[f64] = &[1e2, 3e2, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 1e8];

/// Counts what happens to requests, and remembers the latest decisions.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    first_token_seconds: HistogramVec,
    in_flight: IntGauge,
    body_bytes: IntGauge,
    admin_body_bytes: IntGauge,
    decisions: IntCounterVec,
    undecided: IntCounterVec,
    decision_seconds: Histogram,
    decision_fuel: HistogramVec,
    stage_fuel: HistogramVec,
    stage_seconds: HistogramVec,
    told: IntCounterVec,
    retries: IntCounterVec,
    upstream_errors: IntCounterVec,
    answers: IntCounterVec,
    connections: IntGaugeVec,
    connections_closed: IntCounterVec,
    predictions: Predictions,
    shared_cache: SharedCacheMetrics,
    legs: Legs,
    classes: PolicyClasses,
    selections: SelectionMetrics,
    epp: EppMetrics,
    receipts: Receipts,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            registered(&registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let histogram = |name: &str, help: &str, labels: &[&str], bounds: &[f64]| {
            let opts = HistogramOpts::new(name, help).buckets(bounds.to_vec());
            registered(&registry, HistogramVec::new(opts, labels))
        };
        Self {
            requests: counter(
                names::REQUESTS,
                "Requests answered; 499 when the client went away before that",
                &[names::MODEL, "route", "status"],
            ),
            request_seconds: histogram(
                names::REQUEST_SECONDS,
                "From a request's head to the end of its answer",
                &[names::MODEL, "route"],
                REQUEST_BOUNDS,
            ),
            first_token_seconds: histogram(
                names::FIRST_TOKEN_SECONDS,
                "From a request's head to its answer's first token, or first byte",
                &[names::MODEL, "route"],
                REQUEST_BOUNDS,
            ),
            in_flight: registered(
                &registry,
                IntGauge::new(names::REQUESTS_IN_FLIGHT, "Requests whose answer has not ended"),
            ),
            body_bytes: registered(
                &registry,
                IntGauge::new(names::BODY_BYTES, "Bytes of request bodies that are held"),
            ),
            admin_body_bytes: registered(
                &registry,
                IntGauge::new(
                    names::ADMIN_BODY_BYTES,
                    "Bytes of request bodies that the admin listener holds",
                ),
            ),
            decisions: counter(
                names::DECISIONS,
                "Decisions, by the policy that made them; stand_in when another should have",
                &["policy", "outcome"],
            ),
            undecided: counter(names::UNDECIDED, "Requests that got no worker", &["kind"]),
            decision_seconds: registered(
                &registry,
                Histogram::with_opts(
                    HistogramOpts::new(
                        names::DECISION_SECONDS,
                        "How long a decision took, all host work included",
                    )
                    .buckets(DECISION_BOUNDS.to_vec()),
                ),
            ),
            decision_fuel: histogram(
                names::DECISION_FUEL,
                "Fuel that a decision's components used",
                &["policy"],
                FUEL_BOUNDS,
            ),
            stage_fuel: histogram(
                names::STAGE_FUEL,
                "Fuel that the call of a component's stage used",
                &["policy", "stage", "outcome"],
                FUEL_BOUNDS,
            ),
            stage_seconds: histogram(
                names::STAGE_SECONDS,
                "How long the call of a component's stage took",
                &["policy", "stage", "outcome"],
                DECISION_BOUNDS,
            ),
            told: counter(
                names::OUTCOME_BATCHES,
                "Batches of outcomes that a policy was told of, by how it took them",
                &["policy", "outcome"],
            ),
            retries: counter(names::RETRIES, "Requests sent once more", &["reason"]),
            upstream_errors: counter(
                names::UPSTREAM_ERRORS,
                "Exchanges with workers that failed",
                &["kind"],
            ),
            answers: counter(
                names::ANSWERS,
                "Answers that workers began, by how they ended",
                &["shape", "outcome"],
            ),
            connections: registered(
                &registry,
                IntGaugeVec::new(
                    Opts::new(names::CONNECTIONS, "Connections that are open"),
                    &["listener"],
                ),
            ),
            connections_closed: counter(
                names::CONNECTIONS_CLOSED,
                "Connections closed for want of room: idle ones for others, or newcomers",
                &["listener", "whose"],
            ),
            predictions: Predictions::new(&registry),
            shared_cache: SharedCacheMetrics::new(&registry),
            legs: Legs::new(&registry),
            classes: PolicyClasses::new(&registry),
            selections: SelectionMetrics::new(&registry),
            epp: EppMetrics::new(&registry),
            receipts: Receipts::default(),
            registry,
        }
    }

    /// As Prometheus reads it.
    #[must_use]
    pub fn encode(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_else(|error| {
            // Only a bug of ours leads here; a scrape without these lines is better than none.
            tracing::error!(%error, "the request metrics can't be written");
            String::new()
        })
    }

    /// The latest decisions.
    #[must_use]
    pub fn receipts(&self) -> &Receipts {
        &self.receipts
    }

    /// Shows the memory that request bodies take; for who keeps them.
    #[must_use]
    pub fn body_bytes(&self) -> IntGauge {
        self.body_bytes.clone()
    }

    /// The same, of the admin listener's.
    #[must_use]
    pub fn admin_body_bytes(&self) -> IntGauge {
        self.admin_body_bytes.clone()
    }

    /// Counts a listener's connections; for who keeps them.
    #[must_use]
    pub(crate) fn connections(&self, listener: &str) -> Counts {
        let closed = |whose: &str| self.connections_closed.with_label_values(&[listener, whose]);
        Counts {
            open: self.connections.with_label_values(&[listener]),
            gave_way: closed("idle"),
            refused: closed("newcomer"),
        }
    }

    /// A request came.
    pub fn request_began(&self) {
        self.in_flight.inc();
    }

    /// A request's answer ended. The model is one that a worker serves, or [`names::NO_MODEL`].
    pub fn request_ended(&self, model: &str, route: &str, status: &str, took: Duration) {
        self.in_flight.dec();
        self.requests.with_label_values(&[model, route, status]).inc();
        self.request_seconds.with_label_values(&[model, route]).observe(took.as_secs_f64());
    }

    /// Forgets what was counted of requests for models that `served` doesn't know.
    pub fn keep_models(&self, served: impl Fn(&str) -> bool) {
        let served = |model: &str| model == names::NO_MODEL || served(model);
        keep_models(&self.requests, &served);
        keep_models(&self.request_seconds, &served);
        keep_models(&self.first_token_seconds, &served);
        self.predictions.keep_models(&served);
        self.legs.keep_models(&served);
        self.classes.keep_models(&served);
    }

    /// A request was turned away at the door.
    pub fn request_turned_away(&self, route: &str, status: &str) {
        self.requests.with_label_values(&[names::NO_MODEL, route, status]).inc();
    }

    /// An answer's first token came.
    pub fn first_token(&self, model: &str, route: &str, took: Duration) {
        self.first_token_seconds.with_label_values(&[model, route]).observe(took.as_secs_f64());
    }

    /// What is counted of predictions.
    #[must_use]
    pub fn predictions(&self) -> &Predictions {
        &self.predictions
    }

    /// What is counted of the shared cache.
    #[must_use]
    pub fn shared_cache(&self) -> &SharedCacheMetrics {
        &self.shared_cache
    }

    /// What is counted of requests that two workers share.
    #[must_use]
    pub fn legs(&self) -> &Legs {
        &self.legs
    }

    /// What is counted of policy classes that there aren't.
    #[must_use]
    pub fn classes(&self) -> &PolicyClasses {
        &self.classes
    }

    /// What is counted of the selection service.
    #[must_use]
    pub fn selections(&self) -> &SelectionMetrics {
        &self.selections
    }

    /// Counts what the endpoint picker does.
    #[must_use]
    pub fn epp(&self) -> &EppMetrics {
        &self.epp
    }

    /// A decision was made and booked.
    pub fn decided(&self, record: Arc<Record>) {
        let receipt = record.receipt();
        let policy = &*receipt.policy.name;
        let outcome = if receipt.fallback.is_none() { "chosen" } else { "stand_in" };
        self.decisions.with_label_values(&[policy, outcome]).inc();
        self.decision_seconds.observe(receipt.micros / 1e6);
        if let Some(fuel) = receipt.fuel() {
            self.decision_fuel.with_label_values(&[policy]).observe(fuel as f64);
        }
        for stage in &receipt.stages {
            let outcome = stage.failed.map_or("good", Cause::as_str);
            let labels = [policy, stage.kind.as_str(), outcome];
            if let Some(fuel) = stage.fuel {
                self.stage_fuel.with_label_values(&labels).observe(fuel as f64);
            }
            if let Some(micros) = stage.micros {
                self.stage_seconds.with_label_values(&labels).observe(micros / 1e6);
            }
        }
        if record.is_predicted() {
            self.predictions.predicted(receipt);
        }
        self.shared_cache.beyond(record.shared_blocks().unwrap_or_default());
        self.receipts.push(record);
    }

    /// A policy was told what became of decisions.
    pub fn told(&self, told: &Told) {
        let policy = &*told.policy;
        let outcome = told.failed.map_or("good", Cause::as_str);
        self.told.with_label_values(&[policy, outcome]).inc();
        let labels = [policy, "observe", outcome];
        if let Some(fuel) = told.fuel {
            self.stage_fuel.with_label_values(&labels).observe(fuel as f64);
        }
        if let Some(micros) = told.micros {
            self.stage_seconds.with_label_values(&labels).observe(micros / 1e6);
        }
    }

    /// An answer has ended, and this is what it says of the prompt.
    pub fn reported(&self, record: &Record, usage: Usage) {
        if usage != Usage::default() {
            record.report(usage);
            self.predictions.reported(record, usage);
        }
    }

    /// A request got no worker.
    pub fn undecided(&self, kind: &str) {
        self.undecided.with_label_values(&[kind]).inc();
    }

    /// A request is sent once more.
    pub fn retried(&self, reason: &str) {
        self.retries.with_label_values(&[reason]).inc();
    }

    /// An exchange with a worker failed.
    pub fn upstream_failed(&self, kind: &str) {
        self.upstream_errors.with_label_values(&[kind]).inc();
    }

    /// An answer that a worker began has ended.
    pub fn answer_ended(&self, streams: bool, outcome: Outcome) {
        let shape = if streams { "stream" } else { "whole" };
        self.answers.with_label_values(&[shape, outcome.as_str()]).inc();
    }
}

pub(super) fn keep_models<T: MetricVecBuilder>(of: &MetricVec<T>, served: &impl Fn(&str) -> bool) {
    for family in of.collect() {
        for metric in family.get_metric() {
            let labels = metric.get_label().iter().map(|label| (label.name(), label.value()));
            let labels: HashMap<&str, &str> = labels.collect();
            if labels.get(names::MODEL).is_some_and(|model| !served(model)) {
                // Only a series that has gone already can't be removed.
                let _ = of.remove(&labels);
            }
        }
    }
}

/// Names, labels and bounds are constants of this crate, so that making and registering can't fail:
/// a test makes them all.
pub(super) fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    made: prometheus::Result<C>,
) -> C {
    let collector = made.expect("constant names and labels are well-formed");
    registry.register(Box::new(collector.clone())).expect("each name is registered once");
    collector
}

#[cfg(test)]
mod tests;
