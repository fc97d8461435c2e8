//! A policy of your own, written against the core's stage traits and linked in, beside the built-ins and under
//! the same checks as a component; and a router that is asked by it.
//!
//! ```sh
//! cargo run --release --example native_policy
//! ```
//!
//! What is linked in is trusted: it has no fuel, and what it does with memory is its own. A panic of it
//! fails one decision.

#![expect(clippy::print_stdout, reason = "it is a program of its own")]

use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_core::clock::Moment;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::partition::Mode;
use pointsman_core::policy::native::{NativePolicy, WorkerFilter, WorkerScorer};
use pointsman_core::policy::selection::{InstanceSpec, Recipe, TypeUse};
use pointsman_core::policy::{
    Candidates, Catalog, Digest, Input, InstantiateError, Limits, OnFailure, PolicyEnvironment,
    PolicyInstance, PolicyProvider, Properties, RequestView, RowMask, SelectionSpec, StageError,
};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};
use serde::Deserialize;
use serde_json::json;

/// The type: the YAML's `type: room-first`.
#[derive(Debug)]
struct RoomFirst;

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Requests that a worker may carry.
    most_requests: f64,
}

impl PolicyProvider for RoomFirst {
    fn policy_type(&self) -> &str {
        "room-first"
    }

    fn digest(&self) -> Option<&Digest> {
        None
    }

    /// Once for each partition, and again when its parameters change.
    fn instantiate(
        &self,
        environment: &PolicyEnvironment,
    ) -> Result<Box<dyn PolicyInstance>, InstantiateError> {
        let parameters = serde_json::Value::Object((*environment.parameters).clone());
        let settings: Settings = serde_json::from_value(parameters).map_err(|error| {
            let policy_type = self.policy_type().to_owned();
            InstantiateError::Refused { policy_type, reason: format!("parameters: {error}") }
        })?;
        // Its answers depend on the call alone, and its stages may be called in one go.
        let properties = Properties { stateless: true, fused: true, ..Properties::default() };
        Ok(Box::new(
            NativePolicy::new(properties)
                .filter("room", Room { most: settings.most_requests })
                .scorer("waiting", Waiting),
        ))
    }
}

/// Keeps workers that have room.
#[derive(Debug)]
struct Room {
    most: f64,
}

impl WorkerFilter for Room {
    fn inputs(&self) -> &[Input] {
        &[Input::ActiveRequests]
    }

    fn keep(
        &mut self,
        _: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        let requests = rows.column(Input::ActiveRequests).unwrap_or_default();
        for (row, &carried) in requests.iter().enumerate() {
            if carried >= self.most {
                verdicts.reject(row);
            }
        }
        Ok(())
    }
}

/// Prompt tokens that wait for a first token.
#[derive(Debug)]
struct Waiting;

impl WorkerScorer for Waiting {
    fn inputs(&self) -> &[Input] {
        &[Input::ActivePrefillTokens]
    }

    fn score(
        &mut self,
        _: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        costs.copy_from_slice(rows.column(Input::ActivePrefillTokens).unwrap_or_default());
        Ok(())
    }
}

fn main() -> Result<()> {
    for line in choices()? {
        println!("{line}");
    }
    Ok(())
}

/// Asks for prompts of many lengths until no worker has room.
pub(crate) fn choices() -> Result<Vec<String>> {
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(RoomFirst))?;
    let parameters = json!({ "most_requests": 2 });
    let instance = InstanceSpec::new(
        "mine",
        Recipe::Whole(TypeUse {
            policy_type: "room-first".into(),
            parameters: Arc::new(parameters.as_object().cloned().unwrap_or_default()),
            limits: Limits::default(),
        }),
        OnFailure::Reject,
    );
    let roles = [(Role::Aggregated, "mine".into())].into();
    let selection = SelectionSpec { roles, instances: vec![instance] };
    let router = Router::new(Policies { catalog, selection, ..Policies::default() }, 7);

    let key = PartitionKey {
        model: "my-model".into(),
        routing_group: "default".into(),
        role: Role::Aggregated,
    };
    for id in 1..=2 {
        router.upsert_worker(WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", key.clone()))?;
    }
    let (mut running, mut lines) = (Vec::new(), Vec::new());
    for (nth, tokens) in [4_000, 100, 200, 50, 300].into_iter().enumerate() {
        let request = RouteRequest::new(format!("request-{nth}"), key.clone(), tokens);
        let moment = Moment { now_ms: 0, seed: nth as u64 };
        match router.route(&request, moment, Mode::Book) {
            Ok(decision) => {
                let receipt = &decision.receipt;
                lines.push(format!("{tokens} tokens to worker {}", receipt.worker.worker_id));
                running.push(decision.lease.context("it is booked")?);
            }
            Err(error) => lines.push(format!("{tokens} tokens: {error}")),
        }
    }
    Ok(lines)
}
