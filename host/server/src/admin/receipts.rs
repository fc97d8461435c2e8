//! The latest decisions.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::App;

pub(super) async fn recent(State(_app): State<App>) -> Json<Value> {
    Json(json!({ "receipts": [] }))
}
