//! Tokens from an engine: vLLM's `POST /tokenize`.
//!
//! Owns what is asked and how the answer is read. Who sends it, and to which worker, is the
//! caller's business: it hands in a [`Tokenize`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use thiserror::Error;

use super::prompt::Kind;
use super::settings::TokenSettings;

/// The path that is asked.
pub const PATH: &str = "/tokenize";

/// An answer on its way.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, RemoteError>> + Send + 'a>>;

/// Sends a question to an engine of the model.
///
/// It is called once for a prompt, from the request's task, and dropped when the time is up. The
/// body is JSON for [`PATH`]; the answer is the response's body if its status is 200, and
/// [`RemoteError::Status`] otherwise. It should read no more of an answer than
/// [`most_answer_bytes`] says.
pub trait Tokenize: Send + Sync + fmt::Debug {
    /// Sends it.
    fn tokenize(&self, body: Vec<u8>) -> Answer<'_>;
}

/// Why an engine gave no tokens.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// It can't be asked this.
    #[error("/tokenize can't be asked for such a prompt; set source to tokenizer or text")]
    NoQuestion,
    /// It said something else than 200.
    #[error("/tokenize answered {0}; check that the engine has it and serves the model")]
    Status(u16),
    /// It couldn't be reached, or broke off.
    #[error("/tokenize can't be reached: {0}; check the worker")]
    Unreachable(String),
    /// It took too long.
    #[error("/tokenize took longer than allowed; raise the time limit or set source to tokenizer")]
    TimedOut,
    /// The answer isn't one.
    #[error("/tokenize's answer can't be read: {0}; check the engine's version")]
    BadAnswer(String),
}

/// The fields of a request that make its prompt.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
    #[serde(borrow)]
    add_generation_prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    continue_final_message: Option<&'a RawValue>,
    #[serde(borrow)]
    add_special_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    chat_template: Option<&'a RawValue>,
    #[serde(borrow)]
    chat_template_kwargs: Option<&'a RawValue>,
    #[serde(borrow)]
    documents: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_effort: Option<&'a RawValue>,
    #[serde(borrow)]
    truncate_prompt_tokens: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Tokens {
    count: u64,
    tokens: Arc<[u32]>,
}

/// The question for a request's first prompt, and how many prompts the request has.
pub(super) fn question(
    kind: Kind,
    body: &[u8],
    settings: &TokenSettings,
) -> Result<(Vec<u8>, usize), RemoteError> {
    let body: Body<'_> = serde_json::from_slice(body).map_err(|_| RemoteError::NoQuestion)?;
    if given(body.truncate_prompt_tokens).is_some() {
        // The engine cuts prompts, but not here.
        return Err(RemoteError::NoQuestion);
    }
    let mut fields = vec![("model", body.model), ("add_special_tokens", body.add_special_tokens)];
    let (mut texts, mut variables) = (Vec::new(), None);
    match kind {
        Kind::Other => return Err(RemoteError::NoQuestion),
        Kind::Completion | Kind::Embeddings if kind == Kind::Completion || body.input.is_some() => {
            let prompt = if kind == Kind::Completion { body.prompt } else { body.input };
            texts = prompts(prompt.ok_or(RemoteError::NoQuestion)?)?;
            fields.push(("prompt", texts.first().copied()));
        }
        Kind::Chat | Kind::Completion | Kind::Embeddings => {
            let messages = given(body.messages).ok_or(RemoteError::NoQuestion)?;
            let is_none = body.tool_choice.is_some_and(|choice| choice.get() == "\"none\"");
            let hidden = is_none && settings.exclude_tools_when_none;
            fields.extend([
                ("messages", Some(messages)),
                ("tools", body.tools.filter(|_| !hidden)),
                ("add_generation_prompt", body.add_generation_prompt),
                ("continue_final_message", body.continue_final_message),
                ("chat_template", body.chat_template),
            ]);
            variables = template_variables(&body);
        }
    }
    let variables = variables.map(|variables| Json::Object(variables).to_string());
    let mut question = String::from("{");
    let known = fields.iter().filter_map(|(name, value)| Some((*name, given(*value)?.get())));
    let all = known.chain(variables.as_deref().map(|json| ("chat_template_kwargs", json)));
    for (at, (name, value)) in all.enumerate() {
        let comma = if at > 0 { "," } else { "" };
        question += &format!("{comma}\"{name}\":{value}");
    }
    question.push('}');
    Ok((question.into_bytes(), texts.len().max(1)))
}

/// A field that isn't null.
fn given(value: Option<&RawValue>) -> Option<&RawValue> {
    value.filter(|value| value.get() != "null")
}

/// The texts of a prompt.
fn prompts(prompt: &RawValue) -> Result<Vec<&RawValue>, RemoteError> {
    if prompt.get().starts_with('"') {
        return Ok(vec![prompt]);
    }
    let texts: Vec<&RawValue> =
        serde_json::from_str(prompt.get()).map_err(|_| RemoteError::NoQuestion)?;
    let all_texts = texts.iter().all(|text| text.get().starts_with('"'));
    if all_texts && !texts.is_empty() { Ok(texts) } else { Err(RemoteError::NoQuestion) }
}

/// Variables of the template, with those that have fields of their own in a chat request and none
/// in a question.
fn template_variables(body: &Body<'_>) -> Option<Map<String, Json>> {
    let read = |value: &RawValue| serde_json::from_str::<Json>(value.get()).ok();
    let mut variables = match given(body.chat_template_kwargs).and_then(read) {
        Some(Json::Object(variables)) => variables,
        _ => Map::new(),
    };
    if let Some(effort) = given(body.reasoning_effort).and_then(read) {
        let thinks = effort != "none";
        variables.entry("enable_thinking").or_insert(Json::Bool(thinks));
        variables.insert("reasoning_effort".to_owned(), effort);
    }
    if let Some(documents) = given(body.documents).and_then(read) {
        variables.insert("documents".to_owned(), documents);
    }
    (!variables.is_empty()).then_some(variables)
}

/// The most bytes that an answer to such a question can have.
#[must_use]
pub fn most_answer_bytes(question: &[u8]) -> usize {
    // A token has at least one byte of text in all but the oddest vocabularies, and an id at most
    // ten digits, a comma and a space; templates add some of their own.
    question.len().saturating_mul(12).saturating_add(1 << 20)
}

/// The tokens in an answer.
pub(super) fn answer(body: &[u8]) -> Result<Arc<[u32]>, RemoteError> {
    let read = serde_json::from_slice(body);
    let Tokens { count, tokens } = read.map_err(|e| RemoteError::BadAnswer(e.to_string()))?;
    if count != tokens.len() as u64 {
        let problem = format!("it counts {count} tokens and has {}", tokens.len());
        return Err(RemoteError::BadAnswer(problem));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(kind: Kind, body: &str, settings: &TokenSettings) -> Result<(String, usize), String> {
        let asked = question(kind, body.as_bytes(), settings).map_err(|error| error.to_string())?;
        Ok((String::from_utf8(asked.0).expect("it is JSON"), asked.1))
    }

    #[test]
    fn a_question_has_what_makes_the_prompt_and_nothing_else() {
        let settings = TokenSettings { exclude_tools_when_none: true, ..TokenSettings::default() };
        let chat = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}],
            "tools":[{"type":"function"}],"temperature":0,"add_generation_prompt":false,
            "continue_final_message":null,"reasoning_effort":"low","documents":[{"text":"d"}],
            "chat_template_kwargs":{"x":[1,2.0]}}"#;
        assert_eq!(
            ask(Kind::Chat, chat, &settings).expect("it can be asked").0,
            r#"{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"type":"function"}],"add_generation_prompt":false,"chat_template_kwargs":{"documents":[{"text":"d"}],"enable_thinking":true,"reasoning_effort":"low","x":[1,2.0]}}"#,
        );
        let none = r#"{"messages":[],"tools":[{}],"tool_choice":"none"}"#;
        assert_eq!(ask(Kind::Chat, none, &settings), Ok((r#"{"messages":[]}"#.to_owned(), 1)));
        let completion = r#"{"model":"m","prompt":["a\n","b"],"add_special_tokens":false}"#;
        let expected = r#"{"model":"m","add_special_tokens":false,"prompt":"a\n"}"#;
        let asked = ask(Kind::Completion, completion, &settings);
        assert_eq!(asked, Ok((expected.to_owned(), 2)));
        for (kind, body) in [
            (Kind::Chat, "{}"),
            (Kind::Completion, "{}"),
            (Kind::Completion, r#"{"prompt":[1,2]}"#),
            (Kind::Completion, r#"{"prompt":[]}"#),
            (Kind::Completion, r#"{"prompt":"a","truncate_prompt_tokens":3}"#),
            (Kind::Other, r#"{"prompt":"a"}"#),
            (Kind::Chat, "["),
        ] {
            assert!(ask(kind, body, &settings).is_err(), "{body}");
        }
    }

    #[test]
    fn an_answer_is_taken_only_if_it_is_whole() {
        let read =
            answer(br#"{"count":3,"max_model_len":1024,"tokens":[3,87,322],"token_strs":null}"#);
        assert_eq!(read.expect("it is one")[..], [3, 87, 322]);
        for bad in [
            &br#"{"count":2,"max_model_len":1024,"tokens":[3,87,322]}"#[..],
            br#"{"count":1,"tokens":[-1]}"#,
            br#"{"count":1,"tokens":[4294967296]}"#,
            br#"{"error":{"message":"no"}}"#,
            b"",
        ] {
            assert!(matches!(answer(bad), Err(RemoteError::BadAnswer(_))));
        }
    }
}
