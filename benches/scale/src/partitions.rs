//! Time against the models that a router serves.

use std::sync::Arc;

use anyhow::Result;
use pointsman_benches::fleet;
use pointsman_core::clock::Moment;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{PartitionKey, WorkerId};
use pointsman_core::partition::Mode;
use pointsman_core::policy::Catalog;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use serde_json::Map;

use crate::report::{Cell, Table};
use crate::timing::{Subject, in_turns};

const PARTITIONS: [u64; 4] = [1, 10, 100, 1_000];

/// Workers in each.
const WORKERS: u64 = 8;

/// How many times as much a decision may cost among 1,000 partitions as in the only one, where all ask for the
/// same, and where they take turns so that nothing of a partition is near any more.
const MOST_SAME: f64 = 1.5;
const MOST_IN_TURNS: f64 = 20.0;

/// The partition of that number.
pub fn key(at: u64) -> PartitionKey {
    PartitionKey { model: format!("model-{at}").into(), ..fleet::key() }
}

/// A router of so many partitions with so many workers each, decided by a policy of this type.
pub fn router(catalog: &Catalog, policy: &str, partitions: u64, workers: u64) -> Result<Router> {
    let router = fleet::router(catalog, policy, &Map::new(), &Arc::default(), 0)?;
    for id in 0..partitions * workers {
        let key = key(id / workers);
        router.upsert_worker(WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", key))?;
    }
    Ok(router)
}

/// Decides and ends a request at once.
pub fn decide(router: &Router, request: &RouteRequest, n: u64) -> Result<()> {
    let moment = Moment { now_ms: 1 + n / 100, seed: n };
    router.route(request, moment, Mode::Book)?;
    Ok(())
}

pub fn measure(rounds: usize) -> Result<Table> {
    let catalog = Catalog::builtin();
    let routers: Vec<(Router, Vec<RouteRequest>)> = PARTITIONS
        .into_iter()
        .map(|partitions| {
            let request = |at| RouteRequest::new("r", key(at), 2_048);
            let requests: Vec<_> = (0..partitions).map(request).collect();
            let router = router(&catalog, "default", partitions, WORKERS)?;
            // A partition's first decisions take its buffers.
            for n in 0..3 {
                requests.iter().try_for_each(|request| decide(&router, request, n))?;
            }
            Ok((router, requests))
        })
        .collect::<Result<_>>()?;
    let mut subjects = Vec::new();
    for (router, requests) in &routers {
        let (same, mut n) = (&requests[requests.len() / 2], 0);
        subjects.push(Subject::new(move || {
            n += 1;
            decide(router, same, n)
        }));
        let mut n = 0;
        subjects.push(Subject::new(move || {
            n += 1;
            // A prime, so that neighbours don't follow each other and each has its turn.
            decide(router, &requests[n as usize * 379 % requests.len()], n)
        }));
    }
    let figures = in_turns(rounds, &mut subjects)?;
    let mut table = Table::new(
        "partitions",
        "A partition is found by its hash, and has all of its own; what is left is that the memory of many, used in turns, is farther away than that of one.",
        &[
            "partitions",
            "one of them, ns",
            "all in turns, ns",
            "allocations",
            "allocations, in turns",
        ],
    );
    for (partitions, figures) in PARTITIONS.into_iter().zip(figures.chunks(2)) {
        let times = figures.iter().map(|figures| Cell::from(figures.ns));
        let allocations = figures.iter().map(|figures| Cell::from(figures.allocations));
        table.row([Cell::from(partitions as f64)].into_iter().chain(times).chain(allocations));
    }
    let by_least = |at: usize| figures[figures.len() - 2 + at].ns / figures[at].ns;
    table.at_most("one of 1,000 by the only one", by_least(0), MOST_SAME);
    table.at_most("1,000 in turns by the only one", by_least(1), MOST_IN_TURNS);
    Ok(table)
}
