//! Errors as operators and their programs get them, on the admin listener and from the selection service:
//! `{"error", "details"?}`.

use std::borrow::Cow;

use axum::extract::rejection::QueryRejection;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use pointsman_core::fleet::FleetError;
use pointsman_core::router::RegisterError;
use serde_json::{Value, json};

use super::answer::Json;
use crate::bodies::BodyError;
use crate::discovery::{KeeperError, Problems, PushError, PushRefusal};

/// The longest piece of a request that is quoted back.
const MOST_QUOTED: usize = 64;

/// The longest sentence of others that is passed on.
const MOST_WORDS: usize = 256;

/// The beginning of what came with a request, if it is long.
pub(crate) fn clipped(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MOST_QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// An error with its status.
#[derive(Debug)]
pub(crate) struct RestError {
    status: StatusCode,
    error: String,
    details: Option<Value>,
    /// In how many seconds it may be otherwise.
    retry_after: Option<u16>,
}

impl RestError {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), details: None, retry_after: None }
    }

    pub(crate) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// A query that can't be read. What it says of it may have whole names of the client's.
    pub(crate) fn bad_query(rejection: &QueryRejection) -> Self {
        Self::bad_query_of(rejection, "ADMIN.md")
    }

    /// The same, of a path that this document is about.
    pub(crate) fn bad_query_of(rejection: &QueryRejection, document: &str) -> Self {
        let cause = std::error::Error::source(rejection);
        let words = cause.map_or_else(|| rejection.body_text(), ToString::to_string);
        let words: String = words.chars().take(MOST_WORDS).collect();
        let remedy =
            format!("give each parameter that {document} has for this path once, and no others");
        Self::bad_request(format!("the query has a mistake: {words}; {remedy}"))
    }

    pub(crate) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the router is stopping; ask another one")
    }

    /// A body that isn't there, where at most so many bytes may be.
    pub(crate) fn of_body(error: &BodyError, most: usize) -> Self {
        match error {
            BodyError::TooLarge => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "the body has more than the {most} bytes that are taken here; send less, or \
                     split it over several requests"
                ),
            ),
            BodyError::NoRoom => Self {
                retry_after: Some(1),
                ..Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "this listener holds as many request bodies as it may; send it again in a second",
                )
            },
            BodyError::TooSlow | BodyError::GaveWay => {
                Self::new(StatusCode::REQUEST_TIMEOUT, format!("{error}; send it faster"))
            }
            BodyError::BrokeOff(_) => Self::bad_request(format!("{error}; send it again")),
        }
    }

    /// It may be otherwise in so many seconds.
    pub(crate) fn again_in(mut self, seconds: u16) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Its status, and its body.
    pub(crate) fn into_parts(self) -> (StatusCode, Value) {
        let Self { status, error, details, .. } = self;
        let body = match details {
            None => json!({ "error": error }),
            Some(details) => json!({ "error": error, "details": details }),
        };
        (status, body)
    }

    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let again =
            self.retry_after.map(|seconds| [(header::RETRY_AFTER, HeaderValue::from(seconds))]);
        let (status, body) = self.into_parts();
        (status, again, Json(body)).into_response()
    }
}

impl From<Problems> for RestError {
    fn from(problems: Problems) -> Self {
        let details = json!(problems);
        let error = format!("the worker's description has {problems}; see the details");
        Self::bad_request(error).with_details(details)
    }
}

impl From<KeeperError> for RestError {
    fn from(error: KeeperError) -> Self {
        let status = match &error {
            KeeperError::Unknown(_) => StatusCode::NOT_FOUND,
            KeeperError::NoLease(_) | KeeperError::Draining(_) => StatusCode::CONFLICT,
            KeeperError::Refused(RegisterError::Fleet(FleetError::Ranks { .. })) => {
                StatusCode::BAD_REQUEST
            }
            KeeperError::Refused(RegisterError::Fleet(_)) => StatusCode::CONFLICT,
            KeeperError::Refused(RegisterError::Policy(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            KeeperError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<PushError> for RestError {
    fn from(error: PushError) -> Self {
        let status = match &error {
            PushError::Unknown(_) => StatusCode::NOT_FOUND,
            PushError::Refused { refusal: PushRefusal::Rank { .. }, .. } | PushError::Body(_) => {
                StatusCode::BAD_REQUEST
            }
            PushError::Refused { .. } => StatusCode::CONFLICT,
            PushError::Busy => StatusCode::SERVICE_UNAVAILABLE,
            PushError::Abandoned(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let retry_after = matches!(error, PushError::Busy).then_some(1);
        Self { retry_after, ..Self::new(status, error.to_string()) }
    }
}
