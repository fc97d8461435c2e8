//! The dry run: where a request would go, and why.

use axum::Json;
use axum::extract::State;
use pointsman_core::partition::Mode;
use pointsman_core::receipt::Receipt;

use super::body::JsonBody;
use super::error::AdminError;
use crate::app::App;

mod description;

pub(super) async fn dry_run(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Json<Receipt>, AdminError> {
    let request = description::request(&body)?;
    let decision = app.dispatcher.decide(request.into(), Mode::DryRun).await.map_err(refused)?;
    Ok(Json(decision.receipt))
}

fn refused(error: crate::dispatch::DispatchError) -> AdminError {
    AdminError::new(http::StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}
