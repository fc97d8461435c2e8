//! The decision core and the wasm host as libraries: routes ten requests among three workers, by a
//! component.
//!
//! ```sh
//! cargo run --release -- policy build policies/least-busy --out policies-dir
//! cargo run --release --example component -- policies-dir/least-busy.wasm
//! ```
//!
//! No HTTP, no async runtime: the core is asked where a request may go, and told what became of it. Time
//! and chance are arguments, so that the same calls give the same choices.

#![expect(clippy::print_stdout, reason = "it is a program of its own")]

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_core::clock::Moment;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::partition::Mode;
use pointsman_core::policy::selection::{InstanceSpec, Recipe, TypeUse};
use pointsman_core::policy::{Catalog, Limits, OnFailure, SelectionSpec};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};
use serde_json::json;

fn main() -> Result<()> {
    let component = std::env::args().nth(1).context("give the path of a built least-busy.wasm")?;
    for line in choices(Path::new(&component))? {
        println!("{line}");
    }
    Ok(())
}

/// Routes the requests, of which every third ends at once; tells where each went, and why there.
pub(crate) fn choices(component: &Path) -> Result<Vec<String>> {
    // One engine a process; one catalogue of policy types: the built-ins, and what is loaded.
    let engine = PolicyEngine::new(EngineConfig::default())?;
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(ComponentPolicy::open(&engine, "least-busy", component)?))?;

    // What YAML calls `worker_selection`: an instance of the type, for workers that do all.
    let parameters = json!({ "min_device_overlap_blocks": 0 });
    let instance = InstanceSpec::new(
        "mine",
        Recipe::Whole(TypeUse {
            policy_type: "least-busy".into(),
            parameters: Arc::new(parameters.as_object().cloned().unwrap_or_default()),
            limits: Limits::default(),
        }),
        // The built-in `default` decides what the component can't.
        OnFailure::Default,
    );
    let roles = [(Role::Aggregated, "mine".into())].into();
    let selection = SelectionSpec { roles, instances: vec![instance] };
    let router = Router::new(Policies { catalog, selection, ..Policies::default() }, 7);

    let key = PartitionKey {
        model: "my-model".into(),
        routing_group: "default".into(),
        role: Role::Aggregated,
    };
    for id in 1..=3 {
        let endpoint = format!("http://127.0.0.1:{}", 8000 + id);
        router.upsert_worker(WorkerSpec::new(WorkerId(id), &*endpoint, key.clone()))?;
    }

    let (mut running, mut lines) = (Vec::new(), Vec::new());
    for nth in 0..10_u64 {
        let request = RouteRequest::new(format!("request-{nth}"), key.clone(), 1_000);
        let moment = Moment { now_ms: nth * 20, seed: nth };
        let decision = router.route(&request, moment, Mode::Book)?;
        let receipt = &decision.receipt;
        lines.push(format!(
            "{} to {} ({}), cost {}, {} units of fuel",
            request.request_id,
            receipt.worker,
            decision.worker.endpoint,
            receipt.cost,
            receipt.fuel().unwrap_or(0),
        ));
        // The lease is the request's load: dropped, it is given back.
        match decision.lease {
            Some(mut lease) if nth % 3 == 0 => lease.prefill_done_at(moment.now_ms),
            lease => running.push(lease),
        }
    }
    drop(running);
    let carried: u64 =
        router.workers().iter().map(|it| router.active_requests_of(it.spec.worker_id)).sum();
    lines.push(format!("{carried} requests are under way at the end"));
    Ok(lines)
}
