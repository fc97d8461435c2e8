//! The dry run: where a request would go, and why.
//!
//! Takes what a client would send to the public listener, headers included, or the request's facts
//! alone. Nothing is booked and nothing predicted. A policy with state of its own sees the decision
//! as any other. What a request is read from is the same for all who ask about one: [`read`].

mod description;

use axum::body::Bytes;
use axum::extract::State;
use http::HeaderMap;
use pointsman_core::partition::Mode;
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use serde_json::{Value, json};

use super::answer::Json;
use super::body::JsonBody;
use super::error::AdminError;
use crate::app::App;
use crate::openai;
use crate::prompts::Prompt;
use crate::tokens::Kind;
use description::Described;

pub(super) async fn dry_run(
    State(app): State<App>,
    headers: HeaderMap,
    JsonBody { value, bytes }: JsonBody,
) -> Result<Json<Receipt>, AdminError> {
    let (request, _) = read(&app, &headers, &value, &bytes).await?;
    let decided = app.dispatcher.decide(request.into(), Mode::DryRun).await;
    Ok(Json(decided.map_err(|error| openai::refusal(&error))?.receipt))
}

/// A request that somebody asks about, with its prompt.
pub(super) async fn read(
    app: &App,
    headers: &HeaderMap,
    value: &Value,
    bytes: &Bytes,
) -> Result<(RouteRequest, Prompt), AdminError> {
    if let Some(kind) = kind(value) {
        let read = openai::read(headers, bytes, kind)?;
        let prompt = app.prompter.prompt(read.question()).await;
        let mut request = read.request;
        prompt.describe(&mut request);
        return Ok((request, prompt));
    }
    let Described { mut request, token_ids, scope } = description::read(value)?;
    let Some(ids) = token_ids else { return Ok((request, Prompt::default())) };
    let prompt = app.prompter.of_ids(&request.partition, &ids, scope);
    prompt.describe(&mut request);
    Ok((request, prompt))
}

/// What a client's request is; none if a body isn't one that clients send: those hold a prompt of
/// some kind.
fn kind(body: &Value) -> Option<Kind> {
    let kinds = [
        ("messages", Kind::Chat),
        ("prompt", Kind::Completion),
        ("input", Kind::Embeddings),
        ("nvext", Kind::Other),
    ];
    kinds.into_iter().find(|(field, _)| body.get(field).is_some()).map(|(_, kind)| kind)
}

/// The same status as on the public listener; the operator may read why.
impl From<openai::Refusal> for AdminError {
    fn from(refusal: openai::Refusal) -> Self {
        let openai::Refusal { status, kind, message } = refusal;
        Self::new(status, message).with_details(json!({ "type": kind }))
    }
}
