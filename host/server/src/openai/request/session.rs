//! The conversation that a request belongs to.

use std::borrow::Cow;

use pointsman_core::request::{InputTrigger, MAX_SESSION_ID_BYTES, Session};

use super::body::{NvExt, RequestBody, bad_trigger};
use super::headers::Headers;
use super::prompt::Measure;
use super::value::bad;
use crate::openai::error::ApiError;

/// Where ids stand, the most particular first: an agent within a session of Claude Code talks in a
/// conversation of its own.
const IDS: [&str; 5] = [
    "x-dynamo-session-id",
    "x-session-id",
    "x-claude-code-agent-id",
    "x-claude-code-session-id",
    "thread-id",
];

const PARENT_IDS: [&str; 4] = [
    "x-dynamo-parent-session-id",
    "x-parent-session-id",
    "x-claude-code-parent-agent-id",
    "x-codex-parent-thread-id",
];

pub(super) fn read(
    headers: &Headers<'_>,
    body: &RequestBody<'_>,
    nvext: &NvExt<'_>,
) -> Result<Option<Session>, ApiError> {
    let context = nvext.session()?;
    let is_final = match headers.text("x-dynamo-session-final")? {
        Some(word) => Some(truth("x-dynamo-session-final", word)?),
        None => context.session_final()?,
    };
    let named = headers.first_text(&IDS)?;
    let id = match named {
        Some((_, id)) => Some(Cow::Borrowed(id)),
        None => match context.session_id()? {
            Some(id) => Some(id),
            None => body.session_id()?,
        },
    };
    let parent = match headers.first_text(&PARENT_IDS)? {
        Some((_, parent)) => Some(Cow::Borrowed(parent)),
        // An agent without a parent agent was started by the session itself.
        None if named.is_some_and(|(name, _)| name == "x-claude-code-agent-id") => {
            headers.text("x-claude-code-session-id")?.map(Cow::Borrowed)
        }
        None => context.parent_session_id()?,
    };
    let Some(id) = id.filter(|id| fits(id)) else { return Ok(None) };
    Ok(Some(Session {
        id: id.into(),
        parent_id: parent.filter(|parent| fits(parent)).map(Into::into),
        is_final,
        evict: None,
    }))
}

/// What made the client send the request: what it says, else what its last message shows.
pub(super) fn read_trigger(
    headers: &Headers<'_>,
    nvext: &NvExt<'_>,
    measure: &Measure,
) -> Result<Option<InputTrigger>, ApiError> {
    if let Some(word) = headers.text("x-pointsman-input-trigger")? {
        return trigger("x-pointsman-input-trigger", word).map(Some);
    }
    match nvext.session()?.input_trigger()? {
        Some((place, word)) => trigger(place, &word).map(Some),
        None => Ok(measure.trigger()),
    }
}

fn fits(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_SESSION_ID_BYTES
}

fn trigger(place: &'static str, word: &str) -> Result<InputTrigger, ApiError> {
    match word {
        "user_message" => Ok(InputTrigger::UserMessage),
        "tool_result" => Ok(InputTrigger::ToolResult),
        "other" => Ok(InputTrigger::Other),
        _ => Err(bad_trigger(place, word)),
    }
}

fn truth(place: &'static str, word: &str) -> Result<bool, ApiError> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(bad(place, word, "true or false")),
    }
}
