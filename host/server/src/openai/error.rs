//! Errors to clients: the one place where they become a status and a stable kind.
//!
//! The body has OpenAI's shape, `{"error": {"message", "type", "param", "code"}}`: `type` is the
//! stable kind, the same word as in metrics, and `code` the status, as engines do it. What a policy
//! said and where a worker listens stays in the log.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use pointsman_core::RouteError;
use pointsman_core::affinity::Conflict;
use pointsman_core::classifier::ClassificationError;
use pointsman_core::eligibility::PinProblem;
use pointsman_core::ids::{DEFAULT_GROUP, Role, WorkerId};
use serde::Serialize;

use super::request::quoted;
use crate::bodies::BodyError;
use crate::dispatch::DispatchError;

/// When a client that was turned away may come again, in seconds. Overload is looked at anew within
/// two seconds, and probes are about as frequent.
const COME_AGAIN: u32 = 1;

/// An overloaded fleet: not one of HTTP's own, but what clients of such routers know.
pub(super) fn overloaded() -> StatusCode {
    StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
}

/// How an exchange with a worker failed before the client got a byte of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UpstreamError {
    /// No connection.
    #[error("worker {0} can't be reached; try again")]
    Unreachable(WorkerId),
    /// The connection ended without an answer.
    #[error("worker {0} closed the connection without an answer; try again")]
    Closed(WorkerId),
    /// The answer is no HTTP.
    #[error("worker {0} answered with something that isn't HTTP; see the router's log")]
    Garbled(WorkerId),
    /// The answer to a prefill can't be used.
    #[error(
        "worker {0} answered a prefill with something that can't be used; see the router's log"
    )]
    Unusable(WorkerId),
    /// No answer within the time for its first byte, or for the whole request.
    #[error("worker {0} didn't answer in time; try again, or ask for less")]
    TimedOut(WorkerId),
}

impl UpstreamError {
    /// The stable word for it, in answers and metrics.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Unreachable(_) => "upstream_unreachable",
            Self::Closed(_) => "upstream_closed",
            Self::Garbled(_) => "upstream_garbled",
            Self::Unusable(_) => "upstream_unusable",
            Self::TimedOut(_) => "upstream_timeout",
        }
    }
}

/// An error as the client gets it.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    /// Boxed: errors travel in results whose good case matters more.
    body: Box<Body>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Debug, Serialize)]
struct Body {
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<Cow<'static, str>>,
    code: u16,
}

/// What a client finds in the body, also as the last event of a stream that broke.
#[derive(Serialize)]
struct Envelope<'a> {
    error: &'a Body,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        let body = Body { message: message.into(), kind, param: None, code: status.as_u16() };
        Self { status, body: Box::new(body), headers: Vec::new() }
    }

    fn about(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.body.param = Some(param.into());
        self
    }

    fn with(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The stable kind.
    pub(super) fn kind(&self) -> &'static str {
        self.body.kind
    }

    /// In words.
    pub(super) fn message(&self) -> &str {
        &self.body.message
    }

    /// A header or field that isn't what it should be.
    pub(super) fn bad_value(param: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message).about(param)
    }

    /// A body that can't be read.
    pub(super) fn bad_body(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// A body that isn't there, where at most so many bytes may be.
    pub(super) fn of_body(error: BodyError, most: usize) -> Self {
        match error {
            BodyError::TooLarge => Self::too_large(most),
            BodyError::NoRoom => Self::no_room(),
            BodyError::TooSlow => Self::too_slow(),
            BodyError::GaveWay => Self::gave_way(),
            BodyError::BrokeOff(_) => Self::bad_body(format!("{error}; send it whole")),
        }
    }

    /// A body that is too large.
    fn too_large(most: usize) -> Self {
        let message = format!("the body is larger than {most} bytes; send a smaller one");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
            .with(header::CONNECTION, HeaderValue::from_static("close"))
    }

    /// A body that has no room beside the others.
    fn no_room() -> Self {
        let message = "the router holds as many request bodies as it may; try again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "body_budget_exhausted", message)
            .with(header::RETRY_AFTER, COME_AGAIN)
            .with(header::CONNECTION, HeaderValue::from_static("close"))
    }

    /// A body that didn't come to its end in time.
    fn too_slow() -> Self {
        let message = "the body didn't come in time; send it faster";
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
            .with(header::CONNECTION, HeaderValue::from_static("close"))
    }

    /// A body that came too slowly while others had no room.
    fn gave_way() -> Self {
        let message = "the body came so slowly that others got its room; send it faster";
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
            .with(header::CONNECTION, HeaderValue::from_static("close"))
    }

    /// The request classifier doesn't let it in.
    pub(super) fn not_admitted(error: &ClassificationError) -> Self {
        let status = match error {
            ClassificationError::Rejected => StatusCode::SERVICE_UNAVAILABLE,
            ClassificationError::Duplicate(_) => StatusCode::CONFLICT,
            ClassificationError::Failed(_) | ClassificationError::LifecycleEnded => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        let answer = Self::new(status, error.kind(), error.to_string());
        match status {
            StatusCode::SERVICE_UNAVAILABLE => answer.with(header::RETRY_AFTER, COME_AGAIN),
            _ => answer,
        }
    }

    /// The request's whole time went by in the line for a decision.
    pub(super) fn decided_too_late() -> Self {
        let message = "no worker was chosen in time; try again later";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "decision_timeout", message)
    }

    /// A pin that disagrees with what the session is bound to.
    pub(super) fn bound_elsewhere(conflict: &Conflict, pinned_by: Option<&'static str>) -> Self {
        let kind = "session_affinity_conflict";
        let this = Self::new(StatusCode::CONFLICT, kind, conflict.to_string());
        if let Some(field) = pinned_by { this.about(field) } else { this }
    }

    /// More requests at once than there can be connections to workers.
    pub(super) fn too_many() -> Self {
        let message =
            "the router has as many requests as it can open connections for; try again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "router_full", message)
            .with(header::RETRY_AFTER, COME_AGAIN)
    }

    /// No token, or none that opens.
    pub(super) fn unauthorized() -> Self {
        let message =
            "a token is needed; send authorization: Bearer and one of the router's tokens";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
            .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// The router is stopping.
    pub(super) fn draining() -> Self {
        let message = "the router is stopping; ask another one, or again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "draining", message)
            .with(header::RETRY_AFTER, COME_AGAIN)
            .with(header::CONNECTION, HeaderValue::from_static("close"))
    }

    /// Nothing is at a path.
    pub(super) fn not_found(path: &str) -> Self {
        let path = quoted(path);
        let message = format!("nothing is at {path}; the API is below /v1/");
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Nothing answers to a method at a path.
    pub(super) fn not_allowed(method: &Method, path: &str) -> Self {
        let (path, method) = (quoted(path), quoted(method.as_str()));
        let message = format!("{path} doesn't take {method}; see the Allow header");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    /// A method that no path takes.
    pub(super) fn not_for_routers(method: &Method) -> Self {
        let method = quoted(method.as_str());
        let message = format!("no path takes {method}; ask for one below /v1/ with GET or POST");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).with(
            header::ALLOW,
            HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
        )
    }

    /// A path that a worker might read as another one.
    pub(super) fn crooked_path() -> Self {
        let message = "the path has `.` or `..` segments; send the path that is meant";
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// A name in the path that is no text.
    pub(super) fn no_text_in_path() -> Self {
        let message = "the path names something that isn't UTF-8; send a name that a text can hold";
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// The request has come through too many routers.
    pub(super) fn goes_in_circles() -> Self {
        let message = "the request goes in circles: a worker's endpoint leads back to a router; correct the endpoint";
        Self::new(StatusCode::LOOP_DETECTED, "loop_detected", message)
    }

    /// The request names no model, and it isn't clear which one is meant.
    pub(super) fn no_model_named() -> Self {
        let message = "no model is named; set `model` to one that GET /v1/models lists";
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message).about("model")
    }

    /// No worker serves the model.
    pub(super) fn no_such_model(model: &str, group: &str) -> Self {
        let is_default = group == DEFAULT_GROUP;
        let (model, group) = (quoted(model), quoted(group));
        let message = if is_default {
            format!("The model `{model}` does not exist; GET /v1/models lists those that do")
        } else {
            format!(
                "The model `{model}` does not exist in routing group `{group}`; GET /v1/models \
                 lists those that do"
            )
        };
        Self::new(StatusCode::NOT_FOUND, "no_such_model", message).about("model")
    }

    /// No worker is there at all.
    pub(super) fn no_workers() -> Self {
        let message = "no worker is registered; try again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_endpoints", message)
            .with(header::RETRY_AFTER, COME_AGAIN)
    }

    /// A bug of ours.
    pub(super) fn internal() -> Self {
        let message = "the router failed; its log says more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// No decision. `pinned_by` is the header or field that pinned the request.
    pub(super) fn undecided(error: &DispatchError, pinned_by: Option<&'static str>) -> Self {
        let error = match error {
            DispatchError::Route(error) => error,
            DispatchError::Abandoned(_) => return Self::internal(),
        };
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let (status, again) = match error {
            RouteError::NoPartition(key) => {
                return Self::no_such_model(&key.model, &key.routing_group);
            }
            RouteError::NoEndpoints { .. } => (unavailable, true),
            RouteError::AllEligibleWorkersFiltered { .. } => (unavailable, true),
            RouteError::AllEligibleWorkersOverloaded(_) => (overloaded(), true),
            RouteError::PinnedWorker { problem, .. } => match problem {
                PinProblem::Overloaded => (overloaded(), true),
                PinProblem::WorkerUnavailable => (unavailable, true),
                PinProblem::TaintsUnsatisfied => (unavailable, false),
                // The request asks for what there isn't; again is of no use.
                PinProblem::NotAllowed | PinProblem::NotRoutable | PinProblem::RankUnavailable => {
                    (StatusCode::BAD_REQUEST, false)
                }
            },
            // The request doesn't say what the operator's policy goes by.
            RouteError::NoTarget { .. } => (StatusCode::BAD_REQUEST, false),
            RouteError::Policy(_) => (StatusCode::INTERNAL_SERVER_ERROR, false),
            // Its class has as much to do as it may, or it doesn't want to wait: less at once is
            // what helps.
            RouteError::QueueRejected { .. } | RouteError::DoNotQueue { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, true)
            }
            RouteError::DeadlineExceeded { .. } => (StatusCode::GATEWAY_TIMEOUT, false),
        };
        let mut this = Self::new(status, error.kind(), error.to_string());
        if let (RouteError::PinnedWorker { .. }, Some(field)) = (error, pinned_by) {
            this = this.about(field);
        }
        if let RouteError::NoTarget { partition, .. } = error {
            this = this.about(match partition.role {
                Role::Prefill => "x-dynamo-prefill-instance-id",
                _ => "x-worker-instance-id",
            });
        }
        if again { this.with(header::RETRY_AFTER, COME_AGAIN) } else { this }
    }

    /// No answer from a worker.
    pub(super) fn upstream(error: UpstreamError) -> Self {
        let status = match error {
            UpstreamError::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, error.kind(), error.to_string())
    }

    /// An answer that broke off after it had begun, for the client to read in the stream.
    pub(super) fn broken_stream(timed_out: bool, message: &str) -> Self {
        if timed_out {
            Self::new(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", message)
        } else {
            Self::new(StatusCode::BAD_GATEWAY, "upstream_error", message)
        }
    }

    /// Two workers share the model's requests, and whoever carries this one goes to one.
    pub(super) fn shared_by_two(model: &str) -> Self {
        let message = format!(
            "the workers of model `{}` share their requests, which an endpoint picker can't have done; \
             ask the router itself",
            quoted(model)
        );
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", message).about("model")
    }

    /// The headers.
    pub(super) fn into_headers(self) -> HeaderMap {
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.headers.into_iter().chain([kind]).collect()
    }

    /// The body.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(&Envelope { error: &self.body }).unwrap_or_default()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.json().into());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.into_headers();
        response
    }
}

#[cfg(test)]
mod tests;
