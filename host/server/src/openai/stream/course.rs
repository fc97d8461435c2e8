//! What becomes of an answer as it goes by, whoever carries it.
//!
//! Owns what ends with it ([`Stakes`]), and when: its first token, its progress, its end by whatever
//! way. It sees bytes only; it doesn't know where they come from or go to.

use std::sync::Arc;
use std::task::Context;

use axum::body::Bytes;
use pointsman_core::affinity::SessionLease;
use pointsman_core::classifier::Lifecycle;
use pointsman_core::ledger::Lease;
use pointsman_core::outcome::{Ending, OutcomeReporter};
use pointsman_core::receipt::Receipt;

use super::usage;
use super::watcher::{Fault, Watcher};
use crate::openai::error::ApiError;
use crate::openai::exchange::Exchange;
use crate::openai::proxy::Accompanying;
use crate::openai::witness::Witness;
use crate::telemetry::{Outcome, Record, Usage};

/// How the answer is shaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::openai) enum Shape {
    /// In one piece, however many frames that takes.
    Whole {
        /// Whether it is JSON as it stands, so that counts can be read in it.
        legible: bool,
    },
    /// Server-sent events.
    Events {
        /// Whether the last one must be `[DONE]`.
        terminated: bool,
    },
}

/// What ends with the answer.
#[derive(Debug)]
pub(in crate::openai) struct Stakes {
    /// The booking.
    pub(in crate::openai) lease: Option<Lease>,
    /// The stay with its session; none if it is of none that is bound.
    pub(in crate::openai) session: Option<SessionLease>,
    /// By this, policies that learn are told how it ends; none if none wants to know.
    pub(in crate::openai) reporter: Option<OutcomeReporter>,
    /// By this, a request classifier is told how it ends; none where there is none.
    pub(in crate::openai) lifecycle: Option<Lifecycle>,
    /// The request, as it is counted.
    pub(in crate::openai) exchange: Exchange,
    /// What is told of the worker; none when all is told.
    pub(in crate::openai) witness: Option<Witness>,
    /// The decision, which the worker's own counts are noted beside.
    pub(in crate::openai) record: Arc<Record>,
    /// Whether another worker computed the prompt: then what this one says of it is of no interest.
    pub(in crate::openai) handed_over: bool,
    /// That one, while it may be at it.
    pub(in crate::openai) accompanying: Option<Accompanying>,
}

/// An answer that goes by. Dropped before its end, it was aborted.
#[derive(Debug)]
pub(in crate::openai) struct Course {
    /// For events only.
    watcher: Option<Watcher>,
    /// For what isn't compressed.
    counts: Option<usage::Reader>,
    terminated: bool,
    began: bool,
    /// None when they have been settled.
    stakes: Option<Stakes>,
}

impl Course {
    /// Of an answer of which nothing has been seen.
    pub(in crate::openai) fn new(shape: Shape, stakes: Stakes) -> Self {
        let (watcher, terminated) = match shape {
            Shape::Whole { .. } => (None, false),
            Shape::Events { terminated } => (Some(Watcher::default()), terminated),
        };
        let legible = shape != Shape::Whole { legible: false };
        let counts = legible.then(usage::Reader::default);
        Self { watcher, counts, terminated, began: false, stakes: Some(stakes) }
    }

    /// Whether it is a stream of events.
    pub(in crate::openai) fn is_of_events(&self) -> bool {
        self.watcher.is_some()
    }

    /// Whether nothing ends with it any more.
    pub(in crate::openai) fn is_settled(&self) -> bool {
        self.stakes.is_none()
    }

    /// A piece of it goes by.
    pub(in crate::openai) fn see(&mut self, data: &[u8]) {
        if let Some(counts) = &mut self.counts {
            counts.see(data);
        }
        let token = match &mut self.watcher {
            Some(watcher) => {
                watcher.see(data);
                watcher.saw_data()
            }
            None => !data.is_empty(),
        };
        if token && !self.began {
            self.began = true;
            self.begin();
        }
        // An event is a token, as near as can be told without reading it.
        let events = self.watcher.as_ref().map_or(0, Watcher::data_lines);
        if let Some(Stakes { lease, lifecycle, record, .. }) = &mut self.stakes {
            if let Some(lease) = lease {
                lease.progress(events);
            }
            if let Some(lifecycle) = lifecycle {
                lifecycle.reached(record.receipt().prompt_tokens.saturating_add(events));
            }
        }
    }

    /// The first token is there.
    fn begin(&mut self) {
        let Some(stakes) = &mut self.stakes else { return };
        let Stakes { lease, reporter, lifecycle, exchange, .. } = stakes;
        exchange.first_token();
        if let Some(lease) = lease {
            lease.prefill_done_at(exchange.now_ms());
        }
        if let Some(reporter) = reporter {
            reporter.first_token();
        }
        if let Some(lifecycle) = lifecycle {
            lifecycle.responding();
        }
    }

    /// Settles it if all of it has been seen: the terminator where there must be one, else the last
    /// piece.
    pub(in crate::openai) fn settle_if_whole(&mut self, last: bool) {
        let whole = match &self.watcher {
            Some(watcher) => self.terminated && watcher.is_done(),
            None => last,
        };
        if whole {
            self.settle_whole();
        }
    }

    /// The worker's answer ended as HTTP wants it. Returns the words for what is missing.
    pub(in crate::openai) fn close(&mut self) -> Option<&'static str> {
        if let Some(watcher) = &mut self.watcher {
            watcher.end();
            if self.terminated && !watcher.is_done() && self.stakes.is_some() {
                self.settle(Outcome::Truncated, Some("ended its stream without the terminator"));
                return Some("the worker ended the stream without its terminator");
            }
        }
        self.settle_whole();
        None
    }

    /// A last event that tells the client what went wrong; none where no event can be told.
    pub(in crate::openai) fn complaint(&self, outcome: Outcome, message: &str) -> Option<Bytes> {
        let watcher = self.watcher.as_ref()?;
        let error = ApiError::broken_stream(outcome == Outcome::TimedOut, message).json();
        // Other dialects tell errors by the event's name.
        let name = if self.terminated { "" } else { "event: error\n" };
        Some(format!("{}{name}data: {error}\n\n", watcher.gap()).into())
    }

    /// Whether the worker that computes the prompt meanwhile has failed.
    pub(in crate::openai) fn poll_prefill_failed(&mut self, cx: &mut Context<'_>) -> bool {
        let accompanying = self.stakes.as_mut().and_then(|stakes| stakes.accompanying.as_mut());
        accompanying.is_some_and(|prefill| prefill.poll_failed(cx))
    }

    /// Tells the log how it broke off.
    pub(in crate::openai) fn note_break(&self, error: &impl std::fmt::Display) {
        if let Some(stakes) = &self.stakes {
            tracing::debug!(parent: stakes.exchange.span(), %error, "an answer broke off");
        }
    }

    pub(in crate::openai) fn settle_whole(&mut self) {
        match self.watcher.as_ref().and_then(Watcher::saw_error) {
            Some(Fault::Workers) => {
                self.settle(Outcome::WorkerError, Some("reported an error within its stream"));
            }
            // As with a status below 500: the worker is well, and the answer is whole.
            Some(Fault::Requests) | None => self.settle(Outcome::Completed, None),
        }
    }

    /// Gives the booking back, counts, and tells what the worker did wrong, if it did. Again is
    /// nothing.
    pub(in crate::openai) fn settle(&mut self, outcome: Outcome, fault: Option<&str>) {
        let Some(stakes) = self.stakes.take() else { return };
        let Stakes { lease, session, reporter, lifecycle, exchange, witness, record, .. } = stakes;
        let (handed_over, accompanying) = (stakes.handed_over, stakes.accompanying);
        drop((lease, session));
        if let Some(prefill) = accompanying.filter(|_| outcome == Outcome::Completed) {
            prefill.let_go();
        }
        let mut usage = self.counts.as_ref().map(usage::Reader::usage).unwrap_or_default();
        if handed_over {
            usage = Usage { completion_tokens: usage.completion_tokens, ..Usage::default() };
        }
        if let Some(reporter) = reporter {
            reporter.end(match outcome {
                Outcome::Completed => {
                    Ending::Completed { output_tokens: usage.completion_tokens.unwrap_or(0) }
                }
                Outcome::Aborted => Ending::Cancelled,
                Outcome::WorkerError | Outcome::Truncated | Outcome::TimedOut => {
                    Ending::failed(outcome.as_str())
                }
            });
        }
        if let Some(lifecycle) = lifecycle.filter(|_| outcome == Outcome::Completed) {
            let context = usage.prompt_tokens.zip(usage.completion_tokens);
            lifecycle.completed(context.map(|(prompt, output)| prompt.saturating_add(output)));
        }
        exchange.metrics().reported(&record, usage);
        if let (Some(witness), Some(cached)) = (&witness, usage.cached_tokens) {
            witness.had_cached(record.receipt(), cached);
        }
        match (witness, fault) {
            (Some(witness), Some(fault)) => drop(witness.blame(fault)),
            (Some(witness), None) if outcome == Outcome::Completed => witness.praise(),
            _ => {}
        }
        if handed_over {
            let model = &record.receipt().partition.model;
            exchange.metrics().legs().decoded(model, outcome.as_str());
        }
        exchange.metrics().answer_ended(self.watcher.is_some(), outcome);
        match outcome {
            Outcome::Completed | Outcome::Aborted => {
                let predicted = record.receipt().predicted_cached_tokens;
                tracing::debug!(
                    parent: exchange.span(),
                    outcome = outcome.as_str(),
                    prompt_tokens = usage.prompt_tokens,
                    cached_tokens = usage.cached_tokens,
                    predicted_cached_tokens = predicted,
                    "an answer ended"
                );
            }
            Outcome::WorkerError | Outcome::Truncated | Outcome::TimedOut => {
                let Receipt { request_id, decision_id, policy, worker, .. } = &**record.receipt();
                tracing::warn!(
                    parent: exchange.span(),
                    %request_id,
                    %decision_id,
                    policy = &*policy.name,
                    %worker,
                    outcome = outcome.as_str(),
                    seconds = exchange.elapsed().as_secs_f64(),
                    "a worker's answer failed after it had begun"
                );
            }
        }
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        self.settle(Outcome::Aborted, None);
    }
}
