//! What is asked: a request to be selected for, read whole from its body and headers.
//!
//! Owns the fields of `/select` and `/select_and_reserve`. All that is wrong with a body is said in one
//! answer. What the router has no use for is taken all the same, if it is what other routers take, and
//! named as ignored.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use pointsman_core::queue::is_class_name;
use pointsman_core::request::{InputTrigger, RouteRequest, Session};
use serde_json::{Value, json};
use uuid::Uuid;

use super::prompt::{self, Input, Need, switch};
use super::reservations;
use crate::config::time_within;
use crate::described;
use crate::json::values::{self, Read, show};
use crate::json::{Fields, Problems};
use crate::rest::{RestError, clipped};

/// The model of requests that name none, as of workers that name none.
const DEFAULT_MODEL: &str = "default";

/// Leases: shorter, a pause of the network costs one; beyond a day, none is meant.
const LEASES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(86_400);

/// Headers that name a policy class, the first that is there.
const CLASS_HEADERS: [&str; 2] = ["x-pointsman-policy-class", "x-dynamo-meta-policy-class"];

/// What weighs in other routers' built-in policy, and is the configuration's alone here.
const NOT_HEEDED: [&str; 4] = [
    "overlap_score_credit",
    "prefill_load_scale",
    "shared_cache_multiplier",
    "overlap_score_weight",
];

/// What is to be done with the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It is told.
    Select,
    /// It is booked.
    Reserve,
}

/// A request that is to be selected for.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    /// The request, without its prompt.
    pub(super) request: RouteRequest,
    pub(super) input: Input,
    /// By this it can be booked, or is.
    pub(super) selection_id: Option<Arc<str>>,
    /// It waits for nobody, and nothing comes of it.
    pub(super) advisory: bool,
    /// The decision is to be told whole.
    pub(super) receipt: bool,
    /// For how long its reservation is kept without a word; none is as long as usual.
    pub(super) lease: Option<Duration>,
    /// What it says that isn't heeded.
    pub(super) ignored: Vec<String>,
}

impl Ask {
    /// Reads one that came at this time of the router's clock. A class that a header names goes before its
    /// own.
    pub(super) fn read(
        body: &Value,
        class: Option<&Arc<str>>,
        purpose: Purpose,
        now_ms: u64,
    ) -> Result<Self, RestError> {
        let mut ask = Self::of(body, purpose, now_ms).map_err(|problems| told(&problems))?;
        if let Some(class) = class {
            ask.request.admission.policy_class = Some(class.clone());
        }
        Ok(ask)
    }

    fn of(body: &Value, purpose: Purpose, now_ms: u64) -> Result<Self, Problems> {
        let mut fields = Fields::of(body)?;
        let (mut request, input) = request(&mut fields, Need::Caches);
        let selection_id = fields.optional("selection_id", reservations::id).flatten();
        let mut ignored = Vec::new();
        session(&mut fields, &mut request, &mut ignored);
        described::take(&mut fields, &mut request);
        overrides(&mut fields, &mut request, &mut ignored);
        let due_ms = fields.optional("due_ms", values::count).flatten();
        request.admission.arrived_at_ms = Some(now_ms);
        request.admission.due_at_ms = due_ms.map(|due| now_ms.saturating_add(u64::from(due)));
        request.admission.do_not_queue =
            fields.optional("do_not_queue", switch).flatten().unwrap_or_default();
        let advisory = fields.optional("advisory", switch).flatten().unwrap_or_default();
        let lease = match purpose {
            Purpose::Select => {
                fields.forbidden("lease", "is for what is booked; say it when you reserve");
                None
            }
            Purpose::Reserve => {
                if advisory {
                    let words = "is true; what is advisory isn't booked: ask /select";
                    fields.problem("advisory", words);
                }
                fields.optional("lease", lease).flatten()
            }
        };
        let receipt = fields.optional("receipt", switch).flatten().unwrap_or_default();
        fields.finish()?;
        let selection_id = selection_id.map(Arc::<str>::from);
        let selection_id = match purpose {
            Purpose::Reserve => Some(selection_id.unwrap_or_else(new_id)),
            Purpose::Select => selection_id,
        };
        request.request_id = selection_id.clone().unwrap_or_else(new_id);
        Ok(Self { request, input, selection_id, advisory, receipt, lease, ignored })
    }
}

/// An id that nobody has had.
fn new_id() -> Arc<str> {
    Uuid::new_v4().to_string().into()
}

/// The problems of a body, as they are answered.
pub(super) fn told(problems: &Problems) -> RestError {
    RestError::bad_request(format!("the request has {problems}; see the details"))
        .with_details(json!(problems))
}

/// A request with its place and what is given of its prompt.
pub(super) fn request(fields: &mut Fields<'_>, need: Need) -> (RouteRequest, Input) {
    let model = fields.optional_of(["model_name", "model"], values::name).flatten();
    let model = model.unwrap_or_else(|| DEFAULT_MODEL.to_owned());
    let partition = described::partition(fields, Some(model));
    let input = prompt::read(fields, need);
    let mut request = RouteRequest::new("selection", partition, 0);
    request.constraints.adapter = input.adapter.clone();
    (request, input)
}

/// What a request has to say about the router's settings.
pub(super) fn overrides(
    fields: &mut Fields<'_>,
    request: &mut RouteRequest,
    ignored: &mut Vec<String>,
) {
    fields.nested("router_config_override", |fields| {
        let temperature = fields.optional("router_temperature", values::at_least_zero).flatten();
        request.router_temperature = temperature.or(request.router_temperature);
        request.assume_kv_reuse = fields.optional("assume_kv_reuse", switch).flatten();
        request.track_prefill_tokens = fields.optional("track_prefill_tokens", switch).flatten();
        for name in NOT_HEEDED {
            if fields.optional(name, values::at_least_zero).flatten().is_some() {
                ignored.push(format!("router_config_override.{name}"));
            }
        }
        Some(())
    });
}

fn session(fields: &mut Fields<'_>, request: &mut RouteRequest, ignored: &mut Vec<String>) {
    let plain = fields.optional("session_id", described::session_id).flatten();
    let context = fields.nested("session_context", |fields| {
        let id = fields.required("session_id", described::session_id);
        let parent_id = fields.optional("parent_session_id", described::session_id).flatten();
        let is_final = fields.optional("session_final", switch).flatten();
        let trigger = fields.optional("input_trigger", trigger).flatten();
        let headers = fields.optional("agent_headers", |value| {
            value
                .as_object()
                .map(|_| ())
                .ok_or_else(|| format!("is {}; expected an object", show(value)))
        });
        Some((id?, parent_id, is_final, trigger, headers.flatten().is_some()))
    });
    let session = |id: String, parent_id: Option<String>, is_final| {
        let parent_id = parent_id.filter(|id| !id.is_empty()).map(Arc::from);
        let session = Session { id: id.into(), parent_id, is_final, evict: None };
        (!session.id.is_empty()).then_some(session)
    };
    match context {
        Some((id, parent_id, is_final, trigger, has_headers)) => {
            request.session = session(id, parent_id, is_final);
            request.trigger = trigger;
            if has_headers {
                ignored.push("session_context.agent_headers".to_owned());
            }
        }
        None => request.session = plain.and_then(|id| session(id, None, None)),
    }
}

fn trigger(value: &Value) -> Read<InputTrigger> {
    match value.as_str() {
        Some("user_message") => Ok(InputTrigger::UserMessage),
        Some("tool_result") => Ok(InputTrigger::ToolResult),
        Some("other") => Ok(InputTrigger::Other),
        _ => Err(format!("is {}; known: user_message, tool_result, other", show(value))),
    }
}

/// How long a reservation is kept without a word.
pub(super) fn lease(value: &Value) -> Read<Duration> {
    let expected = || format!("is {}; expected a time with its unit, as in \"30s\"", show(value));
    let text = value.as_str().ok_or_else(expected)?;
    time_within(text, LEASES).map_err(|wrong| format!("is {}; {wrong}", show(value)))
}

/// The policy class that the headers name.
pub(super) fn class_of(headers: &HeaderMap) -> Result<Option<Arc<str>>, RestError> {
    for name in CLASS_HEADERS {
        let Some(value) = headers.get(name) else { continue };
        let text = String::from_utf8_lossy(value.as_bytes());
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        if !is_class_name(text) {
            return Err(RestError::bad_request(format!(
                "{name} is {:?}; send the name of a policy class: letters, digits, `_`, `.` and `-`",
                clipped(text)
            )));
        }
        return Ok(Some(text.into()));
    }
    Ok(None)
}
