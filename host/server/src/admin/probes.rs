//! Whether the router lives, and whether it should be sent requests.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use pointsman_core::fleet::{Availability, Worker};
use pointsman_core::ids::PartitionKey;
use serde_json::{Value, json};

use crate::app::App;
use crate::policies::Undecided;
use crate::rest::{Json, RestError, aside};

/// The most partitions that are named: probes come often, and keep what they are answered.
const MOST_NAMED: usize = 20;

pub(super) async fn health() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

pub(super) async fn ready(State(app): State<App>) -> Result<Response, RestError> {
    // A partition that decides is waited for.
    aside(move || look(&app)).await
}

/// Whether requests can be served. Waits for a partition that decides, so call it where waiting is allowed.
pub(crate) fn is_ready(app: &App) -> bool {
    look(app).is_ok()
}

fn look(app: &App) -> Result<Json<Value>, RestError> {
    if app.draining.is_cancelled() {
        return Err(not_ready("the router is stopping"));
    }
    let workers = app.dispatcher.router().workers();
    let is_ready = |worker: &&Worker| worker.availability == Availability::Ready;
    let ready = workers.iter().filter(is_ready).count();
    let unheard = unheard(app);
    if ready == 0 {
        let error = not_ready(if workers.is_empty() {
            "no worker is registered"
        } else {
            "no worker is ready; see GET /v1/workers"
        });
        return Err(if unheard.is_empty() {
            error
        } else {
            error.with_details(json!({ "discovery": unheard }))
        });
    }
    let serving = workers.iter().filter(is_ready).map(|worker| &worker.spec.partition);
    let serving: BTreeSet<&PartitionKey> = serving.collect();
    let all = workers.iter().map(|worker| &worker.spec.partition);
    let out = unfit(all.collect(), &serving, app.policies.undecided());
    let named: Vec<&Undecided> = out.values().take(MOST_NAMED).collect();
    let more = out.len() - named.len();
    if serving.iter().all(|partition| out.contains_key(partition)) {
        let error = "no partition can serve a request; the details say why";
        return Err(not_ready(error).with_details(json!({
            "not_ready": named, "more_not_ready": more, "discovery": unheard,
        })));
    }
    Ok(Json(json!({
        "status": "ready", "ready_workers": ready, "not_ready": named, "more_not_ready": more,
        "discovery": unheard,
    })))
}

/// Those who list workers and can't be heard, so that the workers are as they were, or none.
fn unheard(app: &App) -> Vec<Value> {
    let unheard = app.workers.unheard().into_iter();
    unheard.map(|(source, problem)| json!({ "source": source, "problem": problem })).collect()
}

fn not_ready(why: &str) -> RestError {
    RestError::new(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// Those of all partitions with workers that can't serve, and why.
fn unfit<'a>(
    all: BTreeSet<&'a PartitionKey>,
    serving: &BTreeSet<&PartitionKey>,
    undecided: Vec<Undecided>,
) -> BTreeMap<&'a PartitionKey, Undecided> {
    let mut reasons: BTreeMap<PartitionKey, Undecided> =
        undecided.into_iter().map(|one| (one.partition.clone(), one)).collect();
    let nobody = |partition: &PartitionKey| Undecided {
        partition: partition.clone(),
        reason: "none of its workers is ready; see GET /v1/workers".to_owned(),
    };
    let unfit = all.into_iter().filter_map(|partition| {
        let reason = match serving.contains(partition) {
            true => reasons.remove(partition)?,
            false => nobody(partition),
        };
        Some((partition, reason))
    });
    unfit.collect()
}
