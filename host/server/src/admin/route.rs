//! The dry run: where a request would go, and why.
//!
//! Takes what a client would send to the public listener, headers included, or the request's facts
//! alone. Nothing is booked and nothing predicted. A policy with state of its own sees the decision
//! as any other. The line before the partition and its request classifier aren't asked to take it in; what
//! the line would do is told beside the decision. What a request is read from is the same for all who ask about one: [`read`].

mod description;

use std::sync::Arc;

use axum::extract::State;
use http::HeaderMap;
use pointsman_core::admission::Foreseen;
use pointsman_core::partition::Mode;
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::openai;
use crate::prompts::Prompt;
use crate::rest::{Json, JsonBody, RestError};
use crate::stays;
use crate::tokens::Kind;
use description::Described;

/// What would be decided.
#[derive(Serialize)]
pub(super) struct DryRun {
    #[serde(flatten)]
    receipt: Receipt,
    /// Half-open ranges of blocks that the shared cache holds of the prompt; none if it wasn't asked,
    /// or didn't answer.
    shared_hits: Option<Vec<[u32; 2]>>,
    /// How many of them are beyond what the chosen worker has on its device.
    shared_blocks: Option<u64>,
    /// What the line before the partition has in store for it.
    queue: Option<Queueing>,
}

/// What a request would meet before it is decided.
#[derive(Serialize)]
struct Queueing {
    #[serde(flatten)]
    foreseen: Foreseen,
    /// The class that it names, where there is none of that name.
    unknown_policy_class: Option<Arc<str>>,
}

pub(super) async fn dry_run(
    State(app): State<App>,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Json<DryRun>, RestError> {
    let (mut request, mut prompt) = read(&app, &headers, body).await?;
    // As for a request that is sent: where nobody reads the answer, nothing is asked.
    prompt.shared_hits = app.shared_cache.ask(&request.partition, &prompt).hits().await;
    request.shared_hits = prompt.shared_hits.clone().unwrap_or_default();
    stays::foresee(&app.dispatcher, &mut request);
    let request = Arc::new(request);
    let foreseen = app.dispatcher.foresee(request.clone()).await;
    let foreseen = foreseen.map_err(|error| openai::refusal(&error))?;
    let queue = foreseen.map(|foreseen| Queueing {
        foreseen,
        unknown_policy_class: unknown_class(app.dispatcher.router(), &request),
    });
    let decided = app.dispatcher.decide(request, Mode::DryRun).await;
    let receipt = decided.map_err(|error| openai::refusal(&error))?.receipt;
    let shared_blocks = prompt.shared_beyond(receipt.overlap.device_blocks);
    Ok(Json(DryRun { receipt, shared_hits: pairs(&prompt), shared_blocks, queue }))
}

/// The policy class that a request names, if there is none of that name.
fn unknown_class(router: &Router, request: &RouteRequest) -> Option<Arc<str>> {
    let named = request.admission.policy_class.as_ref()?;
    let profile = router.queue_profile(&request.partition.model);
    (!profile.has_choice(named)).then(|| named.clone())
}

/// The positions that the shared cache holds, as it says them itself.
pub(super) fn pairs(prompt: &Prompt) -> Option<Vec<[u32; 2]>> {
    let hits = prompt.shared_hits.as_ref()?;
    Some(hits.iter().map(|hit| [hit.start, hit.end]).collect())
}

/// A request that somebody asks about, with its prompt.
pub(super) async fn read(
    app: &App,
    headers: &HeaderMap,
    body: JsonBody,
) -> Result<(RouteRequest, Prompt), RestError> {
    if let Some(kind) = kind(body.value()) {
        let (router, now_ms) = (app.dispatcher.router(), app.dispatcher.clock().now_ms());
        let read = openai::read(router, headers, &body.bytes, kind, now_ms)?;
        let prompt = app.prompter.prompt(read.question()).await;
        let mut request = read.request;
        prompt.describe(&mut request);
        return Ok((request, prompt));
    }
    described(app, &body.once()?)
}

/// A request of which the facts are told, with its prompt.
pub(super) fn described(app: &App, facts: &Value) -> Result<(RouteRequest, Prompt), RestError> {
    let Described { mut request, token_ids, scope } = description::read(facts)?;
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
impl From<openai::Refusal> for RestError {
    fn from(refusal: openai::Refusal) -> Self {
        let openai::Refusal { status, kind, message } = refusal;
        Self::new(status, message).with_details(json!({ "type": kind }))
    }
}
