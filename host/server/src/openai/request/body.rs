//! Facts from the body.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use pointsman_core::ids::WorkerId;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::prompt::{Measure, Measured};
use super::value::{bad, object, quoted, read};
use crate::openai::error::ApiError;

const WORKER_ID: &str = "a worker's id: a whole number of at least 0, or its digits in a text";
const RANK: &str = "a data-parallel rank: a whole number of at least 0";
const TEXT: &str = "a text";

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
    lora_name: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_salt: Option<&'a RawValue>,
    #[serde(borrow)]
    nvext: Option<&'a RawValue>,
}

impl<'a> RequestBody<'a> {
    /// Reads it. In lists and other values no fields are looked for.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, ApiError> {
        let trimmed = body.trim_ascii_start();
        match trimmed.first() {
            Some(b'{') => serde_json::from_slice(body).map_err(|error| {
                let message =
                    format!("the body is not JSON as it should be: {error}; send one JSON object");
                ApiError::bad_body(message)
            }),
            Some(_) => {
                // Enough for every character that is quoted.
                let piece = trimmed.get(..1_024).unwrap_or(trimmed);
                let piece = quoted(&String::from_utf8_lossy(piece));
                Err(ApiError::bad_body(format!("the body is {piece}; send a JSON object")))
            }
            None => Err(ApiError::bad_body("the body is empty; send a JSON object".to_owned())),
        }
    }

    pub(super) fn model(&self) -> Result<Option<String>, ApiError> {
        let model: Option<String> = read(self.model, "model", "a model's name as a text")?;
        Ok(model.filter(|model| !model.is_empty()))
    }

    /// A session's id as vLLM takes it.
    pub(super) fn session_id(&self) -> Result<Option<Cow<'a, str>>, ApiError> {
        engines_text(self.session_id, "session_id")
    }

    /// The adapter that is asked for by a name of its own.
    pub(super) fn lora_name(&self) -> Result<Option<Cow<'a, str>>, ApiError> {
        engines_text(self.lora_name, "lora_name")
    }

    /// What the engine keeps the prompt's blocks apart by.
    pub(super) fn cache_salt(&self) -> Result<Option<Cow<'a, str>>, ApiError> {
        engines_text(self.cache_salt, "cache_salt")
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
        object(self.nvext, "nvext")
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
    cache_salt: Option<&'a RawValue>,
    #[serde(borrow)]
    decode_worker_id: Option<&'a RawValue>,
    #[serde(borrow)]
    do_not_queue: Option<&'a RawValue>,
    #[serde(borrow)]
    dp_rank: Option<&'a RawValue>,
    #[serde(borrow)]
    due_ms: Option<&'a RawValue>,
    #[serde(borrow)]
    routing_constraints: Option<&'a RawValue>,
    #[serde(borrow)]
    session_context: Option<&'a RawValue>,
}

impl<'a> NvExt<'a> {
    /// The worker that the request is pinned to, with the field that says so.
    pub(super) fn worker(&self) -> Result<Option<(&'static str, WorkerId)>, ApiError> {
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

    /// Whether it is to fail where it would have to wait.
    pub(super) fn do_not_queue(&self) -> Result<Option<bool>, ApiError> {
        read(self.do_not_queue, "nvext.do_not_queue", "true or false")
    }

    /// Within how many milliseconds it has to be decided.
    pub(super) fn due_ms(&self) -> Result<Option<u32>, ApiError> {
        let wanted = "a number of milliseconds: a whole number from 0 to 4294967295";
        read(self.due_ms, "nvext.due_ms", wanted)
    }

    pub(super) fn taints(&self) -> Result<(BTreeSet<String>, BTreeMap<String, f64>), ApiError> {
        let taints: Taints<'_> = object(self.routing_constraints, "nvext.routing_constraints")?;
        let place = "nvext.routing_constraints.required_taints";
        let required: Option<_> = read(taints.required_taints, place, "a list of texts")?;
        let place = "nvext.routing_constraints.preferred_taints";
        // JSON has no numbers that aren't finite.
        let preferred: Option<_> = read(taints.preferred_taints, place, "an object of numbers")?;
        Ok((required.unwrap_or_default(), preferred.unwrap_or_default()))
    }

    /// What the prompt's blocks are kept apart by.
    pub(super) fn cache_salt(&self) -> Result<Option<Cow<'a, str>>, ApiError> {
        text(self.cache_salt, "nvext.cache_salt")
    }

    pub(super) fn hints(&self) -> Result<Hints<'a>, ApiError> {
        object(self.agent_hints, "nvext.agent_hints")
    }

    pub(super) fn session(&self) -> Result<SessionContext<'a>, ApiError> {
        object(self.session_context, "nvext.session_context")
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Taints<'a> {
    #[serde(borrow)]
    required_taints: Option<&'a RawValue>,
    #[serde(borrow)]
    preferred_taints: Option<&'a RawValue>,
}

/// The session as the selection API of Dynamo's router takes it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SessionContext<'a> {
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    parent_session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    session_final: Option<&'a RawValue>,
    #[serde(borrow)]
    input_trigger: Option<&'a RawValue>,
}

impl<'a> SessionContext<'a> {
    pub(super) fn session_id(&self) -> Result<Option<Cow<'a, str>>, ApiError> {
        text(self.session_id, "nvext.session_context.session_id")
    }

    pub(super) fn parent_session_id(&self) -> Result<Option<Cow<'a, str>>, ApiError> {
        text(self.parent_session_id, "nvext.session_context.parent_session_id")
    }

    pub(super) fn session_final(&self) -> Result<Option<bool>, ApiError> {
        read(self.session_final, "nvext.session_context.session_final", "true or false")
    }

    pub(super) fn input_trigger(&self) -> Result<Option<(&'static str, Cow<'a, str>)>, ApiError> {
        let place = "nvext.session_context.input_trigger";
        Ok(text(self.input_trigger, place)?.map(|word| (place, word)))
    }
}

/// A text that the engine reads too: any other value is the engine's to refuse.
fn engines_text<'a>(
    raw: Option<&'a RawValue>,
    place: &'static str,
) -> Result<Option<Cow<'a, str>>, ApiError> {
    text(raw.filter(|raw| raw.get().starts_with('"')), place)
}

fn text<'a>(
    raw: Option<&'a RawValue>,
    place: &'static str,
) -> Result<Option<Cow<'a, str>>, ApiError> {
    let text: Option<Text<'a>> = read(raw, place, TEXT)?;
    Ok(text.map(|text| text.0))
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
