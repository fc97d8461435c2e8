//! Prompts as chunks of text, where nobody knows their tokens.
//!
//! A prompt's text is written in one canonical way, tools first and then turn by turn, and cut into
//! chunks of a few bytes, each of which stands for one token: a number made from the chunk's hash.
//! Equal beginnings of conversations have equal beginnings of such numbers, so that blocks of them
//! can be hashed and chained like tokens'. What they are good for is **prediction**: a prompt that
//! begins like one that was sent to a worker finds that worker, if the index is fed with decisions.
//!
//! They are **never** an engine's: its blocks have other borders and other hashes, so matching
//! them with an engine's events finds nothing. All have their highest bit set, which no
//! vocabulary's ids have.

use pointsman_core::hashing::{Scope, block_hash};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What no token id has.
const NOT_A_TOKEN: u32 = 1 << 31;

/// Chunks at most this long.
const MOST_BYTES: usize = 64;

/// The canonical text of a request's prompt.
///
/// A field that can't be read counts as it stands; a body that can't be, too.
pub(super) fn canonical(body: &[u8], most_bytes: usize) -> Vec<u8> {
    let mut text = Canonical { bytes: Vec::new(), most: most_bytes };
    match serde_json::from_slice::<Body<'_>>(body) {
        Ok(body) => body.write(&mut text),
        Err(_) => text.push(body),
    }
    text.bytes
}

/// Numbers that stand for a text's tokens; what is left at the end has none.
pub(super) fn pseudo_tokens(text: &[u8], bytes_per_token: u32) -> Vec<u32> {
    let size = usize::try_from(bytes_per_token).unwrap_or(MOST_BYTES).clamp(1, MOST_BYTES);
    text.chunks_exact(size).map(pseudo_token).collect()
}

fn pseudo_token(chunk: &[u8]) -> u32 {
    let mut words = [0; MOST_BYTES / 4];
    for (word, bytes) in words.iter_mut().zip(chunk.chunks(4)) {
        let mut whole = [0; 4];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u32::from_le_bytes(whole);
    }
    let used = &words[..chunk.len().div_ceil(4)];
    let hash = block_hash(used, &[], Scope::default());
    // The lower half of a good hash is one too.
    #[expect(clippy::cast_possible_truncation, reason = "half of it is enough")]
    let half = hash as u32;
    half | NOT_A_TOKEN
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    messages: Option<Vec<Turn<'a>>>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Turn<'a> {
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_call_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

impl Body<'_> {
    fn write(&self, text: &mut Canonical) {
        text.field(1, self.tools);
        text.field(2, self.instructions);
        for turn in self.messages.iter().flatten() {
            text.field(3, turn.role);
            text.field(4, turn.name);
            text.field(5, turn.content);
            text.field(6, turn.tool_calls);
            text.field(7, turn.tool_call_id);
        }
        text.field(8, self.prompt);
        text.field(8, self.input);
    }
}

/// Text up to a length.
struct Canonical {
    bytes: Vec<u8>,
    most: usize,
}

impl Canonical {
    fn push(&mut self, bytes: &[u8]) {
        let room = self.most.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Writes a field with a mark before it that no text has: a prompt of one field is never the
    /// same as one of two.
    fn field(&mut self, mark: u8, value: Option<&RawValue>) {
        if let Some(value) = value {
            self.push(&[mark]);
            self.value(value);
        }
    }

    /// A text as it is, the texts of a list's parts one after another, anything else as JSON.
    fn value(&mut self, value: &RawValue) {
        let json = value.get();
        if let Ok(text) = serde_json::from_str::<String>(json) {
            return self.push(text.as_bytes());
        }
        let parts: Result<Vec<&RawValue>, _> = serde_json::from_str(json);
        let Ok(parts) = parts else { return self.push(json.as_bytes()) };
        for part in parts {
            let inner = serde_json::from_str::<Part<'_>>(part.get()).ok();
            let inner = inner.and_then(|part| part.text).unwrap_or(part);
            match serde_json::from_str::<String>(inner.get()) {
                Ok(text) => self.push(text.as_bytes()),
                Err(_) => self.push(part.get().as_bytes()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(body: &str) -> Vec<u32> {
        pseudo_tokens(&canonical(body.as_bytes(), 1 << 20), 4)
    }

    #[test]
    fn a_conversation_that_goes_on_begins_as_it_began() {
        let first = tokens(
            r#"{"model":"m","messages":[{"role":"system","content":"Be brief, and be kind."},
            {"role":"user","content":"What is the capital of France?"}]}"#,
        );
        let then = tokens(
            r#"{"temperature":1,"messages":[{"content":"Be brief, and be kind.","role":"system"},
            {"role":"user","content":[{"type":"text","text":"What is the capital "},
            {"type":"text","text":"of France?"}]},
            {"role":"assistant","content":"Paris."},{"role":"user","content":"And of Spain?"}]}"#,
        );
        assert!(first.len() > 15);
        assert_eq!(then[..first.len()], first);
        assert!(then.len() > first.len());
        assert!(then.iter().all(|token| token & NOT_A_TOKEN != 0));
    }

    #[test]
    fn other_tools_roles_and_borders_are_other_texts() {
        let bodies = [
            r#"{"messages":[{"role":"user","content":"a long enough text"}]}"#,
            r#"{"messages":[{"role":"tool","content":"a long enough text"}]}"#,
            r#"{"messages":[{"role":"user","content":"a long "},{"role":"user","content":"enough text"}]}"#,
            r#"{"messages":[{"role":"user","content":"a long enough text"}],"tools":[{"type":"function"}]}"#,
            r#"{"prompt":"user: a long enough text"}"#,
        ];
        for (at, one) in bodies.iter().enumerate() {
            for other in &bodies[..at] {
                assert_ne!(tokens(one), tokens(other));
            }
        }
    }

    #[test]
    fn whatever_comes_has_some_text_and_never_more_than_allowed() {
        for body in ["", "{", "[]", r#"{"messages":7}"#, r#"{"prompt":[1,2,3]}"#, "\u{0}\u{1}"] {
            let _ = tokens(body);
        }
        let long = format!(r#"{{"prompt":"{}"}}"#, "é".repeat(1000));
        assert_eq!(canonical(long.as_bytes(), 100).len(), 100);
        assert_eq!(pseudo_tokens(&[b'x'; 100], 0).len(), 100);
        assert_eq!(pseudo_tokens(&[b'x'; 100], 1000).len(), 1);
        assert_eq!(pseudo_tokens(&[b'x'; 11], 4).len(), 2);
    }
}
