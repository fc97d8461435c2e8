//! Overlap: what the workers of a model hold of a prompt.
//!
//! Takes what the dry run takes ([`super::route::read`]), as far as it says what the prompt is, or a
//! prompt's tokens in the query. Nothing is decided, booked or predicted, and no policy is asked: it
//! is the answer that the next decision for the prompt starts from.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use http::HeaderMap;
use pointsman_core::RouteError;
use pointsman_core::cache::RowOverlap;
use pointsman_core::ids::{PartitionKey, WorkerRank};
use pointsman_core::request::RouteRequest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::route;
use crate::app::App;
use crate::openai;
use crate::prompts::Prompt;
use crate::rest::{Json, JsonBody, RestError, aside};

/// What workers hold of a prompt.
#[derive(Serialize)]
struct Overlaps {
    partition: PartitionKey,
    /// Tokens in one block.
    block_size: u32,
    prompt_tokens: u64,
    prompt_tokens_exact: bool,
    /// Where the tokens are from.
    prompt_source: &'static str,
    /// Why they aren't exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    inexact: Option<String>,
    /// Whole blocks that were looked for.
    blocks: usize,
    /// Half-open ranges of blocks that the shared cache holds; none if there is none to ask, or no
    /// answer.
    shared_hits: Option<Vec<[u32; 2]>>,
    rows: Vec<Row>,
}

/// What one rank holds.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    worker: WorkerRank,
    /// Whether its engine tells what it holds. Else all of this is predicted, as some of the device's
    /// blocks may be in any case if `router_predicted_ttl_secs` is set.
    told: bool,
    #[serde(flatten)]
    overlap: RowOverlap,
    /// Blocks that the shared cache holds beyond those on the device.
    shared_blocks: Option<u64>,
    /// Prompt tokens that it needn't compute.
    cached_tokens: u64,
}

/// The query's parameters; what they can be is what the fields of a body can be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tokens {
    #[serde(alias = "model_name")]
    model: Option<String>,
    token_ids: Option<String>,
    routing_group: Option<String>,
    role: Option<String>,
    lora_name: Option<String>,
    cache_salt: Option<String>,
}

/// Of a client's request, or of tokens in a body.
pub(super) async fn of_request(
    State(app): State<App>,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, RestError> {
    let (request, prompt) = route::read(&app, &headers, body).await?;
    overlaps(app, request, prompt).await
}

/// Of tokens in the query.
pub(super) async fn of_tokens(
    State(app): State<App>,
    tokens: Result<Query<Tokens>, QueryRejection>,
) -> Result<Response, RestError> {
    let Query(tokens) = tokens.map_err(|rejection| RestError::bad_query(&rejection))?;
    let (request, prompt) = route::described(&app, &tokens.facts()?)?;
    overlaps(app, request, prompt).await
}

impl Tokens {
    /// As a body says it.
    fn facts(self) -> Result<Value, RestError> {
        let given = self.token_ids.as_deref().ok_or_else(unknown_prompt)?;
        let pieces = given.split(',').map(str::trim).filter(|piece| !piece.is_empty());
        let ids: Result<Vec<u32>, RestError> = pieces
            .map(|piece| {
                piece.parse().map_err(|_| {
                    let piece: String = piece.chars().take(64).collect();
                    let wanted = "give whole numbers with commas between";
                    RestError::bad_request(format!("token_ids has {piece:?}; {wanted}"))
                })
            })
            .collect();
        let mut body = json!({ "token_ids": ids? });
        for (field, value) in [
            ("model", self.model),
            ("routing_group", self.routing_group),
            ("role", self.role),
            ("lora_name", self.lora_name),
            ("cache_salt", self.cache_salt),
        ] {
            if let (Some(value), Some(body)) = (value, body.as_object_mut()) {
                body.insert(field.to_owned(), value.into());
            }
        }
        Ok(body)
    }
}

async fn overlaps(
    app: App,
    request: RouteRequest,
    mut prompt: Prompt,
) -> Result<Response, RestError> {
    let key = request.partition;
    let partition = app
        .dispatcher
        .router()
        .partition(&key)
        .ok_or_else(|| openai::refusal(&RouteError::NoPartition(key.clone()).into()))?;
    let source = prompt.source.ok_or_else(unknown_prompt)?;
    prompt.shared_hits = app.shared_cache.ask_anyway(&prompt).hits().await;
    aside(move || {
        let (settings, cache) = (app.dispatcher.router().settings(), partition.cache());
        let snapshot = partition.ledger().snapshot();
        let held = cache.overlaps(&settings, &prompt.chain, &snapshot);
        let rows = snapshot.rows.iter().zip(held).map(|(&worker, overlap)| Row {
            worker,
            told: settings.use_kv_events && cache.tells(worker),
            overlap,
            shared_blocks: prompt.shared_beyond(overlap.device_blocks),
            cached_tokens: overlap.usable_tokens(prompt.tokens, prompt.block_size),
        });
        Ok(Json(Overlaps {
            partition: key,
            block_size: prompt.block_size,
            prompt_tokens: prompt.tokens,
            prompt_tokens_exact: prompt.exact,
            prompt_source: source.label(),
            blocks: prompt.chain.len(),
            shared_hits: route::pairs(&prompt),
            rows: rows.collect(),
            inexact: prompt.inexact,
        }))
    })
    .await
}

fn unknown_prompt() -> RestError {
    let wanted = "give token_ids, or a client's body with its prompt";
    RestError::bad_request(format!("the prompt isn't known; {wanted}"))
}
