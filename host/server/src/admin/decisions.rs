//! Decisions that were recorded.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use http::StatusCode;
use pointsman_core::ids::DecisionId;
use pointsman_core::policy::selection::percent;
use serde::Serialize;
use serde_json::value::RawValue;

use super::receipts::HowMany;
use crate::app::App;
use crate::rest::{Json, RestError, clipped};

#[derive(Serialize)]
pub(super) struct Recorded {
    decisions: Vec<Arc<RawValue>>,
}

/// The latest, newest first, as many as are asked for and kept.
pub(super) async fn latest(
    State(app): State<App>,
    how_many: Result<Query<HowMany>, QueryRejection>,
) -> Result<Json<Recorded>, RestError> {
    let limit = HowMany::of(how_many)?;
    Ok(Json(Recorded { decisions: app.recorder.latest(limit) }))
}

/// One of them, by its id.
pub(super) async fn one(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Arc<RawValue>>, RestError> {
    let number = id.parse().map_err(|_| {
        let id = clipped(&id);
        RestError::bad_request(format!("{id:?} is no decision's id; give its whole number"))
    })?;
    let recorder = &app.recorder;
    recorder.find(DecisionId(number)).map(Json).ok_or_else(|| {
        let why = match recorder.share() {
            share if share <= 0.0 => {
                "decisions aren't recorded: set recording.percent, and restart".to_owned()
            }
            share => format!(
                "{} percent of the decisions are recorded, and the latest {} of them are in memory; older \
                 ones may be in the file",
                percent(share),
                recorder.kept()
            ),
        };
        RestError::new(StatusCode::NOT_FOUND, format!("decision {number} isn't here: {why}"))
    })
}
