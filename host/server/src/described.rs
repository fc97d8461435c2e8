//! Facts of a request that a program describes in JSON: where it may go, and on which terms it waits.
//!
//! Owns the names and ranges of the fields that the admin's dry run and the selection service have in
//! common. They are those of the selection API of other routers. It doesn't know prompts, nor what else a
//! body has.

use pointsman_core::ids::{DEFAULT_GROUP, DpRank, PartitionKey, WorkerTarget};
use pointsman_core::request::{Constraints, MAX_SESSION_ID_BYTES, RouteRequest};
use serde_json::Value;

use crate::json::Fields;
use crate::json::values::{self, Read, show};

/// The partition that a body names by its group and role, of a model.
pub(crate) fn partition(fields: &mut Fields<'_>, model: Option<String>) -> PartitionKey {
    let group = fields.optional("routing_group", values::name).flatten();
    PartitionKey {
        model: model.unwrap_or_default().into(),
        routing_group: group.unwrap_or_else(|| DEFAULT_GROUP.to_owned()).into(),
        role: fields.optional("role", values::role).flatten().unwrap_or_default(),
    }
}

/// Tells a request who may have it, and how urgent it is.
pub(crate) fn take(fields: &mut Fields<'_>, request: &mut RouteRequest) {
    request.expected_output_tokens =
        fields.optional("expected_output_tokens", values::count).flatten();
    request.priority_jump =
        fields.optional("priority_jump", values::at_least_zero).flatten().unwrap_or_default();
    request.strict_priority =
        fields.optional("strict_priority", values::count).flatten().unwrap_or_default();
    request.admission.policy_class =
        fields.optional("policy_class", values::name).flatten().map(Into::into);
    request.router_temperature =
        fields.optional("router_temperature", values::at_least_zero).flatten();
    request.affinity_target = fields.nested("affinity_target", target);
    let adapter = request.constraints.adapter.take();
    request.constraints = Constraints {
        pinned: fields.nested("pinned_worker", target),
        allowed: fields.optional("allowed_worker_ids", values::ids).flatten(),
        adapter,
        ..fields.nested("routing_constraints", taints).unwrap_or_default()
    };
}

fn target(fields: &mut Fields<'_>) -> Option<WorkerTarget> {
    let worker_id = fields.required("worker_id", values::id);
    let dp_rank = fields.optional("dp_rank", values::count).flatten().map(DpRank);
    Some(WorkerTarget { worker_id: worker_id?, dp_rank })
}

fn taints(fields: &mut Fields<'_>) -> Option<Constraints> {
    let required = fields.optional("required_taints", values::names).flatten();
    let preferred = fields.optional("preferred_taints", values::weights).flatten();
    Some(Constraints {
        required_taints: required.unwrap_or_default(),
        preferred_taints: preferred.unwrap_or_default(),
        ..Constraints::default()
    })
}

/// Any text.
pub(crate) fn text(value: &Value) -> Read<String> {
    let text = value.as_str().ok_or_else(|| format!("is {}; expected a text", show(value)))?;
    Ok(text.to_owned())
}

/// A session's id.
pub(crate) fn session_id(value: &Value) -> Read<String> {
    let text = text(value)?;
    if text.len() > MAX_SESSION_ID_BYTES {
        let length = text.len();
        return Err(format!("has {length} bytes; expected at most {MAX_SESSION_ID_BYTES}"));
    }
    Ok(text)
}
