//! One instance of a guest that keeps a kibibyte more with every call, asked ten million times.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_core::clock::Moment;
use pointsman_core::ids::{Role, WorkerId};
use pointsman_core::partition::Mode;
use pointsman_core::policy::{Limits, OnFailure};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};
use serde_json::Value;

use crate::guests::guest;
use crate::neighbours::failures;
use crate::report::{Part, Readings, process};
use crate::setting::{instance, partition, policies, populate};

const CALLS: u64 = 10_000_000;
const KEPT_A_CALL: u64 = 1 << 10;
/// Rows that the guest picks in turn.
const ROWS: u64 = 7;
const READINGS: u64 = 200;

pub(crate) fn run(share: u64) -> Result<Part> {
    let calls = CALLS / share;
    let engine = PolicyEngine::new(EngineConfig { pooled_instances: 16, ..Default::default() })?;
    let component =
        ComponentPolicy::load(&engine, "leaks", Path::new("leaks.wasm"), &guest("leaks"))?;
    // What it fails is an error, so that none can be overlooked.
    let leaks = instance("leaks", Value::Null, OnFailure::Reject);
    let router = Router::new(policies([Arc::new(component) as _], [(Role::Aggregated, leaks)])?, 7);
    let partition = partition("default", Role::Aggregated);
    populate(&router, &partition, 0..ROWS)?;

    let mut request = RouteRequest::new("r", partition.clone(), 2_048);
    let (mut failed, mut out_of_turn) = (0, 0);
    let mut readings = Readings::default();
    for n in 0..calls {
        request.prompt_tokens = 2_048 + n % 64;
        match router.route(&request, Moment { now_ms: n / 300, seed: n }, Mode::Book) {
            Ok(decision) => {
                out_of_turn += u64::from(decision.worker.worker_id != WorkerId(n % ROWS));
            }
            Err(_) => failed += 1,
        }
        if n % (calls / READINGS) == 0 {
            readings.0.push(process()?.0);
        }
    }

    let found = router.partition(&partition).context("the partition is there")?;
    let standing = found.standing(0);
    let usage = standing.first().and_then(|one| one.usage).context("its usage is counted")?;
    let counted = engine.counters();
    let mut part =
        Part::new(format!("{calls} calls on one instance of a guest that leaks 1 KiB a call"));
    let limit = Limits::SMALL_MEMORY;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    part.tell("leaked in all", format!("{:.0} MiB", mib(calls * KEPT_A_CALL)));
    part.promise(
        "the most memory that it ever had",
        format!("{:.2} MiB", mib(usage.most_memory_bytes)),
        "at most its limit of 32 MiB",
        usage.most_memory_bytes <= limit,
    );
    let least = calls * KEPT_A_CALL / limit;
    part.promise(
        "replaced between two calls, as counted",
        format!("{} times", usage.recycled),
        &format!("at least {least} times, which the engine counts as well"),
        usage.recycled >= least && counted.instances_recycled == usage.recycled,
    );
    part.none_of("lost", usage.lost);
    for (cause, count) in failures([&router]) {
        part.tell(&format!("failed by {cause}"), count);
    }
    part.none_of("failed decisions", failed);
    part.none_of("decisions out of turn (its state goes on)", out_of_turn);
    part.none_of("states lost", counted.state_lost);
    part.memory(&readings);
    Ok(part)
}
