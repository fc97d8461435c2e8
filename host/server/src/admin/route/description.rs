//! A request described by its facts alone, for callers that have no prompt to send.
//!
//! The names are those of the selection API of other routers; `model` is the word everywhere else
//! here, and `model_name` means the same.

use std::collections::BTreeSet;

use pointsman_core::hashing::Scope;
use pointsman_core::ids::{DEFAULT_GROUP, DpRank, PartitionKey, WorkerTarget};
use pointsman_core::request::{Constraints, MAX_SESSION_ID_BYTES, RouteRequest, Session};
use serde_json::{Value, json};

use crate::admin::error::AdminError;
use crate::json::values::{self, Read, show};
use crate::json::{Fields, Problems};

/// A request of which only facts are known.
#[derive(Debug)]
pub(super) struct Described {
    /// The request; its prompt only if it has no tokens.
    pub(super) request: RouteRequest,
    /// The prompt's tokens, if they are given.
    pub(super) token_ids: Option<Vec<u32>>,
    /// What its blocks are cached under.
    pub(super) scope: Scope,
}

/// Reads the facts of a request.
pub(super) fn read(body: &Value) -> Result<Described, AdminError> {
    facts(body).map_err(|problems| {
        let error = format!("the request's facts have {problems}; see the details");
        AdminError::bad_request(error).with_details(json!(problems))
    })
}

fn facts(body: &Value) -> Result<Described, Problems> {
    let mut fields = Fields::of(body)?;
    let model = fields.optional_of(["model", "model_name"], values::name).flatten();
    if model.is_none() && !fields.has("model") && !fields.has("model_name") {
        fields.problem("model", "is missing; expected a model that a worker serves");
    }
    let token_ids = fields.optional("token_ids", values::token_ids).flatten();
    let prompt_tokens = if fields.has("token_ids") {
        fields.forbidden("prompt_tokens", "is how many token_ids there are; leave it out");
        None
    } else {
        fields.required("prompt_tokens", values::whole)
    };
    let adapter = fields.optional("lora_name", values::name).flatten();
    let namespace = fields.optional("cache_salt", text).flatten();
    let group = fields.optional("routing_group", values::name).flatten();
    let partition = PartitionKey {
        model: model.unwrap_or_default().into(),
        routing_group: group.unwrap_or_else(|| DEFAULT_GROUP.to_owned()).into(),
        role: fields.optional("role", values::role).flatten().unwrap_or_default(),
    };
    let mut request = RouteRequest::new("dry-run", partition, prompt_tokens.unwrap_or_default());
    request.prompt_tokens_exact = true;
    let session = fields.optional("session_id", session_id).flatten();
    request.session =
        session.map(|id| Session { id: id.into(), parent_id: None, is_final: None, evict: None });
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
    request.constraints = Constraints {
        pinned: fields.nested("pinned_worker", target),
        allowed: fields.optional("allowed_worker_ids", values::ids).flatten(),
        tried: BTreeSet::new(),
        adapter: adapter.as_deref().map(Into::into),
        ..fields.nested("routing_constraints", taints).unwrap_or_default()
    };
    fields.finish()?;
    let scope = Scope::new(adapter.as_deref(), namespace.as_deref());
    Ok(Described { request, token_ids, scope })
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

fn text(value: &Value) -> Read<String> {
    let text = value.as_str().ok_or_else(|| format!("is {}; expected a text", show(value)))?;
    Ok(text.to_owned())
}

fn session_id(value: &Value) -> Read<String> {
    let text = text(value)?;
    if text.len() > MAX_SESSION_ID_BYTES {
        let length = text.len();
        return Err(format!("has {length} bytes; expected at most {MAX_SESSION_ID_BYTES}"));
    }
    Ok(text)
}
