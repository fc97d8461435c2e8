//! `/v1/models`: what can be asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::Front;
use super::error::ApiError;
use crate::config::DisaggregationMode;
use pointsman_core::ids::{DEFAULT_GROUP, Role};

/// All models that have a worker that answers, whatever its availability, and their adapters.
pub(super) async fn list(State(front): State<Arc<Front>>) -> Json<Value> {
    let data: Vec<_> = front.models().iter().map(|model| describe(model, front.started)).collect();
    Json(json!({ "object": "list", "data": data }))
}

/// One of them.
pub(super) async fn show(
    State(front): State<Arc<Front>>,
    model: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(model) = model.map_err(|_| ApiError::no_text_in_path())?;
    if front.models().contains(&*model) {
        Ok(Json(describe(&model, front.started)))
    } else {
        Err(ApiError::no_such_model(&model, DEFAULT_GROUP))
    }
}

impl Front {
    /// The models that have a worker that answers requests, and the adapters that those have loaded. One
    /// that has others alone can't be asked for.
    fn models(&self) -> BTreeSet<Arc<str>> {
        let workers = self.app.dispatcher.router().workers();
        let mode = self.app.config.proxy.disaggregation;
        let answering = workers.iter().filter(|worker| match worker.spec.partition.role {
            Role::Aggregated => true,
            Role::Decode => mode != DisaggregationMode::Off,
            Role::Prefill | Role::Encode => false,
        });
        let names = answering.flat_map(|worker| {
            let adapters = worker.spec.lora_adapters.iter().map(|name| name.as_str().into());
            adapters.chain([worker.spec.partition.model.clone()])
        });
        names.collect()
    }
}

fn describe(model: &str, created: u64) -> Value {
    json!({ "id": model, "object": "model", "created": created, "owned_by": "pointsman" })
}
