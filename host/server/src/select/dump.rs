//! What engines have told of their caches, whole: page by page, in hashes.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use pointsman_core::ids::{Role, WorkerRank};
use pointsman_core::index::{DumpedRun, Held, Tier};
use serde::{Deserialize, Serialize};

use super::DOCUMENT;
use super::front::Front;
use super::hashes::signed;
use super::workers::Filter;
use crate::rest::{Json, RestError, aside, clipped};

/// Blocks that are shown of each partition to a caller that doesn't say, and at most.
const USUAL: usize = 4_096;
const MOST: usize = 65_536;

/// The query's parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    #[serde(alias = "model")]
    model_name: Option<String>,
    routing_group: Option<String>,
    limit: Option<String>,
    from: Option<String>,
}

/// One partition's.
#[derive(Debug, Serialize)]
struct Dumped {
    model_name: Arc<str>,
    routing_group: Arc<str>,
    role: Role,
    block_size: u32,
    runs: Vec<Run>,
    /// Where the next page begins; none at the end.
    next: Option<usize>,
}

/// Blocks that follow one another.
#[derive(Debug, Serialize)]
struct Run {
    parent_hash: Option<i64>,
    sequence_hashes: Vec<i64>,
    held: Vec<Holding>,
}

#[derive(Debug, Serialize)]
struct Holding {
    #[serde(flatten)]
    worker: WorkerRank,
    tier: Tier,
    blocks: u64,
}

impl From<DumpedRun> for Run {
    fn from(run: DumpedRun) -> Self {
        let holding =
            |held: Held| Holding { worker: held.worker, tier: held.tier, blocks: held.blocks };
        Self {
            parent_hash: run.parent_hash.map(|hash| hash as i64),
            sequence_hashes: signed(&run.sequence_hashes),
            held: run.held.into_iter().map(holding).collect(),
        }
    }
}

pub(super) async fn dump(
    State(front): State<Front>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Response, RestError> {
    let Query(wanted) =
        wanted.map_err(|rejection| RestError::bad_query_of(&rejection, DOCUMENT))?;
    let limit = number("limit", wanted.limit.as_deref())?.unwrap_or(USUAL).clamp(1, MOST);
    let from = number("from", wanted.from.as_deref())?.unwrap_or(0);
    let filter = Filter::new(wanted.model_name, wanted.routing_group);
    aside(move || {
        let partitions = front.app.dispatcher.router().partitions();
        let its = partitions
            .iter()
            .filter(|one| filter.takes(&one.key().model, &one.key().routing_group));
        let all = its.map(|partition| {
            let (runs, next) = partition.cache().dump(from, limit);
            let key = partition.key();
            Dumped {
                model_name: key.model.clone(),
                routing_group: key.routing_group.clone(),
                role: key.role,
                block_size: partition.block_size(),
                runs: runs.into_iter().map(Run::from).collect(),
                next,
            }
        });
        Ok(Json(all.collect::<Vec<_>>()))
    })
    .await
}

fn number(name: &str, given: Option<&str>) -> Result<Option<usize>, RestError> {
    let Some(given) = given else { return Ok(None) };
    given.parse().map(Some).map_err(|_| {
        RestError::bad_request(format!("{name} is {:?}; give a whole number", clipped(given)))
    })
}
