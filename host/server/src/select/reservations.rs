//! Reservations, once they are there: what their owners say of them until they are given back.
//!
//! Every word about one gives it all its time again.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use pointsman_core::ids::{PartitionKey, WorkerRank};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::DOCUMENT;
use super::ask::told;
use super::body::{MaybeTold, Nothing, Told};
use super::error;
use super::front::Front;
use super::selections::End;
use crate::json::Fields;
use crate::json::values::{self, Read, show};
use crate::rest::{Json, RestError, clipped};

/// The last part of the path by which many are kept.
const HEARTBEAT: &str = "heartbeat";

/// The most ids of one heartbeat.
const MOST_IDS: usize = 65_536;

/// A reservation, as it stands.
#[derive(Debug, Serialize)]
struct Shown {
    selection_id: String,
    #[serde(flatten)]
    partition: PartitionShown,
    #[serde(flatten)]
    worker: WorkerRank,
    endpoint: String,
    isl_tokens: u64,
    output_blocks: u64,
    waits_for_prefill: bool,
    lease_ms: u64,
    lease_ends_in_ms: u64,
}

#[derive(Debug, Serialize)]
struct PartitionShown {
    model_name: Arc<str>,
    routing_group: Arc<str>,
}

impl From<&PartitionKey> for PartitionShown {
    fn from(key: &PartitionKey) -> Self {
        Self { model_name: key.model.clone(), routing_group: key.routing_group.clone() }
    }
}

pub(super) async fn stands(
    State(front): State<Front>,
    Named(id): Named,
) -> Result<Response, RestError> {
    let now_ms = front.app.dispatcher.clock().now_ms();
    let shown = front.app.selections.view(&id, now_ms, |view, company| Shown {
        selection_id: id.clone(),
        partition: PartitionShown::from(&company.partition),
        worker: view.worker,
        endpoint: company.endpoint.clone(),
        isl_tokens: company.prompt_tokens,
        output_blocks: company.output_blocks,
        waits_for_prefill: view.waits_for_prefill,
        lease_ms: view.expiry_ms,
        lease_ends_in_ms: view.expires_in_ms,
    });
    shown.map(|shown| Json(shown).into_response()).ok_or_else(|| error::no_reservation(&id))
}

pub(super) async fn prefill_complete(
    State(front): State<Front>,
    Named(id): Named,
    _: Nothing,
) -> Result<Response, RestError> {
    let now_ms = front.app.dispatcher.clock().now_ms();
    found(front.app.selections.prefill_complete(&id, now_ms), &id)
}

pub(super) async fn output_block(
    State(front): State<Front>,
    Named(id): Named,
    body: MaybeTold,
) -> Result<Response, RestError> {
    let decay = body.read(|body| {
        let mut fields = Fields::of(&body)?;
        let decay = fields.optional("decay_fraction", fraction).flatten();
        fields.finish().map(|()| decay)
    });
    let decay = decay.map_err(|problems| told(&problems))?;
    let now_ms = front.app.dispatcher.clock().now_ms();
    found(front.app.selections.output_block(&id, decay, now_ms).is_some(), &id)
}

pub(super) async fn heartbeat(
    State(front): State<Front>,
    Named(id): Named,
    _: Nothing,
) -> Result<Response, RestError> {
    let now_ms = front.app.dispatcher.clock().now_ms();
    found(front.app.selections.heartbeat(&id, now_ms), &id)
}

/// A reservation's name: any but the one whose place in the paths is taken by [`heartbeats`].
pub(super) fn id(value: &Value) -> Result<String, String> {
    let id = values::name(value)?;
    if id == HEARTBEAT {
        return Err(format!("is {HEARTBEAT:?}, which is a path of its own; expected another name"));
    }
    Ok(id)
}

/// Of many at once: who keeps thousands has one thing to say of all.
pub(super) async fn heartbeats(
    State(front): State<Front>,
    body: Told,
) -> Result<Response, RestError> {
    let ids = body.read(|body| {
        let mut fields = Fields::of(&body)?;
        let ids = fields.required("selection_ids", ids);
        fields.finish().map(|()| ids.unwrap_or_default())
    });
    let ids = ids.map_err(|problems| told(&problems))?;
    let now_ms = front.app.dispatcher.clock().now_ms();
    let missing: Vec<&String> =
        ids.iter().filter(|id| !front.app.selections.heartbeat(id, now_ms)).collect();
    let renewed = ids.len() - missing.len();
    Ok(Json(json!({ "renewed": renewed, "missing": missing })).into_response())
}

/// The query's parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    outcome: Option<String>,
    output_tokens: Option<String>,
}

impl How {
    fn end(self) -> Result<End, RestError> {
        let output_tokens = match self.output_tokens.as_deref() {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                let text = clipped(text);
                RestError::bad_request(format!("output_tokens is {text:?}; give a whole number"))
            })?),
        };
        match self.outcome.as_deref() {
            None | Some("completed") => Ok(End::Completed { output_tokens }),
            Some("failed") => Ok(End::Failed),
            Some("cancelled") => Ok(End::Cancelled),
            Some(other) => {
                let other = clipped(other);
                let words = format!("outcome is {other:?}; known: completed, failed, cancelled");
                Err(RestError::bad_request(words))
            }
        }
    }
}

pub(super) async fn free(
    State(front): State<Front>,
    Named(id): Named,
    how: Result<Query<How>, QueryRejection>,
) -> Result<Response, RestError> {
    let Query(how) = how.map_err(|rejection| RestError::bad_query_of(&rejection, DOCUMENT))?;
    let end = how.end()?;
    found(front.app.selections.free(&id, end), &id)
}

fn found(is_there: bool, id: &str) -> Result<Response, RestError> {
    if is_there {
        Ok(Json(json!({ "status": "ok" })).into_response())
    } else {
        Err(error::no_reservation(id))
    }
}

fn fraction(value: &Value) -> Read<f64> {
    let fraction = value.as_f64().filter(|fraction| (0.0..=1.0).contains(fraction));
    fraction.ok_or_else(|| format!("is {}; expected a number from 0 to 1", show(value)))
}

fn ids(value: &Value) -> Read<Vec<String>> {
    let list = value.as_array().ok_or_else(|| format!("is {}; expected a list", show(value)))?;
    if list.len() > MOST_IDS {
        return Err(format!("has {} entries; expected at most {MOST_IDS}", list.len()));
    }
    let ids = list.iter().enumerate();
    ids.map(|(i, one)| values::name(one).map_err(|problem| format!("entry {i} {problem}")))
        .collect()
}

/// The reservation that the path names.
#[derive(Debug)]
pub(super) struct Named(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, RestError> {
        let segment = Path::<String>::from_request_parts(parts, state).await;
        segment.map(|Path(id)| Self(id)).map_err(|_| {
            let words =
                "the path names a reservation that isn't UTF-8; send the id that it was made with";
            RestError::bad_request(words)
        })
    }
}
