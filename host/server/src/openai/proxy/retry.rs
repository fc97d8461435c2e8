//! What a try's result means for the worker, for the client, and for a next try.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, header};
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;

use super::attempt::{Attempt, Failed};
use crate::openai::error::{ApiError, UpstreamError, overloaded};
use crate::openai::upstream::{Failure, Outgoing};
use crate::openai::witness::Verdict;
use crate::openai::{Front, Route};

/// The tries of one request.
#[derive(Debug)]
pub(super) struct Tries<'a> {
    front: &'a Front,
    left: u32,
    /// Whether a worker that got the request and ended without an answer may have done something
    /// that another must not do again.
    repeatable: bool,
    /// A worker has been blamed for this request already: the next one that fails may be the
    /// request's own fault.
    blamed: bool,
    /// Why the last try is not the last one, and what the client gets if it is after all.
    last: Option<(&'static str, Result<Attempt, ApiError>)>,
}

impl<'a> Tries<'a> {
    pub(super) fn new(
        front: &'a Front,
        route: Route,
        outgoing: &Outgoing,
        request: &RouteRequest,
    ) -> Self {
        let pinned = request.constraints.pinned.is_some();
        let left = if pinned { 0 } else { front.app.config.proxy.retries };
        let safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&outgoing.method);
        Self { front, left, repeatable: route.is_typed() || safe, blamed: false, last: None }
    }

    /// Of a request that won't be tried elsewhere, whatever comes of it.
    pub(super) fn none_left(front: &'a Front) -> Self {
        Self { front, left: 0, repeatable: false, blamed: false, last: None }
    }

    /// Nobody else may have the request. What the client gets: what the last worker said, or why
    /// it said nothing; none if none was asked.
    pub(super) fn give_up(&mut self) -> Option<Result<Attempt, ApiError>> {
        self.last.take().map(|(_, last)| last)
    }

    /// Whether the last worker only had too much to do.
    pub(super) fn was_overload(&self) -> bool {
        matches!(self.last, Some((OVERLOADED, _)))
    }

    /// Somebody may: what the last worker said is of no interest any more.
    pub(super) fn go_on(&mut self) {
        if let Some((reason, _)) = self.last.take() {
            self.front.app.metrics.retried(reason);
        }
    }

    /// Takes a try's result in. None when the request is to be tried elsewhere.
    pub(super) fn judge(
        &mut self,
        result: Result<Attempt, Failed>,
    ) -> Option<Result<Attempt, ApiError>> {
        match result {
            Ok(mut attempt) => {
                self.testify(&mut attempt);
                match refusal(&attempt) {
                    None => Some(Ok(attempt)),
                    Some(reason) => self.refused(attempt, reason),
                }
            }
            Err(failed) => self.failed(failed),
        }
    }

    /// Tells what the answer's status says of the worker; the rest is told when the answer ends.
    fn testify(&mut self, attempt: &mut Attempt) {
        let Some(status) = attempt.status() else { return };
        match Verdict::of(status) {
            Verdict::Failed => self.blame(attempt, &format!("answered {}", status.as_u16())),
            Verdict::Nothing => attempt.witness = None,
            Verdict::Open => {
                if let Some(witness) = attempt.witness.as_mut().filter(|_| self.blamed) {
                    witness.excuse();
                }
            }
        }
    }

    fn blame(&mut self, attempt: &mut Attempt, why: &str) {
        if let Some(mut witness) = attempt.witness.take() {
            if self.blamed {
                witness.excuse();
            }
            self.blamed |= witness.blame(why);
        }
    }

    /// The worker answered that it can't.
    fn refused(
        &mut self,
        mut attempt: Attempt,
        reason: &'static str,
    ) -> Option<Result<Attempt, ApiError>> {
        if reason == OVERLOADED {
            let asked = attempt.headers().and_then(retry_after);
            let pause = asked.unwrap_or(self.front.app.config.proxy.overload_backoff);
            let (worker, epoch) = (attempt.worker(), attempt.receipt().epoch);
            let workers = &self.front.app.workers;
            if attempt.status() == Some(StatusCode::TOO_MANY_REQUESTS) {
                workers.declined(worker, epoch, pause);
            } else {
                workers.overloaded(worker, epoch, pause);
            }
        }
        if self.left == 0 {
            return Some(Ok(attempt));
        }
        attempt.release();
        self.again(reason, Ok(attempt))
    }

    /// There was no answer.
    fn failed(&mut self, failed: Failed) -> Option<Result<Attempt, ApiError>> {
        let Failed { mut attempt, failure } = failed;
        let worker = attempt.worker();
        let kind = failure.kind();
        self.front.app.metrics.upstream_failed(kind);
        let Receipt { request_id, decision_id, policy, .. } = attempt.receipt();
        let policy = &*policy.name;
        tracing::warn!(
            %request_id,
            %decision_id,
            policy,
            %worker,
            error = %failure,
            "a worker gave no answer"
        );
        if let Failure::Connect(_) = &failure {
            let epoch = attempt.receipt().epoch;
            self.front.app.workers.unreachable(worker, epoch, &failure.to_string());
        }
        if let Some(why) = failure.blames_worker() {
            self.blame(&mut attempt, why);
        }
        // The booking goes back before another one is made.
        drop(attempt);
        let (error, elsewhere) = match failure {
            Failure::Connect(_) | Failure::Exhausted(_) | Failure::Endpoint => {
                (UpstreamError::Unreachable(worker), true)
            }
            Failure::Closed { .. } | Failure::Broken | Failure::Empty(_) | Failure::NoEvents => {
                (UpstreamError::Closed(worker), self.repeatable)
            }
            Failure::Garbled(_) | Failure::Switching => {
                (UpstreamError::Garbled(worker), self.repeatable)
            }
            Failure::Unusable(_) => (UpstreamError::Unusable(worker), self.repeatable),
            Failure::TimedOut => (UpstreamError::TimedOut(worker), false),
        };
        let error = ApiError::upstream(error);
        if elsewhere && self.left > 0 { self.again(kind, Err(error)) } else { Some(Err(error)) }
    }

    fn again(
        &mut self,
        reason: &'static str,
        last: Result<Attempt, ApiError>,
    ) -> Option<Result<Attempt, ApiError>> {
        self.left -= 1;
        self.last = Some((reason, last));
        None
    }
}

const OVERLOADED: &str = "overloaded";

/// Whether an answer only says that this worker can't, and which word that is in metrics.
fn refusal(attempt: &Attempt) -> Option<&'static str> {
    let status = attempt.status()?;
    let can_not = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE, overloaded()];
    if can_not.contains(&status) {
        Some(OVERLOADED)
    } else {
        (status == StatusCode::BAD_GATEWAY).then_some("bad_gateway")
    }
}

/// For how long a worker wants to be left alone. A date instead of seconds counts as unsaid: the
/// keeper of workers believes neither for long.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
