//! Error bodies, in the two shapes a vLLM has: its own (`{"error":{…}}`) and FastAPI's (`{"detail":…}`).

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;

/// An error in vLLM's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    message: String,
    kind: &'static str,
    param: Option<String>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    message: &'a str,
    r#type: &'a str,
    param: Option<&'a str>,
    code: u16,
}

impl ApiError {
    /// A request that says something impossible. `param` is the field at fault.
    pub(super) fn bad_request(message: impl Into<String>, param: Option<&str>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
            kind: "BadRequestError",
            param: param.map(str::to_owned),
        }
    }

    /// A value that is out of range; the message ends in field and value, as in a vLLM.
    pub(super) fn parameter(message: &str, param: &str, value: impl std::fmt::Display) -> Self {
        Self::bad_request(format!("{message} (parameter={param}, value={value})"), Some(param))
    }

    /// A body that is not of the expected form. `detail` is the rest of a validation entry, in Python's notation.
    pub(super) fn validation(kind: &str, place: &str, detail: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: format!(
                "1 validation error:\n  {{'type': '{kind}', 'loc': '{place}', {detail}}}"
            ),
            kind: "Bad Request",
            param: Some(place.to_owned()),
        }
    }

    /// A model that is not served.
    pub(super) fn unknown_model(model: &str, known: &[String]) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            message: format!(
                "The model `{model}` does not exist. Valid aliases: {}.",
                known.join(", ")
            ),
            kind: "NotFoundError",
            param: Some("model".to_owned()),
        }
    }

    /// What a failure switch ordered.
    pub(super) fn refusal(status: StatusCode) -> Self {
        let kind = match status.as_u16() {
            429 => "RateLimitError",
            503 | 529 => "ServiceUnavailableError",
            400..=499 => "BadRequestError",
            _ => "InternalServerError",
        };
        Self { status, message: "the mock engine was told to refuse".to_owned(), kind, param: None }
    }

    /// A prompt that didn't come from the engine that computed it.
    pub(super) fn broken_handover(why: &str) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message: format!("the prompt could not be handed over: {why}"),
            kind: "InternalServerError",
            param: None,
        }
    }

    /// The JSON body.
    pub(super) fn body(&self) -> Bytes {
        let body = Body {
            message: &self.message,
            r#type: self.kind,
            param: self.param.as_deref(),
            code: self.status.as_u16(),
        };
        serde_json::to_vec(&Envelope { error: body }).unwrap_or_default().into()
    }
}

/// FastAPI's body for what never reached a handler: unknown paths and wrong methods.
pub(super) fn detail(text: &str) -> Bytes {
    serde_json::to_vec(&serde_json::json!({ "detail": text })).unwrap_or_default().into()
}

/// A failure switch cut the connection: no answer, or no end of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a failure switch of the mock engine cut the connection; GET /mock/control shows the switches"
)]
pub(super) struct Broken;
