//! Facts from the body.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::prompt::{Measure, Measured};
use super::value::{bad, read};
use crate::openai::error::ApiError;

const WORKER_ID: &str = "a worker's id: a whole number of at least 0";
const RANK: &str = "a data-parallel rank: a whole number of at least 0";
const TAINTS: &str =
    "an object of required_taints, a list of texts, and preferred_taints, an object of numbers";

/// The few fields that routing looks at; everything else is skipped.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RequestBody<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    messages: Option<Measured>,
    prompt: Option<Measured>,
    input: Option<Measured>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    nvext: Option<&'a RawValue>,
}

impl<'a> RequestBody<'a> {
    pub(super) fn parse(body: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(body)
    }

    pub(super) fn model(&self) -> Result<Option<String>, ApiError> {
        let model: Option<String> = read(self.model, "model", "a model's name as a text")?;
        Ok(model.filter(|model| !model.is_empty()))
    }

    /// A session's id as vLLM takes it.
    pub(super) fn session_id(&self) -> Result<Option<Cow<'a, str>>, ApiError> {
        // A number is an engine's to refuse.
        let text = self.session_id.filter(|raw| raw.get().starts_with('"'));
        let id: Option<Text<'a>> = read(text, "session_id", "a text")?;
        Ok(id.map(|id| id.0))
    }

    /// What of it becomes the prompt.
    pub(super) fn measure(&self) -> Measure {
        let mut whole = Measure::default();
        for part in [&self.messages, &self.prompt, &self.input].into_iter().flatten() {
            whole.add(&part.0);
        }
        // Chat templates put the tools' descriptions before the conversation, nearly as they are.
        whole.text_bytes += self.tools.map_or(0, |tools| tools.get().len() as u64);
        whole
    }

    pub(super) fn nvext(&self) -> Result<NvExt<'a>, ApiError> {
        Ok(read(self.nvext, "nvext", "an object")?.unwrap_or_default())
    }
}

/// A text, without a copy where it has no escapes.
#[derive(Debug, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The extension that users of Dynamo's router know. Fields that routing doesn't use are skipped:
/// prefill targets have no meaning while one worker does both.
#[derive(Debug, Default, Deserialize)]
pub(super) struct NvExt<'a> {
    #[serde(borrow)]
    agent_hints: Option<&'a RawValue>,
    #[serde(borrow)]
    backend_instance_id: Option<&'a RawValue>,
    #[serde(borrow)]
    decode_worker_id: Option<&'a RawValue>,
    #[serde(borrow)]
    dp_rank: Option<&'a RawValue>,
    #[serde(borrow)]
    routing_constraints: Option<&'a RawValue>,
    #[serde(borrow)]
    session_context: Option<&'a RawValue>,
}

impl<'a> NvExt<'a> {
    /// The worker that the request is pinned to, with the field that says so.
    pub(super) fn worker(&self) -> Result<Option<(&'static str, u64)>, ApiError> {
        let fields = [
            ("nvext.decode_worker_id", self.decode_worker_id),
            ("nvext.backend_instance_id", self.backend_instance_id),
        ];
        for (field, raw) in fields {
            if let Some(id) = read(raw, field, WORKER_ID)? {
                return Ok(Some((field, id)));
            }
        }
        Ok(None)
    }

    pub(super) fn rank(&self) -> Result<Option<(&'static str, u32)>, ApiError> {
        let rank = read(self.dp_rank, "nvext.dp_rank", RANK)?;
        Ok(rank.map(|rank| ("nvext.dp_rank", rank)))
    }

    pub(super) fn taints(&self) -> Result<(BTreeSet<String>, BTreeMap<String, f64>), ApiError> {
        let taints: Option<Taints> =
            read(self.routing_constraints, "nvext.routing_constraints", TAINTS)?;
        // JSON has no numbers that aren't finite.
        let Taints { required_taints, preferred_taints } = taints.unwrap_or_default();
        Ok((required_taints.unwrap_or_default(), preferred_taints.unwrap_or_default()))
    }

    pub(super) fn hints(&self) -> Result<Hints<'a>, ApiError> {
        Ok(read(self.agent_hints, "nvext.agent_hints", "an object")?.unwrap_or_default())
    }

    pub(super) fn session(&self) -> Result<SessionContext<'a>, ApiError> {
        let place = "nvext.session_context";
        let wanted = "an object of session_id, parent_session_id, session_final and input_trigger";
        Ok(read(self.session_context, place, wanted)?.unwrap_or_default())
    }
}

#[derive(Debug, Default, Deserialize)]
struct Taints {
    required_taints: Option<BTreeSet<String>>,
    preferred_taints: Option<BTreeMap<String, f64>>,
}

/// The session as the selection API of Dynamo's router takes it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SessionContext<'a> {
    #[serde(borrow)]
    pub(super) session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) parent_session_id: Option<Cow<'a, str>>,
    pub(super) session_final: Option<bool>,
    #[serde(borrow)]
    pub(super) input_trigger: Option<Cow<'a, str>>,
}

/// What an agent says of its request.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Hints<'a> {
    #[serde(borrow)]
    priority: Option<&'a RawValue>,
    #[serde(borrow)]
    latency_sensitivity: Option<&'a RawValue>,
    #[serde(borrow)]
    strict_priority: Option<&'a RawValue>,
    #[serde(borrow)]
    osl: Option<&'a RawValue>,
}

impl Hints<'_> {
    /// Seconds to jump ahead by; the older name of the field is second.
    pub(super) fn priority(&self) -> Result<Option<f64>, ApiError> {
        let wanted = "a whole number from -2147483648 to 2147483647";
        if let Some(priority) = read::<i32>(self.priority, "nvext.agent_hints.priority", wanted)? {
            return Ok(Some(f64::from(priority)));
        }
        read(self.latency_sensitivity, "nvext.agent_hints.latency_sensitivity", "a number")
    }

    pub(super) fn strict_priority(&self) -> Result<Option<u32>, ApiError> {
        let wanted = "a whole number from 0 to 4294967295";
        read(self.strict_priority, "nvext.agent_hints.strict_priority", wanted)
    }

    pub(super) fn output_tokens(&self) -> Result<Option<u32>, ApiError> {
        let place = "nvext.agent_hints.osl";
        let tokens = read(self.osl, place, "a number of tokens: a whole number of at least 0")?;
        Ok(tokens)
    }
}

/// Refuses a trigger that isn't one.
pub(super) fn bad_trigger(place: &'static str, value: &str) -> ApiError {
    bad(place, value, "user_message, tool_result or other")
}
