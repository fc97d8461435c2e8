//! Which worker each session is bound to, and the end of a binding.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use pointsman_core::affinity::{AffinityCounts, AffinityMode, SessionView};
use pointsman_core::ids::PartitionKey;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::rest::{Json, RestError, aside, clipped};

/// How many sessions are shown to a caller that doesn't say, and at most.
const USUAL: usize = 100;
const MOST: usize = 1_000;

/// The query's parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    limit: Option<String>,
    from: Option<String>,
    #[serde(alias = "model_name")]
    model: Option<String>,
    routing_group: Option<String>,
    role: Option<String>,
}

impl Wanted {
    fn takes(&self, key: &PartitionKey) -> bool {
        let is = |wanted: &Option<String>, it: &str| wanted.as_deref().is_none_or(|w| w == it);
        is(&self.model, &key.model)
            && is(&self.routing_group, &key.routing_group)
            && is(&self.role, key.role.as_str())
    }
}

#[derive(Serialize)]
struct Sessions {
    router_session_affinity_ttl_secs: Option<u32>,
    router_session_affinity_mode: AffinityMode,
    partitions: Vec<PartitionSessions>,
}

#[derive(Serialize)]
struct PartitionSessions {
    #[serde(flatten)]
    partition: PartitionKey,
    /// All that there are.
    bindings: usize,
    counts: AffinityCounts,
    sessions: Vec<SessionView>,
    /// Where the next page begins; none at the end.
    next: Option<usize>,
}

/// The counts of each partition, and a page of its sessions: together at most as many as are asked
/// for.
pub(super) async fn list(
    State(app): State<App>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Response, RestError> {
    let Query(wanted) = wanted.map_err(|rejection| RestError::bad_query(&rejection))?;
    let limit = number("limit", wanted.limit.as_deref())?.unwrap_or(USUAL).min(MOST);
    let from = number("from", wanted.from.as_deref())?.unwrap_or(0);
    aside(move || {
        let router = app.dispatcher.router();
        let (settings, now_ms) = (router.settings(), app.dispatcher.clock().now_ms());
        let mut left = limit;
        let partitions = router.partitions();
        let partitions = partitions.iter().filter(|one| wanted.takes(one.key()));
        let partitions = partitions.map(|partition| {
            let affinity = partition.affinity();
            let (sessions, next) = affinity.list(from, left, now_ms);
            left -= sessions.len();
            PartitionSessions {
                partition: partition.key().clone(),
                bindings: affinity.len(),
                counts: affinity.counts(),
                sessions,
                next,
            }
        });
        Ok(Json(Sessions {
            router_session_affinity_ttl_secs: settings.router_session_affinity_ttl_secs,
            router_session_affinity_mode: settings.router_session_affinity_mode,
            partitions: partitions.collect(),
        }))
    })
    .await
}

/// What became of an id.
#[derive(Serialize)]
struct Ended {
    id: String,
    /// Bindings that are no more: of the session, and of those that it started.
    ended: usize,
}

/// Ends a session's bindings, in all partitions. What runs goes on.
pub(super) async fn end(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, RestError> {
    aside(move || {
        let partitions = app.dispatcher.router().partitions();
        let ended: usize = partitions.iter().map(|one| one.affinity().end(&id)).sum();
        if ended == 0 {
            let words = format!(
                "no session {:?} is bound; GET /v1/sessions lists those that are",
                clipped(&id)
            );
            return Err(RestError::new(StatusCode::NOT_FOUND, words));
        }
        Ok(Json(Ended { id, ended }))
    })
    .await
}

fn number(name: &str, given: Option<&str>) -> Result<Option<usize>, RestError> {
    let Some(given) = given else { return Ok(None) };
    given.parse().map(Some).map_err(|_| {
        RestError::bad_request(format!("{name} is {:?}; give a whole number", clipped(given)))
    })
}
