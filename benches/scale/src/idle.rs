//! What a host of components costs decisions that none of them makes.
//!
//! One router, whose `round-robin` decides without the lock; another partition of it gets a component from an engine
//! with its pool and its threads, and loses both again, round by round. The first partition isn't touched by
//! that, so that nothing of the decision differs but what else there is in the process.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_benches::fleet;
use pointsman_core::clock::{Moment, Stopwatch};
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{DecisionId, PartitionKey, Role, WorkerId};
use pointsman_core::partition::{Mode, Partition};
use pointsman_core::policy::Catalog;
use pointsman_core::policy::selection::Recipe;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};
use serde_json::Map;

use crate::components::{self, WHOLE};
use crate::report::{Cell, Table};

const WORKERS: u64 = 64;

/// Decisions in a batch: some 0.4 ms, short enough to be done between two interruptions.
const BATCH: u64 = 10_000;

/// Batches of a round, with the host and without.
const BATCHES: usize = 12;

/// How many times as much a decision may cost with an idle host as without.
const MOST: f64 = 1.02;

/// Where the component decides, when there is one.
fn other() -> PartitionKey {
    PartitionKey { role: Role::Prefill, ..fleet::key() }
}

/// The same policies, and a component for the other partition.
fn with_component(policies: &Policies, catalog: Catalog) -> Result<Policies> {
    let mut policies = Policies { catalog, ..policies.clone() };
    let mut guest = policies.selection.instances.first().context("there is one")?.clone();
    guest.name = "guest".into();
    if let Recipe::Whole(its) = &mut guest.recipe {
        its.policy_type = WHOLE.into();
    }
    policies.selection.roles.insert(Role::Prefill, guest.name.clone());
    policies.selection.instances.push(guest);
    Ok(policies)
}

/// The least nanoseconds of a decision, of so many batches.
fn least(partition: &Partition, n: &mut u64) -> Result<f64> {
    let request = RouteRequest::new("r", partition.key().clone(), 2_048);
    let mut best = f64::INFINITY;
    for _ in 0..BATCHES {
        let watch = Stopwatch::start();
        for _ in 0..BATCH {
            *n += 1;
            let moment = Moment { now_ms: *n / 10_000, seed: *n };
            let booked = partition.hosted().choose(&request, DecisionId(*n), moment);
            drop(black_box(booked.context("a decision took the lock")?));
        }
        best = best.min(watch.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    Ok(best)
}

/// Puts policies in place.
fn install(router: &Router, policies: &Policies) -> Result<()> {
    router.install(router.prepare(policies.clone())?)?;
    Ok(())
}

pub fn measure(rounds: usize) -> Result<Table> {
    let catalog = Catalog::builtin();
    let router = fleet::router(&catalog, "round-robin", &Map::new(), &Arc::default(), WORKERS)?;
    let id = WorkerId(WORKERS);
    router.upsert_worker(WorkerSpec::new(id, "http://127.0.0.1:1", other()))?;
    let (alone, partition) = (router.policies(), fleet::partition(&router)?);
    let mut n = 0;
    least(&partition, &mut n)?;
    let (mut without, mut with) = (f64::INFINITY, f64::INFINITY);
    for round in 0..rounds.max(1) {
        // Each is the first as often as the other.
        if round.is_multiple_of(2) {
            without = without.min(least(&partition, &mut n)?);
        }
        let engine = components::engine()?;
        let host = with_component(&alone, components::catalog(&engine, WHOLE)?)?;
        install(&router, &host)?;
        let request = RouteRequest::new("r", other(), 2_048);
        let decision = router.route(&request, Moment { now_ms: 1, seed: n }, Mode::Book)?;
        anyhow::ensure!(decision.receipt.fallback.is_none(), "the component didn't decide");
        with = with.min(least(&partition, &mut n)?);
        install(&router, &alone)?;
        drop((host, engine));
        if !round.is_multiple_of(2) {
            without = without.min(least(&partition, &mut n)?);
        }
    }
    let mut table = Table::new(
        "idle",
        "A host that isn't asked has a thread that wakes a hundred times a second and memory that is mapped; a decision meets neither.",
        &["round-robin, hosted", "without a host, ns", "beside one, ns", "ratio"],
    );
    let ratio = with / without;
    table.row([Cell::from("64 workers"), without.into(), with.into(), ratio.into()]);
    table.at_most("beside a host by without", ratio, MOST);
    Ok(table)
}
