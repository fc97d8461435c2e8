//! The latest decisions, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use pointsman_core::receipt::Receipt;
use serde::{Deserialize, Serialize};

use super::error::AdminError;
use crate::app::App;

/// How many are shown to a caller that doesn't say.
const USUAL: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HowMany {
    limit: Option<usize>,
}

#[derive(Serialize)]
pub(super) struct Recent {
    receipts: Vec<Arc<Receipt>>,
}

/// As many as are asked for and remembered.
pub(super) async fn recent(
    State(app): State<App>,
    how_many: Result<Query<HowMany>, QueryRejection>,
) -> Result<Json<Recent>, AdminError> {
    let Query(HowMany { limit }) =
        how_many.map_err(|rejection| AdminError::bad_request(rejection.body_text()))?;
    Ok(Json(Recent { receipts: app.metrics.receipts().recent(limit.unwrap_or(USUAL)) }))
}
