//! The latest decisions, newest first.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::rest::{Json, RestError, clipped};
use crate::telemetry::Record;

/// How many are shown to a caller that doesn't say.
const USUAL: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HowMany {
    limit: Option<String>,
}

impl HowMany {
    /// What a query asks for.
    pub(super) fn of(query: Result<Query<Self>, QueryRejection>) -> Result<usize, RestError> {
        let Query(Self { limit }) = query.map_err(|rejection| RestError::bad_query(&rejection))?;
        let Some(limit) = limit else { return Ok(USUAL) };
        limit.parse().map_err(|_| {
            let limit = clipped(&limit);
            RestError::bad_request(format!("limit is {limit:?}; give a whole number"))
        })
    }
}

#[derive(Serialize)]
pub(super) struct Recent {
    receipts: Vec<Arc<Record>>,
}

/// As many as are asked for and remembered.
pub(super) async fn recent(
    State(app): State<App>,
    how_many: Result<Query<HowMany>, QueryRejection>,
) -> Result<Json<Recent>, RestError> {
    let limit = HowMany::of(how_many)?;
    Ok(Json(Recent { receipts: app.metrics.receipts().recent(limit) }))
}
