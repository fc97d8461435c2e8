//! What decides, and bringing it up to what there is.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use pointsman_core::rollout::{CanaryReport, CanaryState};
use pointsman_core::router::{Router, SwitchError};
use serde::Serialize;

use crate::app::App;
use crate::config::{listed, nearest};
use crate::policies::ReloadReport;
use crate::rest::{Json, RestError, aside, clipped};

pub(super) async fn show(State(app): State<App>) -> Result<Response, RestError> {
    aside(move || Ok(Json(app.policies.status()))).await
}

/// What a switch was turned for.
#[derive(Serialize)]
pub(super) struct Switched {
    instance: String,
    disabled: bool,
    /// Partitions that it has to do with in any of these ways.
    partitions: usize,
    /// Partitions that it decides in, while it isn't turned off.
    decides_in: usize,
    /// Those in which it is shown what others decided.
    shadow_in: usize,
    /// Those in which it makes a share of the decisions.
    canary_in: usize,
    /// Those of them in which it had been rolled back, and goes on now.
    resumed_in: usize,
}

impl Switched {
    /// What an instance is to a router's partitions, before its switch is turned.
    fn before(router: &Router, instance: &str, disabled: bool) -> Self {
        let selection = router.policies().selection;
        let mut switched = Self {
            instance: instance.to_owned(),
            disabled,
            partitions: 0,
            decides_in: 0,
            shadow_in: 0,
            canary_in: 0,
            resumed_in: 0,
        };
        for partition in router.partitions() {
            let canary = partition.canary().filter(|canary| &*canary.instance == instance);
            let watches = partition.shadows().iter().any(|shadow| &*shadow.instance == instance);
            let decides = selection.instance_name(partition.key().role) == instance;
            let is_back = |canary: &CanaryReport| canary.state == CanaryState::RolledBack;
            switched.decides_in += usize::from(decides);
            switched.shadow_in += usize::from(watches);
            switched.resumed_in += usize::from(!disabled && canary.as_ref().is_some_and(is_back));
            switched.canary_in += usize::from(canary.is_some());
        }
        switched
    }
}

/// Turns an instance off: the built-in default decides in its place.
pub(super) async fn disable(
    State(app): State<App>,
    Path(instance): Path<String>,
) -> Result<Json<Switched>, RestError> {
    switch(app, instance, true).await
}

/// Turns it on again.
pub(super) async fn enable(
    State(app): State<App>,
    Path(instance): Path<String>,
) -> Result<Json<Switched>, RestError> {
    switch(app, instance, false).await
}

async fn switch(app: App, instance: String, disabled: bool) -> Result<Json<Switched>, RestError> {
    let name = instance.clone();
    // It waits for policies that are being put in place.
    let turned = tokio::task::spawn_blocking(move || {
        let router = app.dispatcher.router();
        let before = Switched::before(router, &name, disabled);
        let turned = if disabled { router.disable(&name) } else { router.enable(&name) };
        turned.map(|partitions| Switched { partitions, ..before })
    });
    let turned = turned.await.map_err(|_| RestError::stopping())?;
    let switched = turned.map_err(|error| match error {
        SwitchError::Unknown { ref known, .. } => {
            let names = || known.iter().map(String::as_str);
            let meant = nearest(&instance, names()).map(|name| format!("did you mean {name:?}? "));
            let text = format!(
                "no instance is named {:?}; {}known: {}; name one as the YAML does, not its type",
                clipped(&instance),
                meant.unwrap_or_default(),
                listed(names())
            );
            RestError::new(StatusCode::NOT_FOUND, text)
        }
        SwitchError::BuiltIn => RestError::bad_request(error.to_string()),
    })?;
    let partitions = switched.partitions;
    tracing::warn!(instance, disabled, partitions, "an operator has turned a policy's switch");
    Ok(Json(switched))
}

/// 200 with what changed; 409 when something was refused, with the reasons.
pub(super) async fn reload(
    State(app): State<App>,
) -> Result<(StatusCode, Json<ReloadReport>), RestError> {
    let report = app.policies.reload().await.ok_or_else(RestError::stopping)?;
    let status = if report.is_refusal() { StatusCode::CONFLICT } else { StatusCode::OK };
    Ok((status, Json(report)))
}
