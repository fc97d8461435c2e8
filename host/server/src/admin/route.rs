//! The dry run: where a request would go, and why.
//!
//! Takes what a client would send to the public listener, headers included, or the request's facts
//! alone. Nothing is booked. A policy with state of its own sees the decision as any other.

mod description;

use axum::extract::State;
use http::HeaderMap;
use pointsman_core::partition::Mode;
use pointsman_core::receipt::Receipt;
use serde_json::{Value, json};

use super::answer::Json;
use super::body::JsonBody;
use super::error::AdminError;
use crate::app::App;
use crate::openai;

pub(super) async fn dry_run(
    State(app): State<App>,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Json<Receipt>, AdminError> {
    let request = if is_clients(body.value()) {
        openai::request_of(&headers, &body.bytes)?
    } else {
        description::request(&body.once()?)?
    };
    let decided = app.dispatcher.decide(request.into(), Mode::DryRun).await;
    Ok(Json(decided.map_err(|error| openai::refusal(&error))?.receipt))
}

/// Whether a body is one that clients send: it holds a prompt of some kind.
fn is_clients(body: &Value) -> bool {
    ["messages", "prompt", "input"].iter().any(|prompt| body.get(prompt).is_some())
}

/// The same status as on the public listener; the operator may read why.
impl From<openai::Refusal> for AdminError {
    fn from(refusal: openai::Refusal) -> Self {
        let openai::Refusal { status, kind, message } = refusal;
        Self::new(status, message).with_details(json!({ "type": kind }))
    }
}
