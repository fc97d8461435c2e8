//! A client's request, read as the public listener reads it, for who only wants to know where it
//! would go.

use http::{HeaderMap, StatusCode};
use pointsman_core::request::RouteRequest;

use super::error::ApiError;
use super::request::{self, Facts};
use crate::dispatch::DispatchError;

/// What the client would have been told.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// With this status.
    pub(crate) status: StatusCode,
    /// As this stable kind.
    pub(crate) kind: &'static str,
    /// In these words.
    pub(crate) message: String,
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self { status: error.status, kind: error.kind(), message: error.message().to_owned() }
    }
}

/// The request that a client's headers and body stand for.
pub(crate) fn request_of(headers: &HeaderMap, body: &[u8]) -> Result<RouteRequest, Refusal> {
    let facts = Facts::read(headers, body, true)?;
    let model = facts.model.clone().ok_or_else(ApiError::no_model_named)?;
    let partition = super::partition(&model, facts.group.as_deref());
    Ok(facts.into_request(request::request_id(headers), partition))
}

/// What the client would be told of a decision that wasn't made.
pub(crate) fn refusal(error: &DispatchError) -> Refusal {
    ApiError::undecided(error, None).into()
}
