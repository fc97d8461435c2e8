//! One try: a decision with its booking, the worker's answer, and what is told of both.

mod carried;
mod prefill;

use std::fmt::Write;
use std::pin::pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, response};
use http_body::Frame;
use http_body_util::BodyExt;

use pointsman_core::affinity::SessionLease;
use pointsman_core::classifier::Lifecycle;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{WorkerId, WorkerRank};
use pointsman_core::outcome::{Ending, OutcomeReporter};
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use tokio::time::{Instant, timeout_at};
use tracing::{Span, field};

use super::booking::Booking;
use crate::config::ProxyConfig;
use crate::decisions::{self, Made};
use crate::dispatch::DispatchError;
use crate::openai::exchange::Exchange;
use crate::openai::stream::{AnswerBody, Patience, Shape, Stakes};
use crate::openai::upstream::{Failure, Outgoing, Reply, answer_headers};
use crate::openai::witness::Witness;
use crate::openai::{Front, Route};
use crate::prompts::Prompt;
use crate::telemetry::Record;

pub(in crate::openai) use prefill::Accompanying;
pub(super) use prefill::{Ended, Prefilled};

const WORKER: HeaderName = HeaderName::from_static("x-pointsman-worker");
const POLICY: HeaderName = HeaderName::from_static("x-pointsman-policy");
const DECISION: HeaderName = HeaderName::from_static("x-pointsman-decision-id");
const PREFILL_WORKER: HeaderName = HeaderName::from_static("x-pointsman-prefill-worker");
const CACHED: HeaderName = HeaderName::from_static("x-pointsman-cached-tokens");

/// A decision, and the answer once there is one.
#[derive(Debug)]
pub(super) struct Attempt {
    route: Route,
    record: Arc<Record>,
    spec: Arc<WorkerSpec>,
    booking: Booking,
    /// None if no policy wants to know, and when all is told.
    reporter: Option<OutcomeReporter>,
    /// By this, a request classifier is told how the request ends; none where there is no classifier,
    /// and before it is known that this is the request's last try.
    lifecycle: Option<Lifecycle>,
    /// None before there is an exchange, and when all is told of it.
    pub(super) witness: Option<Witness>,
    /// None until the answer has begun, and for requests of no session that is bound.
    pub(super) session: Option<SessionLease>,
    answer: Option<Answer>,
    /// Who computed the prompt, if another did.
    prefilled: Option<Prefilled>,
    /// Who may still be at it.
    accompanying: Option<Accompanying>,
    /// The worker only computes the prompt.
    is_prefill: bool,
}

/// The answer up to its first byte.
#[derive(Debug)]
struct Answer {
    head: response::Parts,
    first: Option<Frame<Bytes>>,
    /// None if somebody else carries it.
    rest: Option<Reply>,
    shape: Shape,
}

/// A try that gave no answer.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) attempt: Attempt,
    pub(super) failure: Failure,
}

impl Attempt {
    /// Has the request decided and booked.
    pub(super) async fn decide(
        front: &Front,
        route: Route,
        request: Arc<RouteRequest>,
        prompt: &Prompt,
    ) -> Result<Self, DispatchError> {
        let made = move |made: Made| Self {
            route,
            record: made.record,
            spec: made.worker,
            booking: Booking::new(made.lease),
            reporter: made.reporter,
            lifecycle: None,
            witness: None,
            session: None,
            answer: None,
            prefilled: None,
            accompanying: None,
            is_prefill: false,
        };
        let attempt = decisions::decide(&front.app, request, prompt, made).await?;
        let (span, receipt) = (Span::current(), attempt.receipt());
        span.record("decision_id", field::display(receipt.decision_id));
        span.record("worker", field::display(receipt.worker));
        span.record("policy", &*receipt.policy.name);
        Ok(attempt)
    }

    /// The same, which the request ends with.
    pub(super) fn of(self, lifecycle: Option<Lifecycle>) -> Self {
        Self { lifecycle, ..self }
    }

    /// The worker.
    pub(super) fn worker(&self) -> WorkerId {
        self.receipt().worker.worker_id
    }

    /// The decision.
    pub(super) fn receipt(&self) -> &Receipt {
        self.record.receipt()
    }

    /// The answer's status.
    pub(super) fn status(&self) -> Option<StatusCode> {
        self.answer.as_ref().map(|answer| answer.head.status)
    }

    /// Whether the worker has begun to answer what was asked.
    pub(super) fn has_begun(&self) -> bool {
        let good = |answer: &Answer| answer.head.status.is_success() && answer.first.is_some();
        self.answer.as_ref().is_some_and(good)
    }

    /// The answer's headers.
    pub(super) fn headers(&self) -> Option<&HeaderMap> {
        self.answer.as_ref().map(|answer| &answer.head.headers)
    }

    /// Gives the booking back, when another worker is to have the request.
    pub(super) fn release(&mut self) {
        self.booking = Booking::new(None);
        self.tell_status();
    }

    /// Tells policies that learn of an answer that is none to what was asked.
    fn tell_status(&mut self) {
        if let Some(status) = self.status() {
            self.tell(status);
        }
    }

    fn tell(&mut self, status: StatusCode) {
        if !status.is_success()
            && let Some(reporter) = self.reporter.take()
        {
            reporter.end(Ending::failed(&format!("status {}", status.as_u16())));
        }
    }

    /// The request goes out now.
    fn begin(&self, front: &Front) -> Witness {
        if let Some(reporter) = &self.reporter {
            reporter.dispatched();
        }
        Witness::new(front.app.workers.clone(), self.receipt())
    }

    /// Sends the request, and waits for the first byte of the answer.
    pub(super) async fn send(
        mut self,
        front: &Front,
        outgoing: &Outgoing,
        end: Instant,
    ) -> Result<Self, Failed> {
        let mut witness = self.begin(front);
        let config = &front.app.config.proxy;
        let limit = end.min(Instant::now() + config.first_byte_timeout);
        // A request that stood in line for most of its time leaves a worker too little of it.
        if limit < Instant::now() + config.first_byte_timeout.min(config.total_timeout) / 2 {
            witness.excuse();
        }
        self.witness = Some(witness);
        let metrics = &front.app.metrics;
        let again = || metrics.retried("stale_connection");
        let rank = self.receipt().worker;
        let got = {
            let answered = pin!(async {
                let response = front
                    .upstream
                    .send(outgoing, &self.spec, rank, self.booking.sent(), again)
                    .await?;
                let (mut head, mut rest) = response.into_parts();
                let shape = shape(self.route, &mut head);
                let first = rest.frame().await.transpose().map_err(Failure::Empty)?;
                if first.is_none() && shape == (Shape::Events { terminated: true }) {
                    return Err(Failure::NoEvents);
                }
                Ok(Answer { head, first, rest: Some(rest), shape })
            });
            timeout_at(limit, answered).await
        };
        match got.unwrap_or(Err(Failure::TimedOut)) {
            Ok(answer) => {
                if !answer.head.status.is_success() {
                    self.booking.refused();
                }
                self.answer = Some(answer);
                Ok(self)
            }
            Err(failure) => {
                // One that is late may have the prompt, and be at work on it.
                if !matches!(failure, Failure::TimedOut) {
                    self.booking.refused();
                }
                if let Some(reporter) = self.reporter.take() {
                    reporter.end(Ending::failed(failure.kind()));
                }
                Err(Failed { attempt: self, failure })
            }
        }
    }

    /// The answer as the client gets it, with the booking in its body.
    pub(super) fn into_response(
        mut self,
        request_id: &str,
        mut exchange: Exchange,
        config: &ProxyConfig,
        end: Instant,
    ) -> Response {
        let Some(Answer { head, first, rest: Some(rest), shape }) = self.answer.take() else {
            // Only what was sent successfully comes here.
            return axum::response::IntoResponse::into_response(super::ApiError::internal());
        };
        exchange.answers(head.status);
        let mut response = Response::new(());
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        let headers = response.headers_mut();
        answer_headers(headers, request_id);
        self.describe(headers);
        let patience = Patience::new(config.idle_timeout, end);
        let body =
            AnswerBody::new(first, rest, shape, patience, self.into_stakes(head.status, exchange));
        response.map(|()| Body::new(body))
    }

    /// Tells the client of the decision.
    pub(super) fn describe(&self, headers: &mut HeaderMap) {
        let receipt = self.receipt();
        let mut tell = |name, text: String| {
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(name, value);
            }
        };
        let whose = if self.is_prefill { PREFILL_WORKER } else { WORKER };
        tell(whose, worker_label(&self.spec, receipt.worker));
        tell(POLICY, policy_label(receipt));
        tell(DECISION, receipt.decision_id.to_string());
        let cached = match &self.prefilled {
            Some(Prefilled { worker, cached, .. }) => {
                tell(PREFILL_WORKER, worker.clone());
                *cached
            }
            None => self.record.is_predicted().then_some(receipt.predicted_cached_tokens),
        };
        if let Some(cached) = cached {
            tell(CACHED, cached.to_string());
        }
    }

    /// What ends with the answer.
    fn into_stakes(mut self, status: StatusCode, exchange: Exchange) -> Stakes {
        self.tell(status);
        let Self { record, booking, reporter, lifecycle, witness, session, .. } = self;
        Stakes {
            lease: booking.into_lease(),
            session,
            reporter,
            // What isn't a success is no answer to what was asked.
            lifecycle: lifecycle.filter(|_| status.is_success()),
            exchange,
            witness,
            record,
            handed_over: self.prefilled.is_some(),
            accompanying: self.accompanying,
        }
    }
}

/// How an answer is to be passed on. A stream that is compressed can't be looked into or added to.
/// One whose length is fixed could not be added to either, so that isn't passed on.
fn shape(route: Route, head: &mut response::Parts) -> Shape {
    let kind = head.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = kind.and_then(|kind| kind.split(|&byte| byte == b';').next());
    let is = |wanted: &[u8]| essence.is_some_and(|e| e.trim_ascii().eq_ignore_ascii_case(wanted));
    let (events, json) = (is(b"text/event-stream"), is(b"application/json"));
    let compressed = head.headers.contains_key(header::CONTENT_ENCODING);
    if events && !compressed && head.status.is_success() {
        head.headers.remove(header::CONTENT_LENGTH);
        Shape::Events { terminated: route.ends_with_done() }
    } else {
        let legible = (events || json) && !compressed && head.status.is_success();
        Shape::Whole { legible: legible && route.is_typed() }
    }
}

fn worker_label(spec: &WorkerSpec, rank: WorkerRank) -> String {
    if spec.data_parallel_size.get() > 1 { rank.to_string() } else { rank.worker_id.to_string() }
}

fn policy_label(receipt: &Receipt) -> String {
    let policy = &receipt.policy;
    let digest = policy.digest.as_ref().map_or("builtin", |digest| digest.short());
    let mut label = String::with_capacity(policy.name.len() + 1 + digest.len());
    // Writing to a string can't fail.
    let _ = write!(label, "{}@{digest}", policy.name);
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_in_answers_that_are_json_as_they_stand() {
        let shape = |route, status: u16, headers: &[(&'static str, &'static str)]| {
            let mut head = Response::new(()).into_parts().0;
            head.status = StatusCode::from_u16(status).unwrap_or_default();
            for (name, value) in headers {
                head.headers.insert(*name, HeaderValue::from_static(value));
            }
            shape(route, &mut head)
        };
        let (chat, json) = (Route::ChatCompletions, ("content-type", "application/json; x=y"));
        let events = ("content-type", "Text/Event-Stream");
        let gzip = ("content-encoding", "gzip");
        let whole = |legible| Shape::Whole { legible };
        for (route, status, headers, expected) in [
            (chat, 200, &[json][..], whole(true)),
            (Route::Embeddings, 200, &[json, ("content-length", "5")], whole(true)),
            (chat, 200, &[json, gzip], whole(false)),
            (chat, 400, &[json], whole(false)),
            (Route::Other, 200, &[json], whole(false)),
            (chat, 200, &[("content-type", "text/plain")], whole(false)),
            (chat, 200, &[], whole(false)),
            (chat, 200, &[events], Shape::Events { terminated: true }),
            (Route::Other, 200, &[events], Shape::Events { terminated: false }),
            (chat, 200, &[events, ("content-length", "5")], Shape::Events { terminated: true }),
            (chat, 200, &[events, gzip], whole(false)),
        ] {
            assert_eq!(shape(route, status, headers), expected, "{status} {headers:?}");
        }
    }
}
