//! A request described by its facts alone, for callers that have no prompt to send.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role, WorkerId, WorkerTarget};
use pointsman_core::request::{Constraints, MAX_SESSION_ID_BYTES, RouteRequest, Session};
use serde::Deserialize;
use serde_json::Value;

use crate::admin::error::AdminError;

/// The facts, under the names that the selection API of other routers uses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    #[serde(alias = "model")]
    model_name: String,
    routing_group: Option<String>,
    #[serde(default)]
    role: Role,
    prompt_tokens: u64,
    session_id: Option<String>,
    expected_output_tokens: Option<u32>,
    #[serde(default)]
    priority_jump: f64,
    #[serde(default)]
    strict_priority: u32,
    router_temperature: Option<f64>,
    affinity_target: Option<WorkerTarget>,
    pinned_worker: Option<WorkerTarget>,
    allowed_worker_ids: Option<BTreeSet<WorkerId>>,
    #[serde(default)]
    routing_constraints: RoutingConstraints,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RoutingConstraints {
    required_taints: BTreeSet<String>,
    preferred_taints: BTreeMap<String, f64>,
}

/// Reads the facts of a request.
pub(super) fn request(body: &Value) -> Result<RouteRequest, AdminError> {
    let facts = Description::deserialize(body)
        .map_err(|error| AdminError::bad_request(format!("not a request's facts: {error}")))?;
    let bad = |problem: &str| Err(AdminError::bad_request(problem));
    let at_least_zero = |number: f64| number.is_finite() && number >= 0.0;
    if !at_least_zero(facts.priority_jump) || !facts.router_temperature.is_none_or(at_least_zero) {
        return bad("priority_jump and router_temperature must be at least 0");
    }
    if !facts.routing_constraints.preferred_taints.values().all(|weight| weight.is_finite()) {
        return bad("preferred_taints must have finite weights");
    }
    if facts.session_id.as_ref().is_some_and(|id| id.len() > MAX_SESSION_ID_BYTES) {
        return bad("session_id is too long; give at most 256 bytes");
    }
    let partition = PartitionKey {
        model: facts.model_name.into(),
        routing_group: facts.routing_group.map_or_else(|| DEFAULT_GROUP.into(), Into::into),
        role: facts.role,
    };
    let mut request = RouteRequest::new("dry-run", partition, facts.prompt_tokens);
    request.prompt_tokens_exact = true;
    request.session = facts.session_id.map(|id| Session {
        id: id.into(),
        parent_id: None,
        is_final: None,
        evict: None,
    });
    request.constraints = Constraints {
        allowed: facts.allowed_worker_ids,
        tried: BTreeSet::new(),
        pinned: facts.pinned_worker,
        required_taints: facts.routing_constraints.required_taints,
        preferred_taints: facts.routing_constraints.preferred_taints,
    };
    request.affinity_target = facts.affinity_target;
    request.expected_output_tokens = facts.expected_output_tokens;
    request.priority_jump = facts.priority_jump;
    request.strict_priority = facts.strict_priority;
    request.router_temperature = facts.router_temperature;
    Ok(request)
}
