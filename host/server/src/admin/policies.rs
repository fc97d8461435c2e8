//! What decides, and bringing it up to what there is.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use pointsman_core::router::SwitchError;
use serde::Serialize;

use super::answer::Json;
use super::aside::aside;
use super::error::{AdminError, clipped};
use crate::app::App;
use crate::policies::ReloadReport;

pub(super) async fn show(State(app): State<App>) -> Result<Response, AdminError> {
    aside(move || Ok(Json(app.policies.status()))).await
}

/// What a switch was turned for.
#[derive(Serialize)]
pub(super) struct Switched {
    instance: String,
    disabled: bool,
    /// Partitions that it decides in, while it isn't turned off.
    partitions: usize,
}

/// Turns an instance off: the built-in default decides in its place.
pub(super) async fn disable(
    State(app): State<App>,
    Path(instance): Path<String>,
) -> Result<Json<Switched>, AdminError> {
    switch(app, instance, true).await
}

/// Turns it on again.
pub(super) async fn enable(
    State(app): State<App>,
    Path(instance): Path<String>,
) -> Result<Json<Switched>, AdminError> {
    switch(app, instance, false).await
}

async fn switch(app: App, instance: String, disabled: bool) -> Result<Json<Switched>, AdminError> {
    let name = instance.clone();
    // It waits for policies that are being put in place.
    let turned = tokio::task::spawn_blocking(move || {
        let router = app.dispatcher.router();
        if disabled { router.disable(&name) } else { router.enable(&name) }
    });
    let turned = turned.await.map_err(|_| AdminError::stopping())?;
    let partitions = turned.map_err(|error| match error {
        SwitchError::Unknown { ref known, .. } => AdminError::new(
            StatusCode::NOT_FOUND,
            format!("no instance is named {:?}; known: {known}", clipped(&instance)),
        ),
        SwitchError::BuiltIn => AdminError::bad_request(error.to_string()),
    })?;
    tracing::warn!(instance, disabled, partitions, "an operator has turned a policy's switch");
    Ok(Json(Switched { instance, disabled, partitions }))
}

/// 200 with what changed; 409 when something was refused, with the reasons.
pub(super) async fn reload(
    State(app): State<App>,
) -> Result<(StatusCode, Json<ReloadReport>), AdminError> {
    let report = app.policies.reload().await.ok_or_else(AdminError::stopping)?;
    let status = if report.is_refusal() { StatusCode::CONFLICT } else { StatusCode::OK };
    Ok((status, Json(report)))
}
