//! From text to tokens: the one place where a prompt becomes what the engine computes on.
//!
//! The tokenizer is made up. It splits text into words with the blanks before them, and words into pieces of at most three
//! bytes; a piece's id is its bytes read as a number, counted on from all shorter pieces. So it needs no vocabulary, can be
//! undone without loss, gives a token for about two letters (a real one: four), and two texts that begin alike get tokens
//! that begin alike. The chat template is that of the recorded model. The prefix cache cuts
//! [`Prompt::tokens`] into blocks.

use serde_json::Value;

use super::error::ApiError;

/// The longest piece of a word that is one token, in bytes.
const PIECE: usize = 3;

/// The first id of pieces of one, two and three bytes, and the first id that is no token at all.
const FIRST: [u32; PIECE + 1] = [0, 1 << 8, (1 << 8) + (1 << 16), VOCABULARY];

/// How many tokens there are.
pub(super) const VOCABULARY: u32 = (1 << 8) + (1 << 16) + (1 << 24);

/// The tokens of one sequence before its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) tokens: Vec<u32>,
}

impl Prompt {
    /// Plain text.
    pub(super) fn from_text(text: &str) -> Self {
        let mut tokens = Vec::with_capacity(text.len() / 2);
        for word in words(text.as_bytes()) {
            tokens.extend(word.chunks(PIECE).map(id));
        }
        Self { tokens }
    }

    /// Ids the client made itself.
    pub(super) fn from_ids(tokens: Vec<u32>) -> Result<Self, ApiError> {
        match tokens.iter().find(|token| **token >= VOCABULARY) {
            Some(token) => {
                Err(ApiError::bad_request(format!("Token id {token} is out of vocabulary"), None))
            }
            None => Ok(Self { tokens }),
        }
    }

    /// The messages of a chat, through the template.
    pub(super) fn from_messages(messages: &Value) -> Result<Self, ApiError> {
        let Value::Array(messages) = messages else {
            return Err(ApiError::validation(
                "list_type",
                "body.messages",
                &format!("'msg': 'Input should be a valid list', 'input': '{}'", brief(messages)),
            ));
        };
        let mut text = String::new();
        for (index, message) in messages.iter().enumerate() {
            let Some(role) = message.get("role").and_then(Value::as_str) else {
                let place = format!("body.messages.{index}.role");
                let detail = format!("'msg': 'Field required', 'input': '{}'", brief(message));
                return Err(ApiError::validation("missing", &place, &detail));
            };
            text.push_str("<|im_start|>");
            text.push_str(role);
            text.push('\n');
            push_content(&mut text, message.get("content").unwrap_or(&Value::Null));
            text.push_str("<|im_end|>\n");
        }
        text.push_str("<|im_start|>assistant\n");
        Ok(Self::from_text(&text))
    }
}

/// The text of a message: a string, or the text parts of a list.
fn push_content(text: &mut String, content: &Value) {
    match content {
        Value::String(content) => text.push_str(content),
        Value::Array(parts) => {
            for part in parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)) {
                text.push_str(part);
            }
        }
        _ => {}
    }
}

/// Undoes the tokenizer. Replacement characters stand for bytes that are no text by themselves.
pub(super) fn detokenize(tokens: &[u32]) -> String {
    let mut bytes = Vec::with_capacity(tokens.len() * PIECE);
    for token in tokens {
        for length in 1..=PIECE {
            if (FIRST[length - 1]..FIRST[length]).contains(token) {
                bytes.extend_from_slice(&(token - FIRST[length - 1]).to_be_bytes()[4 - length..]);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The id of a piece of one to three bytes.
fn id(piece: &[u8]) -> u32 {
    let number = piece.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    FIRST[piece.len() - 1] + number
}

/// Splits at each blank that follows something else, so that a word keeps the blanks before it.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.chunk_by(|left, right| left.is_ascii_whitespace() || !right.is_ascii_whitespace())
}

/// A value as a validation error shows it: containers by their size only.
pub(super) fn brief(value: &Value) -> String {
    match value {
        Value::Object(map) => format!("<dict of {} items>", map.len()),
        Value::Array(list) => format!("<list of {} items>", list.len()),
        Value::String(text) => text.chars().take(64).collect(),
        other => other.to_string(),
    }
}
