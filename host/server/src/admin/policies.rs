//! What decides, and bringing it up to what there is.

use axum::extract::State;
use http::StatusCode;

use super::answer::Json;
use super::error::AdminError;
use crate::app::App;
use crate::policies::{PoliciesStatus, ReloadReport};

pub(super) async fn show(State(app): State<App>) -> Json<PoliciesStatus> {
    Json(app.policies.status())
}

/// 200 with what changed; 409 when something was refused, with the reasons.
pub(super) async fn reload(
    State(app): State<App>,
) -> Result<(StatusCode, Json<ReloadReport>), AdminError> {
    let report = app.policies.reload().await.ok_or_else(AdminError::stopping)?;
    let status = if report.is_refusal() { StatusCode::CONFLICT } else { StatusCode::OK };
    Ok((status, Json(report)))
}
