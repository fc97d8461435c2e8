//! A worker's answer on its way to the client, with the booking that ends with it.
//!
//! [`AnswerBody`] passes frames on as they come, without a copy. It knows when the first token came,
//! what the engine says of the prompt's tokens, whether a stream ended with its terminator, and for
//! how long nothing may come; whatever way it ends, and also when it is dropped in the middle, the
//! booking is given back.

mod patience;
mod said;
mod usage;
mod watcher;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};

use pointsman_core::affinity::SessionLease;
use pointsman_core::classifier::Lifecycle;
use pointsman_core::ledger::Lease;
use pointsman_core::outcome::{Ending, OutcomeReporter};
use pointsman_core::receipt::Receipt;

use super::error::ApiError;
use super::exchange::Exchange;
use super::proxy::Accompanying;
use super::upstream::Reply;
use super::witness::Witness;
use crate::telemetry::{Outcome, Record, Usage};
use patience::Impatience;
use watcher::{Fault, Watcher};

pub(super) use patience::Patience;
pub use said::{Said, said};

/// How the answer is shaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
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
pub(super) struct Stakes {
    /// The booking.
    pub(super) lease: Option<Lease>,
    /// The stay with its session; none if it is of none that is bound.
    pub(super) session: Option<SessionLease>,
    /// By this, policies that learn are told how it ends; none if none wants to know.
    pub(super) reporter: Option<OutcomeReporter>,
    /// By this, a request classifier is told how it ends; none where there is none.
    pub(super) lifecycle: Option<Lifecycle>,
    /// The request, as it is counted.
    pub(super) exchange: Exchange,
    /// What is told of the worker; none when all is told.
    pub(super) witness: Option<Witness>,
    /// The decision, which the worker's own counts are noted beside.
    pub(super) record: Arc<Record>,
    /// Whether another worker computed the prompt: then what this one says of it is of no interest.
    pub(super) handed_over: bool,
    /// That one, while it may be at it.
    pub(super) accompanying: Option<Accompanying>,
}

/// The body of an answer.
#[derive(Debug)]
pub(super) struct AnswerBody {
    /// A frame that was waited for before the client got the head.
    first: Option<Frame<Bytes>>,
    /// None when it is over.
    rest: Option<Reply>,
    /// For events only.
    watcher: Option<Watcher>,
    /// For what isn't compressed.
    counts: Option<usage::Reader>,
    terminated: bool,
    patience: Patience,
    began: bool,
    /// It is broken off with the next look: whoever serves it sends what it has when nothing comes, and
    /// throws it away with a failure.
    breaks: bool,
    /// None when they have been settled.
    stakes: Option<Stakes>,
}

/// Breaks the client's connection off, which is how HTTP says that an answer isn't whole.
#[derive(Debug, thiserror::Error)]
#[error("the worker's answer broke off")]
pub(super) struct BrokenOff;

impl AnswerBody {
    /// An answer whose first frame has come; none if it has no body.
    pub(super) fn new(
        first: Option<Frame<Bytes>>,
        rest: Reply,
        shape: Shape,
        patience: Patience,
        stakes: Stakes,
    ) -> Self {
        let (watcher, terminated) = match shape {
            Shape::Whole { .. } => (None, false),
            Shape::Events { terminated } => (Some(Watcher::default()), terminated),
        };
        let legible = shape != Shape::Whole { legible: false };
        let mut this = Self {
            rest: first.is_some().then_some(rest),
            first,
            watcher,
            counts: legible.then(usage::Reader::default),
            terminated,
            patience,
            began: false,
            breaks: false,
            stakes: Some(stakes),
        };
        if this.rest.is_none() {
            this.settle_whole();
        }
        this
    }

    /// Passes a frame on, and looks at it on the way.
    fn pass(&mut self, frame: Frame<Bytes>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if let Some(data) = frame.data_ref() {
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
                if let Some(Stakes { lease, reporter, lifecycle, exchange, .. }) = &mut self.stakes
                {
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
        // Settled before the client has the last byte, so that one who has it finds the load gone.
        let whole = match &self.watcher {
            Some(watcher) => self.terminated && watcher.is_done(),
            None => self.rest.as_ref().is_none_or(Body::is_end_stream),
        };
        if whole {
            self.settle_whole();
        }
        Poll::Ready(Some(Ok(frame)))
    }

    /// The worker's answer ended as HTTP wants it. Returns the words for what is missing.
    fn close(&mut self) -> Option<&'static str> {
        self.rest = None;
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

    /// The worker's answer did not end as HTTP wants it.
    fn break_off(
        &mut self,
        cx: &Context<'_>,
        outcome: Outcome,
        message: &str,
        fault: Option<&str>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.rest = None;
        // After its terminator nothing was to come anyway.
        if self.stakes.is_none() {
            return Poll::Ready(None);
        }
        self.settle(outcome, fault);
        self.complain(cx, outcome, message)
    }

    /// Tells the client: in a stream by a last event, else by breaking off, once what came before is on
    /// its way.
    fn complain(
        &mut self,
        cx: &Context<'_>,
        outcome: Outcome,
        message: &str,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let Some(watcher) = &self.watcher else {
            self.breaks = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        };
        let error = ApiError::broken_stream(outcome == Outcome::TimedOut, message).json();
        // Other dialects tell errors by the event's name.
        let name = if self.terminated { "" } else { "event: error\n" };
        let event = format!("{}{name}data: {error}\n\n", watcher.gap());
        Poll::Ready(Some(Ok(Frame::data(event.into()))))
    }

    fn settle_whole(&mut self) {
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
    fn settle(&mut self, outcome: Outcome, fault: Option<&str>) {
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

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = &mut *self;
        if std::mem::take(&mut this.breaks) {
            return Poll::Ready(Some(Err(BrokenOff)));
        }
        if let Some(first) = this.first.take() {
            return this.pass(first);
        }
        let accompanying = this.stakes.as_mut().and_then(|stakes| stakes.accompanying.as_mut());
        if accompanying.is_some_and(|prefill| prefill.poll_failed(cx)) && this.rest.is_some() {
            let message = "the prefill worker failed before it had handed the prompt over";
            return this.break_off(cx, Outcome::Truncated, message, None);
        }
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        match Pin::new(rest).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.patience.renew();
                this.pass(frame)
            }
            Poll::Ready(Some(Err(error))) => {
                if let Some(stakes) = &this.stakes {
                    tracing::debug!(parent: stakes.exchange.span(), %error, "an answer broke off");
                }
                let message = "the worker closed the connection in the middle";
                let fault = "closed the connection in the middle of an answer";
                this.break_off(cx, Outcome::Truncated, message, Some(fault))
            }
            Poll::Ready(None) => match this.close() {
                Some(message) => this.complain(cx, Outcome::Truncated, message),
                None => Poll::Ready(None),
            },
            Poll::Pending => match this.patience.poll(cx) {
                Poll::Ready(why) => {
                    // A request that takes long isn't its worker's fault.
                    let fault = (why == Impatience::Idle).then_some("fell silent in an answer");
                    this.break_off(cx, Outcome::TimedOut, why.as_str(), fault)
                }
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        let over = |rest: &Reply| self.watcher.is_none() && rest.is_end_stream();
        !self.breaks && self.first.is_none() && self.rest.as_ref().is_none_or(over)
    }

    fn size_hint(&self) -> SizeHint {
        let Some(rest) = &self.rest else { return SizeHint::with_exact(0) };
        // An event may follow the worker's own.
        if self.watcher.is_some() {
            return SizeHint::default();
        }
        let first =
            self.first.as_ref().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64);
        let mut hint = rest.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(first));
        }
        hint.set_lower(hint.lower().saturating_add(first));
        hint
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.settle(Outcome::Aborted, None);
    }
}
