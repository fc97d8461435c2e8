//! Whether the router lives, and whether it should be sent requests.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use pointsman_core::fleet::Availability;
use serde_json::json;

use super::answer::Json;
use super::error::AdminError;
use crate::app::App;

pub(super) async fn health() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

pub(super) async fn ready(State(app): State<App>) -> Result<Response, AdminError> {
    let not_ready = |why: &str| AdminError::new(StatusCode::SERVICE_UNAVAILABLE, why);
    if app.draining.is_cancelled() {
        return Err(not_ready("the router is stopping"));
    }
    let workers = app.dispatcher.router().workers();
    let ready = workers.iter().filter(|w| w.availability == Availability::Ready).count();
    if ready == 0 {
        return Err(not_ready(if workers.is_empty() {
            "no worker is registered"
        } else {
            "no worker is ready; see GET /v1/workers"
        }));
    }
    Ok(Json(json!({ "status": "ready", "ready_workers": ready })).into_response())
}
