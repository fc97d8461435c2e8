//! `/tokenize` and `/detokenize`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::engine::Engine;
use super::error::ApiError;
use super::prompt::{self, Prompt};
use super::request::{missing, model, parse};

#[derive(Deserialize)]
struct Asked {
    model: Option<String>,
    prompt: Option<String>,
    messages: Option<Value>,
    tokens: Option<Vec<u32>>,
    #[serde(default)]
    return_token_strs: bool,
}

/// The tokens of a text, keys in vLLM's order.
#[derive(Debug, Serialize)]
pub(super) struct Tokens {
    count: usize,
    max_model_len: u32,
    tokens: Vec<u32>,
    token_strs: Option<Vec<String>>,
}

/// The text of tokens.
#[derive(Debug, Serialize)]
pub(super) struct Text {
    prompt: String,
}

/// From a text or a chat to its tokens.
pub(super) fn tokenize(engine: &Engine, body: &[u8]) -> Result<Tokens, ApiError> {
    let asked: Asked = parse(body)?;
    model(asked.model, &engine.config)?;
    let Prompt { tokens } = match (&asked.prompt, &asked.messages) {
        (Some(text), _) => Prompt::from_text(text),
        (None, Some(messages)) => Prompt::from_messages(messages)?,
        (None, None) => return Err(missing(body, "prompt")),
    };
    let token_strs = asked
        .return_token_strs
        .then(|| tokens.iter().map(|token| prompt::detokenize(&[*token])).collect());
    Ok(Tokens {
        count: tokens.len(),
        max_model_len: engine.config.max_model_len,
        tokens,
        token_strs,
    })
}

/// From tokens back to their text.
pub(super) fn detokenize(engine: &Engine, body: &[u8]) -> Result<Text, ApiError> {
    let asked: Asked = parse(body)?;
    model(asked.model, &engine.config)?;
    let Prompt { tokens } = Prompt::from_ids(asked.tokens.ok_or_else(|| missing(body, "tokens"))?)?;
    Ok(Text { prompt: prompt::detokenize(&tokens) })
}
