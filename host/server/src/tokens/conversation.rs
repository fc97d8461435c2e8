//! A conversation as vLLM hands it to the chat template.
//!
//! Between the request's messages and the template stand vLLM's checks and reforms: parts joined
//! or kept, arguments of tool calls read from their text, fields put in an order of their own,
//! fields of no meaning left out. The template may write any of it, so the tokens hang on it; what
//! is done here follows vLLM 0.32, with the transformers (5.19) that it runs on.
//!
//! It doesn't know the template, but for the form in which it takes content.

use minijinja::Value;
use minijinja::value::ValueKind;
use serde::Deserialize;
use thiserror::Error;

use super::prompt::Chat;
use super::settings::TokenSettings;
use super::template::{ContentFormat, Rendering, Template, WallTime};

/// The line that Claude Code puts before its system prompt, and vLLM takes away.
const BILLING_HEADER: &str = "x-anthropic-billing-header";

/// The fields that parts of a content may have in vLLM; it hands on the others.
const KNOWN_PART_FIELDS: [&str; 18] = [
    "audio_embeds",
    "audio_url",
    "closed",
    "data",
    "file",
    "image_embeds",
    "image_pil",
    "image_url",
    "input_audio",
    "name",
    "prompt_cache_breakpoint",
    "refusal",
    "text",
    "thinking",
    "type",
    "uuid",
    "video_embeds",
    "video_url",
];

/// Why the conversation can't be handed on as the engine would.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConversationError {
    /// A picture, a sound or the like: what it becomes is the engine's secret.
    #[error("the conversation has media ({0}), whose tokens only the engine knows")]
    Media(String),
    /// Something that the engine refuses.
    #[error("{0}; the engine will refuse the request")]
    Refused(&'static str),
}

/// Makes a conversation ready for a template.
pub(super) fn rendering(
    chat: Chat,
    template: &Template,
    settings: &TokenSettings,
    now: WallTime,
) -> Result<Rendering, ConversationError> {
    if chat.continue_final_message && chat.add_generation_prompt {
        return Err(ConversationError::Refused(
            "continue_final_message and add_generation_prompt exclude each other",
        ));
    }
    let format = settings.content_format.unwrap_or(template.format());
    let mut turns = Vec::with_capacity(chat.messages.len());
    for message in &chat.messages {
        turns.push(Turn::read(message, format)?);
    }
    let has_developer = turns.iter().any(|turn| turn.role == "developer");
    if has_developer && !template.knows_developers() {
        turns = without_developers(turns);
    }
    let mut rendering = Rendering {
        messages: turns.into_iter().map(Turn::into_value).collect(),
        tools: tools(&chat, settings)?,
        documents: chat.documents.filter(|documents| !documents.is_none()),
        add_generation_prompt: chat.add_generation_prompt,
        continue_final_message: chat.continue_final_message,
        variables: Vec::new(),
        now,
    };
    let defaults = settings.template_defaults.iter();
    let defaults =
        defaults.map(|(name, value)| (name.clone(), Value::deserialize(value).unwrap_or_default()));
    let effort = chat.reasoning_effort.filter(|effort| !effort.is_none());
    // Who asks for some effort asks for thinking, unless the request says otherwise.
    let thinks = chat.variables.iter().all(|(name, _)| name != "enable_thinking");
    let thinks = effort.as_ref().filter(|_| thinks).map(|effort| effort.as_str() != Some("none"));
    let given = chat.variables.into_iter().filter(|(_, value)| !is_unset(value));
    let effort = effort.map(|effort| ("reasoning_effort".to_owned(), effort));
    let thinks = thinks.map(|thinks| ("enable_thinking".to_owned(), Value::from(thinks)));
    for (name, value) in defaults.chain(given).chain(effort).chain(thinks) {
        match name.as_str() {
            "chat_template" | "tokenize" => {
                return Err(ConversationError::Refused(
                    "chat_template_kwargs may not hold chat_template or tokenize",
                ));
            }
            "tools" => rendering.tools = Some(value),
            "documents" => rendering.documents = rendering.documents.or(Some(value)),
            // The request's own fields for these always have a value.
            "add_generation_prompt" | "continue_final_message" | "messages" => {}
            _ => rendering.variables.push((name, value)),
        }
    }
    Ok(rendering)
}

/// What counts as not given.
fn is_unset(value: &Value) -> bool {
    value.is_none() || value.as_str() == Some("auto")
}

/// The tools, with their fields as vLLM writes them.
fn tools(chat: &Chat, settings: &TokenSettings) -> Result<Option<Value>, ConversationError> {
    let Some(tools) = &chat.tools else { return Ok(None) };
    if chat.no_tool && settings.exclude_tools_when_none {
        return Ok(None);
    }
    let tools = tools.iter().map(tool).collect::<Result<Vec<Value>, _>>()?;
    Ok(Some(Value::from(tools)))
}

fn tool(tool: &Value) -> Result<Value, ConversationError> {
    let refused = ConversationError::Refused("a tool has no function");
    let function = field(tool, "function").ok_or(refused)?;
    let of_function = |name: &str| field(&function, name);
    let deferred = field(tool, "defer_loading");
    let or_none = |value: Option<Value>| value.unwrap_or(Value::from(()));
    let mut fields = vec![
        ("name", or_none(of_function("name"))),
        ("description", or_none(of_function("description"))),
        ("parameters", or_none(of_function("parameters"))),
    ];
    fields.extend(of_function("strict").map(|strict| ("strict", strict)));
    let inner = of_function("defer_loading").or_else(|| deferred.clone());
    fields.extend(inner.map(|deferred| ("defer_loading", deferred)));
    let kind = field(tool, "type").unwrap_or(Value::from("function"));
    let mut whole = vec![("type", kind), ("function", Value::from_pairs(fields))];
    whole.extend(deferred.map(|deferred| ("defer_loading", deferred)));
    Ok(Value::from_pairs(whole))
}

/// A field that is there and isn't null.
fn field(of: &Value, name: &str) -> Option<Value> {
    let value = of.as_object()?.get_value(&Value::from(name))?;
    (!value.is_none() && !value.is_undefined()).then_some(value)
}

fn text_field(of: &Value, name: &str) -> Option<String> {
    field(of, name)?.as_str().map(str::to_owned)
}

/// One message.
struct Turn {
    role: String,
    content: Content,
    others: Vec<(&'static str, Value)>,
}

enum Content {
    Text(String),
    Parts(Vec<Value>),
}

impl Content {
    /// The text of it, as vLLM joins it.
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => {
                let texts: Vec<String> =
                    parts.iter().filter_map(|part| text_field(part, "text")).collect();
                texts.join("\n")
            }
        }
    }
}

/// A part of a content.
enum Part {
    /// A text, with the fields of it that nobody knows.
    Text(String, Vec<(Value, Value)>),
    Tool(String),
}

impl Turn {
    fn read(message: &Value, format: ContentFormat) -> Result<Self, ConversationError> {
        let role = text_field(message, "role")
            .ok_or(ConversationError::Refused("a message has no role"))?;
        let mut parts = match field(message, "content") {
            None => Vec::new(),
            Some(content) => match content.as_str() {
                Some(text) => vec![Part::Text(text.to_owned(), Vec::new())],
                None => parts(&content)?,
            },
        };
        if role == "system" {
            parts = without_billing(parts);
        }
        let mut content = match format {
            ContentFormat::Text => Content::Text(joined(parts)),
            ContentFormat::Parts => Content::Parts(parts.into_iter().map(Part::value).collect()),
        };
        let mut others = Vec::new();
        match role.as_str() {
            "assistant" => {
                others.extend(tool_calls(message)?.map(|calls| ("tool_calls", calls)));
                let reasoning =
                    field(message, "reasoning").or_else(|| field(message, "reasoning_content"));
                if let Some(reasoning) = reasoning {
                    for name in ["reasoning", "reasoning_content"] {
                        others.push((name, reasoning.clone()));
                    }
                }
            }
            "tool" => {
                others.extend(field(message, "tool_call_id").map(|id| ("tool_call_id", id)));
                let all_text = matches!(&content, Content::Parts(parts)
                    if parts.iter().all(|part| text_field(part, "type").as_deref() == Some("text")));
                if all_text {
                    content = Content::Text(content.into_text());
                }
            }
            "developer" => {
                let tools = field(message, "tools").unwrap_or(Value::from(()));
                others.push(("tools", tools));
            }
            _ => {}
        }
        for name in ["name", "task"] {
            let value = field(message, name).filter(|value| value.kind() == ValueKind::String);
            others.extend(value.map(|value| (name, value)));
        }
        Ok(Self { role, content, others })
    }

    fn into_value(self) -> Value {
        let content = match self.content {
            Content::Text(text) => Value::from(text),
            Content::Parts(parts) => Value::from(parts),
        };
        let fields = [("role", Value::from(self.role)), ("content", content)];
        Value::from_pairs(fields.into_iter().chain(self.others))
    }
}

impl Part {
    fn value(self) -> Value {
        let (kind, name, text, others) = match self {
            Self::Text(text, others) => ("text", "text", text, others),
            Self::Tool(text) => ("tool_reference", "name", text, Vec::new()),
        };
        let fields = [("type", Value::from(kind)), (name, Value::from(text))];
        let fields = fields.map(|(name, value)| (Value::from(name), value));
        Value::from_pairs(fields.into_iter().chain(others))
    }

    fn text(self) -> String {
        match self {
            Self::Text(text, _) | Self::Tool(text) => text,
        }
    }
}

fn joined(parts: Vec<Part>) -> String {
    let texts: Vec<String> = parts.into_iter().map(Part::text).collect();
    texts.join("\n")
}

fn parts(content: &Value) -> Result<Vec<Part>, ConversationError> {
    if content.kind() != ValueKind::Seq {
        return Err(ConversationError::Refused("a content is neither a text nor a list"));
    }
    let items = content.try_iter();
    let items = items.map_err(|_| ConversationError::Refused("a content can't be read"))?;
    let mut parts = Vec::new();
    for item in items {
        if let Some(text) = item.as_str() {
            parts.push(Part::Text(text.to_owned(), Vec::new()));
            continue;
        }
        let kind = text_field(&item, "type").unwrap_or_default();
        let name = match kind.as_str() {
            "text" | "input_text" | "output_text" => "text",
            "refusal" => "refusal",
            "thinking" => "thinking",
            "tool_reference" => "name",
            _ => {
                return Err(ConversationError::Media(if kind.is_empty() {
                    "untyped".to_owned()
                } else {
                    kind
                }));
            }
        };
        match text_field(&item, name) {
            Some(text) if name == "name" => parts.push(Part::Tool(text)),
            Some(text) => {
                parts.push(Part::Text(text, others(&item, &KNOWN_PART_FIELDS).collect()));
            }
            None if matches!(kind.as_str(), "text" | "refusal") => {}
            None => return Err(ConversationError::Refused("a part of a content has no text")),
        }
    }
    Ok(parts)
}

fn without_billing(parts: Vec<Part>) -> Vec<Part> {
    let rest = |part: Part| match part {
        Part::Text(text, others) if text.starts_with(BILLING_HEADER) => {
            let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
            (!rest.is_empty()).then(|| Part::Text(rest.to_owned(), others))
        }
        other => Some(other),
    };
    parts.into_iter().filter_map(rest).collect()
}

/// The calls, their arguments read from their text. None if there are none.
fn tool_calls(message: &Value) -> Result<Option<Value>, ConversationError> {
    let Some(calls) = field(message, "tool_calls") else { return Ok(None) };
    let refused = || ConversationError::Refused("a tool call isn't an object with a function");
    let mut read = Vec::new();
    for call in calls.try_iter().map_err(|_| refused())? {
        let function = field(&call, "function").ok_or_else(refused)?;
        let arguments = field(&function, "arguments").map_or_else(empty, |given| arguments(&given));
        let function = ordered(&function, &["arguments", "name"], ("arguments", arguments));
        read.push(ordered(&call, &["id", "function", "type"], ("function", function)));
    }
    Ok((!read.is_empty()).then(|| Value::from(read)))
}

/// The fields of a map that aren't among the known ones.
fn others<'k>(of: &Value, known: &'k [&str]) -> impl Iterator<Item = (Value, Value)> + use<'k> {
    let pairs = of.as_object().and_then(|of| of.try_iter_pairs());
    let pairs: Vec<(Value, Value)> = pairs.into_iter().flatten().collect();
    let is_known = |key: &Value| key.as_str().is_some_and(|key| known.contains(&key));
    pairs.into_iter().filter(move |(key, _)| !is_known(key))
}

/// A map with its known fields first, in their order, one of them with another value.
fn ordered(of: &Value, known: &[&str], other: (&str, Value)) -> Value {
    let mut fields = Vec::new();
    for name in known {
        let value = match &other {
            (replaced, value) if replaced == name => Some(value.clone()),
            _ => of.as_object().and_then(|of| of.get_value(&Value::from(*name))),
        };
        fields.extend(value.map(|value| (Value::from(*name), value)));
    }
    fields.extend(others(of, known));
    Value::from_pairs(fields)
}

fn empty() -> Value {
    Value::from_pairs(std::iter::empty::<(Value, Value)>())
}

/// Arguments as a map; whatever isn't one counts as an empty one.
fn arguments(given: &Value) -> Value {
    let read = given.as_str().and_then(|text| serde_json::from_str(text).ok());
    let value: Value = read.unwrap_or_else(|| given.clone());
    if value.kind() == ValueKind::Map { value } else { empty() }
}

/// Makes developers' words the system's, all of them at the beginning, as vLLM does for templates
/// that don't know developers.
fn without_developers(turns: Vec<Turn>) -> Vec<Turn> {
    let (mut system, mut others, mut scattered) = (Vec::new(), Vec::new(), false);
    for (at, mut turn) in turns.into_iter().enumerate() {
        if turn.role == "developer" {
            "system".clone_into(&mut turn.role);
            turn.others.retain(|(name, _)| *name != "tools");
        }
        if turn.role == "system" {
            scattered |= at > 0;
            system.push(turn);
        } else {
            others.push(turn);
        }
    }
    if !scattered {
        system.extend(others);
        return system;
    }
    let texts = system.into_iter().map(|turn| turn.content.into_text());
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    let content = Content::Text(texts.join("\n\n"));
    let first = Turn { role: "system".to_owned(), content, others: Vec::new() };
    std::iter::once(first).chain(others).collect()
}
