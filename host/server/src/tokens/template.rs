//! A model's chat template: from a conversation to the text that the engine tokenises.
//!
//! Owns the template language as Hugging Face's `apply_chat_template` speaks it: Jinja with trimmed
//! blocks, `break` and `continue`, `tojson` as Python writes JSON, `raise_exception`,
//! `strftime_now`, Python's methods on texts and maps, and `{% generation %}` marks, which change
//! nothing. Loops, strings and output are bounded by fuel, since templates come with models: about
//! one unit for a step, one for each 64 bytes that are made. What a filter makes is measured before
//! it is made (`sizes`), and how deeply expressions and values are nested before they are compiled
//! or set (`shape`).
//!
//! That keeps mistakes from ending the process; it isn't proven to hold against a template that was
//! made to break it: values that are handed from macro to macro, or through long chains of filters,
//! are nested unmeasured. So a template must be the operator's, who trusts the model that it comes
//! with; one that comes with a request is never rendered here.
//!
//! It doesn't know where conversations come from; the time is given.

mod clock;
mod format;
mod json;
mod python;
mod shape;
mod sizes;

use std::fmt;
use std::io::{self, Write};

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};
use thiserror::Error;

pub(super) use clock::WallTime;
pub use format::ContentFormat;

/// What the template is called within its environment.
const NAME: &str = "chat_template";

/// What Hugging Face writes after the text that the model is to go on with, to find it again.
const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// What a template may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TemplateLimits {
    /// Fuel: about one for a step, one for each 64 bytes that are made on the way.
    pub(super) fuel: u64,
    /// The longest text that may come out, in bytes.
    pub(super) text_bytes: usize,
}

/// Why there is no text.
#[derive(Debug, Error)]
pub enum TemplateError {
    /// The template isn't one.
    #[error("the chat template can't be read: {0}; use the one that the engine uses")]
    Syntax(String),
    /// It is too long, or nested too deeply.
    #[error("the chat template is too much: {0}; use the one that the model comes with")]
    TooDeep(String),
    /// The template says no to the conversation, as it says it to the engine.
    #[error("the chat template refuses the conversation: {0}; the engine will refuse it too")]
    Refused(String),
    /// The text is longer than allowed.
    #[error("the prompt is longer than {most} bytes; raise the limit of the prompt's text")]
    TooLong {
        /// The limit.
        most: usize,
    },
    /// Too many steps, or too much text made on the way.
    #[error("the chat template takes more than {fuel} units of fuel; raise its limit")]
    TooMuch {
        /// The limit.
        fuel: u64,
    },
    /// Something else in it went wrong.
    #[error("the chat template failed: {0}; if the engine renders it, please report it")]
    Failed(String),
    /// The last message can't be gone on with.
    #[error("the final message can't be continued: {0}; leave continue_final_message out")]
    NotContinuable(&'static str),
}

/// What a template is rendered with.
#[derive(Debug)]
pub(super) struct Rendering {
    /// The conversation, as the template shall see it.
    pub(super) messages: Vec<Value>,
    /// Tools' descriptions, if any were given.
    pub(super) tools: Option<Value>,
    /// Documents, if any were given.
    pub(super) documents: Option<Value>,
    /// Whether the text ends with what a new answer begins with.
    pub(super) add_generation_prompt: bool,
    /// Whether the text ends within the last message, for the model to go on with it.
    pub(super) continue_final_message: bool,
    /// Further variables; they win over special tokens of the same name.
    pub(super) variables: Vec<(String, Value)>,
    /// What time it is.
    pub(super) now: WallTime,
}

/// A template, ready for use.
pub(super) struct Template {
    environment: Environment<'static>,
    special_tokens: Vec<(String, String)>,
    limits: TemplateLimits,
    format: ContentFormat,
    source: String,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template")
            .field("bytes", &self.source.len())
            .field("format", &self.format)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What `raise_exception` was called with.
#[derive(Debug, Error)]
#[error("{0}")]
struct Raised(String);

/// What stops a text that gets too long.
#[derive(Debug, Error)]
#[error("the text is too long")]
struct Full;

impl Template {
    /// Reads a template. The special tokens are variables in it, such as `bos_token`.
    pub(super) fn new(
        source: &str,
        special_tokens: Vec<(String, String)>,
        limits: TemplateLimits,
    ) -> Result<Self, TemplateError> {
        let read = shape::with_large_stack(|| Self::read(source, special_tokens, limits));
        read.map_err(|error| TemplateError::Failed(error.to_string()))?
    }

    fn read(
        source: &str,
        special_tokens: Vec<(String, String)>,
        limits: TemplateLimits,
    ) -> Result<Self, TemplateError> {
        let source = without_generation_marks(source);
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|error| TemplateError::Failed(words(&error)))?;
        let mut environment = Environment::new();
        environment.set_syntax(syntax.clone());
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(limits.fuel));
        environment.add_function("raise_exception", raise_exception);
        python::add_to(&mut environment, limits.text_bytes);
        sizes::add_to(&mut environment, limits.text_bytes);
        shape::add_to(&mut environment);
        let bounded = shape::bounded(&source, syntax.clone()).map_err(TemplateError::TooDeep)?;
        environment
            .add_template_owned(NAME, bounded)
            .map_err(|error| TemplateError::Syntax(words(&error)))?;
        let format = ContentFormat::of(&source, syntax);
        Ok(Self { environment, special_tokens, limits, format, source })
    }

    /// How the template takes a message's content, as vLLM finds it out.
    #[must_use]
    pub(super) fn format(&self) -> ContentFormat {
        self.format
    }

    /// Whether the template knows the role `developer`, as vLLM finds it out.
    #[must_use]
    pub(super) fn knows_developers(&self) -> bool {
        self.source.contains("\"developer\"") || self.source.contains("'developer'")
    }

    /// The text of a conversation.
    pub(super) fn render(&self, rendering: Rendering) -> Result<String, TemplateError> {
        let Rendering { mut messages, tools, documents, .. } = rendering;
        let last = match rendering.continue_final_message {
            true => Some(self.mark_end(&mut messages)?),
            false => None,
        };
        let now = rendering.now;
        let strftime = Value::from_function(move |format: &str| clock::strftime(format, now));
        let texts = self.special_tokens.iter();
        let context = texts
            .map(|(name, token)| (name.clone(), Value::from(token.as_str())))
            .chain(rendering.variables)
            .chain([
                ("strftime_now".to_owned(), strftime),
                ("messages".to_owned(), Value::from(messages)),
                ("tools".to_owned(), tools.unwrap_or(Value::from(()))),
                ("documents".to_owned(), documents.unwrap_or(Value::from(()))),
                ("add_generation_prompt".to_owned(), rendering.add_generation_prompt.into()),
            ]);
        let text = self.text(Value::from_pairs(context))?;
        match last {
            Some(last) => cut_at_tag(text, &last),
            None => Ok(text),
        }
    }

    fn text(&self, context: Value) -> Result<String, TemplateError> {
        let template = self.environment.get_template(NAME).map_err(|error| self.error(&error))?;
        let mut text = Bounded { bytes: Vec::new(), most: self.limits.text_bytes };
        template.render_captured_to(context, &mut text).map_err(|error| self.error(&error))?;
        String::from_utf8(text.bytes).map_err(|error| TemplateError::Failed(error.to_string()))
    }

    fn error(&self, error: &Error) -> TemplateError {
        if error.kind() == ErrorKind::OutOfFuel {
            return TemplateError::TooMuch { fuel: self.limits.fuel };
        }
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(cause) = source {
            if let Some(Raised(message)) = cause.downcast_ref() {
                return TemplateError::Refused(message.clone());
            }
            let full = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if full.is_some_and(|inner| inner.is::<Full>()) {
                return TemplateError::TooLong { most: self.limits.text_bytes };
            }
            if cause.downcast_ref::<Error>().is_some_and(|e| e.kind() == ErrorKind::OutOfFuel) {
                return TemplateError::TooMuch { fuel: self.limits.fuel };
            }
            source = cause.source();
        }
        TemplateError::Failed(words(error))
    }

    /// Puts the tag behind the last message's text; gives that text.
    fn mark_end(&self, messages: &mut [Value]) -> Result<String, TemplateError> {
        let missing = TemplateError::NotContinuable("it has no content");
        let Some(last) = messages.last_mut() else { return Err(missing) };
        let content = last.get_attr("content").unwrap_or_default();
        if content.is_undefined() || content.is_none() {
            return Err(missing);
        }
        if !self.source.contains("content") {
            return Err(TemplateError::NotContinuable("the template has no content"));
        }
        let tagged = |text: &str| Value::from(format!("{text}{CONTINUE_TAG}"));
        let (text, content) = if let Some(text) = content.as_str() {
            (text.to_owned(), tagged(text))
        } else {
            let mut parts: Vec<Value> = content.try_iter().map_err(|e| self.error(&e))?.collect();
            let has_text =
                |part: &&mut Value| part.get_attr("text").is_ok_and(|text| text.as_str().is_some());
            let Some(part) = parts.iter_mut().rev().find(has_text) else {
                return Err(TemplateError::NotContinuable("it has no text"));
            };
            let text = part.get_attr("text").unwrap_or_default();
            let text = text.as_str().unwrap_or_default().to_owned();
            *part = with(part, "text", tagged(&text));
            (text, Value::from(parts))
        };
        *last = with(last, "content", content);
        Ok(text)
    }
}

/// The same map with another value.
fn with(map: &Value, name: &str, value: Value) -> Value {
    let pairs = map.as_object().and_then(|map| map.try_iter_pairs()).into_iter().flatten();
    let others = pairs.filter(|(key, _)| key.as_str() != Some(name));
    Value::from_pairs(others.chain([(Value::from(name), value)]))
}

/// Cuts the text where the last message ends, as Hugging Face does.
fn cut_at_tag(mut text: String, last: &str) -> Result<String, TemplateError> {
    let lost = TemplateError::NotContinuable("the template leaves it out");
    if !text.contains(last.trim()) {
        return Err(lost);
    }
    let Some(at) = text.rfind(CONTINUE_TAG.trim_end()) else { return Err(lost) };
    let is_whole = text[at..].starts_with(CONTINUE_TAG);
    text.truncate(at);
    if !is_whole {
        text.truncate(text.trim_end().len());
    }
    Ok(text)
}

/// Puts blocks that only bound the scope of variables in the place of `generation` marks.
fn without_generation_marks(source: &str) -> String {
    let mut rest = source;
    let mut clean = String::with_capacity(source.len());
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        clean.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let inner = &tag[..end];
        let name = inner.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        let other = match name {
            "generation" => "with",
            "endgeneration" => "endwith",
            _ => continue,
        };
        clean.push_str(&inner.replacen(name, other, 1));
        rest = &tag[end..];
    }
    clean.push_str(rest);
    clean
}

/// An error's words, with the line that it stands for.
fn words(error: &Error) -> String {
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
    format!("{}{detail}{line}", error.kind())
}

fn raise_exception(message: &str) -> Result<Value, Error> {
    let raised = Raised(message.to_owned());
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(raised))
}

/// Text up to a length.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.most - self.bytes.len() {
            return Err(io::Error::other(Full));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
