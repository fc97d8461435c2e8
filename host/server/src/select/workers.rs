//! Workers, as the selection service's callers register them: the same that the other listeners know.
//!
//! Owns the words of the catalogue (whether a worker is schedulable, and why not), and what becomes of a
//! worker that is registered before anybody knows where it listens. All else is the keeper's
//! ([`crate::discovery`]): leases, probes, draining.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use pointsman_core::fleet::Availability;
use pointsman_core::ids::WorkerId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::DOCUMENT;
use super::body::{Nothing, Told};
use super::front::Front;
use super::incomplete;
use crate::app::App;
use crate::discovery::{KeeperError, Origin, Registration, Removal, WorkerView};
use crate::policies::Undecided;
use crate::rest::{Json, RestError, aside, clipped};

/// A worker of the catalogue.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    #[serde(flatten)]
    worker: WorkerView,
    lifecycle: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_schedulable_reasons: Vec<String>,
}

impl Record {
    pub(super) fn is_schedulable(&self) -> bool {
        self.lifecycle == "schedulable"
    }
}

impl From<WorkerView> for Record {
    fn from(worker: WorkerView) -> Self {
        let lifecycle = match worker.availability {
            Availability::Ready => "schedulable",
            Availability::Draining => "draining",
            Availability::Unhealthy | Availability::Overloaded => "unschedulable",
        };
        let reasons = worker.reason.iter().cloned().collect();
        Self { worker, lifecycle, not_schedulable_reasons: reasons }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    #[serde(alias = "model")]
    model_name: Option<String>,
    routing_group: Option<String>,
}

impl Filter {
    /// None takes all.
    pub(super) fn new(model_name: Option<String>, routing_group: Option<String>) -> Self {
        Self { model_name, routing_group }
    }

    pub(super) fn of(query: Result<Query<Self>, QueryRejection>) -> Result<Self, RestError> {
        let Query(filter) =
            query.map_err(|rejection| RestError::bad_query_of(&rejection, DOCUMENT))?;
        Ok(filter)
    }

    pub(super) fn takes(&self, model: &str, group: &str) -> bool {
        let is = |wanted: &Option<String>, it: &str| wanted.as_deref().is_none_or(|w| w == it);
        is(&self.model_name, model) && is(&self.routing_group, group)
    }
}

/// All workers. Waits as the keeper's views do.
pub(super) fn records(app: &App) -> Vec<Record> {
    let undecided = app.policies.undecided();
    let records = app.workers.workers().into_iter().map(|worker| {
        let its = |one: &&Undecided| {
            let (key, described) = (&one.partition, &worker.description);
            *key.model == *described.model_name
                && *key.routing_group == *described.routing_group
                && key.role.as_str() == described.role
        };
        let undecided = undecided.iter().find(its);
        let mut record = Record::from(worker);
        if let Some(one) = undecided.filter(|_| record.is_schedulable()) {
            record.lifecycle = "unschedulable";
            record.not_schedulable_reasons.push(one.reason.clone());
        }
        record
    });
    records.collect()
}

pub(super) async fn list(
    State(front): State<Front>,
    filter: Result<Query<Filter>, QueryRejection>,
) -> Result<Response, RestError> {
    let filter = Filter::of(filter)?;
    aside(move || {
        let mut all: Vec<Value> = Vec::new();
        for record in records(&front.app) {
            let described = &record.worker.description;
            if filter.takes(&described.model_name, &described.routing_group) {
                all.push(json!(record));
            }
        }
        all.extend(front.incomplete.lock().records(|model, group| filter.takes(model, group)));
        Ok(Json(all))
    })
    .await
}

pub(super) async fn register(
    State(front): State<Front>,
    told: Told,
) -> Result<Response, RestError> {
    front.takes_new()?;
    front.register(told.read(incomplete::known)?).await
}

impl Front {
    async fn register(self, body: Value) -> Result<Response, RestError> {
        if let Some(waits) = incomplete::Described::without_endpoint(&body)? {
            let id = waits.worker_id();
            if self.app.dispatcher.router().worker(id).is_some() {
                let words = format!(
                    "worker {id} has an endpoint, which can't be cleared; delete it instead"
                );
                return Err(RestError::new(StatusCode::CONFLICT, words));
            }
            let record = self.incomplete.lock().put(waits);
            return Ok((StatusCode::CREATED, Json(record)).into_response());
        }
        let registration = Registration::read(&body)?;
        let id = registration.spec.worker_id;
        let registered = self.app.workers.register(registration, Origin::Api).await?;
        self.incomplete.lock().remove(id);
        Ok((StatusCode::CREATED, Json(Record::from(registered.worker))).into_response())
    }
}

pub(super) async fn change(
    State(front): State<Front>,
    Named(id): Named,
    told: Told,
) -> Result<Response, RestError> {
    front.takes_new()?;
    let body = told.read(incomplete::known)?;
    let waiting = front.incomplete.lock().changed(id, &body);
    if let Some(whole) = waiting {
        return front.register(whole).await.map(|mut response| {
            *response.status_mut() = StatusCode::OK;
            response
        });
    }
    let changed = front.app.workers.change(id, body).await??;
    Ok(Json(Record::from(changed.worker)).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    force: Option<String>,
}

/// Answers how the worker was, or how it is while it carries something still.
pub(super) async fn remove(
    State(front): State<Front>,
    Named(id): Named,
    how: Result<Query<How>, QueryRejection>,
) -> Result<Response, RestError> {
    let Query(How { force }) =
        how.map_err(|rejection| RestError::bad_query_of(&rejection, DOCUMENT))?;
    let force = match force.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let other = clipped(other);
            return Err(RestError::bad_request(format!("force is {other:?}; give true or false")));
        }
    };
    if let Some(record) = front.incomplete.lock().remove(id) {
        return Ok(Json(record).into_response());
    }
    let (workers, before) = (front.app.workers.clone(), front.app.workers.clone());
    let before = tokio::task::spawn_blocking(move || before.worker(id)).await.ok().flatten();
    let record = match workers.remove(id, force).await? {
        Removal::Draining(worker) => Some(Record::from(*worker)),
        Removal::Gone => before.map(|worker| Record {
            worker,
            lifecycle: "draining",
            not_schedulable_reasons: vec!["it was deleted".to_owned()],
        }),
    };
    let record = record.ok_or(KeeperError::Unknown(id))?;
    Ok(Json(record).into_response())
}

pub(super) async fn heartbeat(
    State(front): State<Front>,
    Named(id): Named,
    _: Nothing,
) -> Result<Response, RestError> {
    aside(move || Ok(Json(Record::from(front.app.workers.heartbeat(id)?)))).await
}

/// The worker that the path names.
#[derive(Debug)]
pub(super) struct Named(WorkerId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, RestError> {
        let segment = Path::<String>::from_request_parts(parts, state).await;
        let text = segment.as_ref().map_or("what the path names", |Path(text)| text);
        WorkerId::from_decimal(text).map(Self).ok_or_else(|| {
            RestError::bad_request(format!(
                "{:?} is not a worker's id; see GET /workers for those that are registered",
                clipped(text)
            ))
        })
    }
}
