//! Whether the router lives, and whether it can select anybody.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use serde_json::json;

use super::front::Front;
use super::workers::{Record, records};
use crate::rest::{Json, RestError, aside};

/// The most workers that are named: probes come often, and keep what they are answered.
const MOST_NAMED: usize = 100;

/// What a probe is told.
#[derive(Debug, Serialize)]
struct Readiness {
    ready: bool,
    schedulable_workers: usize,
    /// Of many, the first.
    workers: Vec<Record>,
}

pub(super) async fn health() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

pub(super) async fn ready(State(front): State<Front>) -> Result<Response, RestError> {
    if front.app.draining.is_cancelled() {
        let readiness = Readiness { ready: false, schedulable_workers: 0, workers: Vec::new() };
        return Ok((StatusCode::SERVICE_UNAVAILABLE, Json(readiness)).into_response());
    }
    aside(move || {
        let mut workers = records(&front.app);
        let schedulable = workers.iter().filter(|worker| worker.is_schedulable()).count();
        workers.truncate(MOST_NAMED);
        let ready = schedulable > 0;
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        Ok((status, Json(Readiness { ready, schedulable_workers: schedulable, workers })))
    })
    .await
}
