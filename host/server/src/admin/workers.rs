//! Workers: registered, changed, renewed, and let go.

use axum::extract::{FromRequestParts, Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use pointsman_core::ids::WorkerId;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::App;
use crate::discovery::{KeeperError, Origin, PushedEvents, Registration, Removal, WorkerView};
use crate::rest::{Json, JsonBody, JsonBytes, RestError, aside, clipped};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    #[serde(alias = "model_name")]
    model: Option<String>,
    routing_group: Option<String>,
}

#[derive(Serialize)]
struct Workers {
    workers: Vec<WorkerView>,
}

pub(super) async fn list(
    State(app): State<App>,
    filter: Result<Query<Filter>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, RestError> {
    let Query(filter) = filter.map_err(|rejection| RestError::bad_query(&rejection))?;
    aside(move || {
        let mut workers = app.workers.workers();
        workers.retain(|worker| {
            let described = &worker.description;
            let group = &described.routing_group;
            filter.model.as_ref().is_none_or(|model| *model == described.model_name)
                && filter.routing_group.as_ref().is_none_or(|wanted| wanted == group)
        });
        Ok(Json(Workers { workers }))
    })
    .await
}

pub(super) async fn show(State(app): State<App>, Named(id): Named) -> Result<Response, RestError> {
    aside(move || Ok(Json(app.workers.worker(id).ok_or(KeeperError::Unknown(id))?))).await
}

pub(super) async fn register(
    State(app): State<App>,
    body: JsonBody,
) -> Result<(StatusCode, Json<WorkerView>), RestError> {
    refuse_when_draining(&app)?;
    let registration = Registration::read(&body.once()?)?;
    let registered = app.workers.register(registration, Origin::Api).await?;
    let status = if registered.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(registered.worker)))
}

pub(super) async fn change(
    State(app): State<App>,
    Named(id): Named,
    body: JsonBody,
) -> Result<Json<WorkerView>, RestError> {
    refuse_when_draining(&app)?;
    let changed = app.workers.change(id, body.once()?).await??;
    Ok(Json(changed.worker))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    force: Option<String>,
}

/// 200 when it is gone, 202 when it goes once it carries nothing.
pub(super) async fn remove(
    State(app): State<App>,
    Named(id): Named,
    how: Result<Query<How>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, RestError> {
    let Query(How { force }) = how.map_err(|rejection| RestError::bad_query(&rejection))?;
    let force = match force.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let other = clipped(other);
            return Err(RestError::bad_request(format!("force is {other:?}; give true or false")));
        }
    };
    Ok(match app.workers.remove(id, force).await? {
        Removal::Gone => Json(json!({ "worker_id": id, "removed": true })).into_response(),
        Removal::Draining(worker) => (StatusCode::ACCEPTED, Json(worker)).into_response(),
    })
}

pub(super) async fn heartbeat(
    State(app): State<App>,
    Named(id): Named,
) -> Result<Response, RestError> {
    aside(move || Ok(Json(app.workers.heartbeat(id)?))).await
}

/// Takes what is told of a worker's cache on behalf of its engine.
pub(super) async fn push_events(
    State(app): State<App>,
    Named(id): Named,
    JsonBytes(body): JsonBytes,
) -> Result<Json<PushedEvents>, RestError> {
    Ok(Json(app.workers.push_events(id, body).await?))
}

/// The worker that the path names.
#[derive(Debug)]
pub(super) struct Named(pub(super) WorkerId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, RestError> {
        let segment = Path::<String>::from_request_parts(parts, state).await;
        let text = segment.as_ref().map_or("what the path names", |Path(text)| text);
        WorkerId::from_decimal(text).map(Self).ok_or_else(|| {
            RestError::bad_request(format!(
                "{:?} is not a worker's id; see GET /v1/workers for those that are registered",
                clipped(text)
            ))
        })
    }
}

fn refuse_when_draining(app: &App) -> Result<(), RestError> {
    if app.draining.is_cancelled() { Err(RestError::stopping()) } else { Ok(()) }
}
