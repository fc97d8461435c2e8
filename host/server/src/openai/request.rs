//! What routing needs of a request: read from headers and body once, and checked.
//!
//! The body is looked through without building a tree of it, and goes on to the worker as it came:
//! also where our parser is stricter than engines are (see [`without_lone_surrogates`]).
//! What concerns only the engine isn't judged here. What concerns the router and isn't what it
//! should be is refused with its name, its value and what to send instead.
//!
//! # What is read
//!
//! | fact | headers | body |
//! |---|---|---|
//! | model | | `model` |
//! | routing group | `x-pointsman-routing-group` | |
//! | session | `x-dynamo-session-id`, `x-session-id`, `x-claude-code-agent-id`, `x-claude-code-session-id`, `thread-id` | `nvext.session_context`, `session_id` |
//! | its parent | `x-dynamo-parent-session-id`, `x-parent-session-id`, `x-claude-code-parent-agent-id`, `x-codex-parent-thread-id` | `nvext.session_context` |
//! | its end | `x-dynamo-session-final` | `nvext.session_context` |
//! | what caused it | `x-pointsman-input-trigger` | `nvext.session_context`, else the last message |
//! | pinned worker | `x-dynamo-worker-instance-id`, `x-worker-instance-id` | `nvext.decode_worker_id`, `nvext.backend_instance_id` |
//! | pinned prefill worker | `x-dynamo-prefill-instance-id` | `nvext.prefill_worker_id`, or the latter if it is one |
//! | pinned rank | `x-dynamo-dp-rank`, `x-dp-rank`, `x-data-parallel-rank`; 4294967295 is none | `nvext.dp_rank` |
//! | its rank | `x-dynamo-prefill-dp-rank`, the same | `nvext.prefill_dp_rank` |
//! | priorities | `x-dynamo-request-priority`, `x-dynamo-request-strict-priority` | `nvext.agent_hints` |
//! | policy class | `x-pointsman-policy-class`, `x-dynamo-meta-policy-class` | |
//! | due time | `x-pointsman-due-ms`, milliseconds from its arrival | `nvext.due_ms` |
//! | whether it waits | | `nvext.do_not_queue` |
//! | taints | `x-pointsman-required-taints`, with commas | `nvext.routing_constraints` |
//! | output length | | `nvext.agent_hints.osl` |
//! | adapter | | `lora_name`, else a `model` that is an adapter's name |
//! | cache namespace | `x-tenant-id` | `cache_salt`, `nvext.cache_salt` |
//!
//! The first that is there wins, headers before the body; required taints of both are added up. A
//! session id of more than 256 bytes counts as absent. A rank says nothing without a worker, and is
//! refused.
//!
//! The prompt itself is measured only: its tokens are [`crate::prompts`]' to find, and where nobody
//! knows them, so many bytes of its text count as one token, which is an estimate.

mod body;
mod headers;
mod pin;
mod prompt;
mod session;
mod value;
mod waiting;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use pointsman_core::hashing::Scope;
use pointsman_core::ids::{PartitionKey, Role};
use pointsman_core::request::{Constraints, InputTrigger, RouteRequest, Session};
use pointsman_core::router::Router;

use super::error::ApiError;
use crate::json::without_lone_surrogates;
use crate::prompts::Length;
use body::RequestBody;
use headers::Headers;

pub(super) use headers::request_id;
pub(super) use pin::Pin;
pub(super) use value::quoted;

/// The facts.
#[derive(Debug)]
pub(super) struct Facts {
    /// The model, if one is named.
    pub(super) model: Option<String>,
    /// The routing group, if one is named.
    pub(super) group: Option<String>,
    /// The worker that is to answer.
    pub(super) pin: Option<Pin>,
    /// The worker that is to compute the prompt, if another is to answer.
    pub(super) prefill_pin: Option<Pin>,
    /// The LoRA adapter, if one is named.
    pub(super) adapter: Option<String>,
    /// The cache namespace, if one is named.
    namespace: Option<String>,
    /// How long the prompt is.
    pub(super) length: Length,
    /// The body in a form that our parser reads, if it doesn't read the body itself. None for one
    /// that nothing was read from, too.
    pub(super) readable: Option<Bytes>,
    /// Whether the body was read.
    pub(super) understood: bool,
    session: Option<Session>,
    trigger: Option<InputTrigger>,
    constraints: Constraints,
    expected_output_tokens: Option<u32>,
    priority_jump: f64,
    strict_priority: u32,
    waiting: waiting::Waiting,
}

impl Facts {
    /// Reads them. When the body isn't `ours` to understand, one that can't be read names nothing.
    pub(super) fn read(headers: &HeaderMap, body: &[u8], ours: bool) -> Result<Self, ApiError> {
        let mut parsed = RequestBody::parse(body);
        let readable = if parsed.is_err() { without_lone_surrogates(body) } else { None };
        if let Some(readable) = &readable {
            parsed = RequestBody::parse(readable);
        }
        let understood = parsed.is_ok();
        let body = match parsed {
            Err(_) if !ours => RequestBody::default(),
            parsed => parsed?,
        };
        let headers = Headers::of(headers);
        let nvext = body.nvext()?;
        let hints = nvext.hints()?;
        let (pin, prefill_pin) = pin::read(&headers, &nvext)?;
        let measure = body.measure();
        let priority = match headers.number::<i32>("x-dynamo-request-priority")? {
            Some(priority) => Some(f64::from(priority)),
            None => hints.priority()?,
        };
        let strict = headers.number("x-dynamo-request-strict-priority")?;
        let strict_priority = match strict {
            Some(strict) => strict,
            None => hints.strict_priority()?.unwrap_or_default(),
        };
        let (mut required_taints, preferred_taints) = nvext.taints()?;
        required_taints.extend(headers.list("x-pointsman-required-taints")?);
        Ok(Self {
            model: body.model()?,
            group: headers.text("x-pointsman-routing-group")?.map(str::to_owned),
            constraints: Constraints {
                pinned: pin.map(|pin| pin.target),
                required_taints,
                preferred_taints,
                ..Constraints::default()
            },
            pin,
            prefill_pin,
            adapter: body.lora_name()?.filter(|name| !name.is_empty()).map(Cow::into_owned),
            namespace: namespace(&headers, &body, &nvext)?,
            length: measure.length(),
            understood,
            session: session::read(&headers, &body, &nvext)?,
            trigger: session::read_trigger(&headers, &nvext, &measure)?,
            expected_output_tokens: hints.output_tokens()?,
            // A request can't ask to be served later than it came.
            priority_jump: priority.unwrap_or_default().max(0.0),
            strict_priority,
            waiting: waiting::read(&headers, &nvext)?,
            readable: readable.map(Bytes::from),
        })
    }

    /// What the prompt's blocks are cached under.
    pub(super) fn scope(&self) -> Scope {
        Scope::new(self.adapter.as_deref(), self.namespace.as_deref())
    }

    /// Where a request for a model belongs: to the model, or to the one of which that is an adapter;
    /// then it is for that adapter from now on.
    pub(super) fn place(&mut self, router: &Router, model: &str) -> PartitionKey {
        let named = super::partition(model, self.group.as_deref());
        let mut roles = [Role::Aggregated, Role::Decode, Role::Prefill].into_iter();
        let of_role = |role| PartitionKey { role, ..named.clone() };
        if roles.clone().any(|role| router.partition(&of_role(role)).is_some()) {
            return named;
        }
        let group = &named.routing_group;
        let Some(base) = roles.find_map(|role| router.partition_of_adapter(model, group, role))
        else {
            return named;
        };
        self.adapter.get_or_insert_with(|| model.to_owned());
        PartitionKey { role: named.role, ..base }
    }

    /// The request of a partition, which came at this time of the router's clock; of its prompt it
    /// says nothing yet.
    pub(super) fn into_request(
        self,
        id: Arc<str>,
        partition: PartitionKey,
        arrived_at_ms: u64,
    ) -> RouteRequest {
        let mut request = RouteRequest::new(id, partition, 0);
        request.session = self.session;
        request.trigger = self.trigger;
        request.constraints = self.constraints;
        request.constraints.adapter = self.adapter.map(Arc::from);
        request.expected_output_tokens = self.expected_output_tokens;
        request.priority_jump = self.priority_jump;
        request.strict_priority = self.strict_priority;
        request.admission = self.waiting.of_arrival(arrived_at_ms);
        request
    }
}

/// The cache namespace.
fn namespace(
    headers: &Headers<'_>,
    body: &RequestBody<'_>,
    nvext: &body::NvExt<'_>,
) -> Result<Option<String>, ApiError> {
    let (salt, other) = (body.cache_salt()?, nvext.cache_salt()?);
    let given = [headers.text("x-tenant-id")?, salt.as_deref(), other.as_deref()];
    Ok(given.into_iter().flatten().find(|text| !text.is_empty()).map(str::to_owned))
}

#[cfg(test)]
mod tests;
