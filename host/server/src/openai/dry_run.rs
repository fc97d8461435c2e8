//! A client's request, read as the public listener reads it, for who only wants to know where it
//! would go.

use axum::body::Bytes;
use http::{HeaderMap, StatusCode};
use pointsman_core::hashing::Scope;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;

use super::error::ApiError;
use super::request::{self, Facts};
use crate::dispatch::DispatchError;
use crate::prompts::{Length, Question};
use crate::tokens::Kind;

/// What the client would have been told.
#[derive(Debug)]
pub struct Refusal {
    /// With this status.
    pub status: StatusCode,
    /// As this stable kind.
    pub kind: &'static str,
    /// In these words.
    pub message: String,
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self { status: error.status, kind: error.kind(), message: error.message().to_owned() }
    }
}

/// A request that nobody has looked into for its prompt.
#[derive(Debug)]
pub struct Read {
    /// The request, without its prompt.
    pub request: RouteRequest,
    kind: Kind,
    body: Bytes,
    scope: Scope,
    length: Length,
}

impl Read {
    /// The question what its prompt is.
    #[must_use]
    pub fn question(&self) -> Question<'_> {
        Question {
            partition: &self.request.partition,
            kind: self.kind,
            body: &self.body,
            scope: self.scope,
            length: self.length,
        }
    }
}

/// Reads a client's headers and body, of a request whose path shows in which prompt it has, and that comes
/// at this time of the router's clock.
///
/// # Errors
///
/// The public listener would refuse it.
pub fn read(
    router: &Router,
    headers: &HeaderMap,
    body: &Bytes,
    kind: Kind,
    now_ms: u64,
) -> Result<Read, Refusal> {
    let mut facts = Facts::read(headers, body, true)?;
    let model = facts.model.clone().ok_or_else(ApiError::no_model_named)?;
    let partition = facts.place(router, &model);
    let body = facts.readable.take().unwrap_or_else(|| body.clone());
    let (scope, length) = (facts.scope(), facts.length);
    let request = facts.into_request(request::request_id(headers), partition, now_ms);
    Ok(Read { request, kind, body, scope, length })
}

/// What the client would be told of a decision that wasn't made.
pub(crate) fn refusal(error: &DispatchError) -> Refusal {
    ApiError::undecided(error, None).into()
}
