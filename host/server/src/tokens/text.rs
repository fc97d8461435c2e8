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

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

/// What no token id has.
const NOT_A_TOKEN: u32 = 1 << 31;

/// Chunks at most this long.
const MOST_BYTES: usize = 64;

/// Two odd numbers without a pattern in their bits.
const MIX: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xe703_7ed1_a0b4_28db];

/// A prompt's text, as far as it was looked at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    /// Numbers that stand for its tokens; what is left at the end has none.
    pub(super) tokens: Vec<u32>,
    /// Bytes of its canonical text.
    pub(super) bytes: usize,
}

/// Reads the text of a request's prompt: of its canonical form so many bytes at most, of which so
/// many make a token.
///
/// A field that can't be read counts as it stands; a body that can't be, too.
pub(super) fn read(body: &[u8], most_bytes: usize, bytes_per_token: u32) -> Text {
    let mut text = Canonical::new(most_bytes, bytes_per_token);
    text.tokens.reserve(body.len().min(most_bytes) / text.size);
    match serde_json::from_slice::<Body<'_>>(body) {
        Ok(body) => body.write(&mut text),
        Err(_) => text.push(body),
    }
    Text { tokens: text.tokens, bytes: text.bytes }
}

/// The number of a chunk.
fn pseudo_token(chunk: &[u8]) -> u32 {
    let hash = if chunk.len() <= 8 {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mixed(u64::from_le_bytes(word))
    } else {
        xxh3_64(chunk)
    };
    // The lower half of a good hash is one too.
    #[expect(clippy::cast_possible_truncation, reason = "half of it is enough")]
    let half = hash as u32;
    half | NOT_A_TOKEN
}

/// A hash of a few bytes: all of them bear on each bit.
fn mixed(word: u64) -> u64 {
    let [first, second] = MIX;
    let product = u128::from(word ^ first) * u128::from(second);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
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

/// Text up to a length, cut into chunks as it comes.
struct Canonical {
    tokens: Vec<u32>,
    bytes: usize,
    most: usize,
    /// Bytes in a chunk.
    size: usize,
    /// The chunk that isn't full yet.
    rest: [u8; MOST_BYTES],
    rests: usize,
}

impl Canonical {
    fn new(most: usize, bytes_per_token: u32) -> Self {
        let size = usize::try_from(bytes_per_token).unwrap_or(MOST_BYTES).clamp(1, MOST_BYTES);
        Self { tokens: Vec::new(), bytes: 0, most, size, rest: [0; MOST_BYTES], rests: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = self.most.saturating_sub(self.bytes);
        let mut bytes = &bytes[..bytes.len().min(room)];
        self.bytes += bytes.len();
        if self.rests > 0 {
            let missing = bytes.len().min(self.size - self.rests);
            self.rest[self.rests..self.rests + missing].copy_from_slice(&bytes[..missing]);
            self.rests += missing;
            bytes = &bytes[missing..];
            if self.rests < self.size {
                return;
            }
            self.tokens.push(pseudo_token(&self.rest[..self.size]));
        }
        let chunks = bytes.chunks_exact(self.size);
        let rest = chunks.remainder();
        if self.size == 4 {
            // Nearly always: as fast as memory is read.
            let (words, _) = bytes.as_chunks::<4>();
            self.tokens.extend(words.iter().map(|word| pseudo_token(word)));
        } else {
            self.tokens.extend(chunks.map(pseudo_token));
        }
        self.rest[..rest.len()].copy_from_slice(rest);
        self.rests = rest.len();
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
        if let Some(text) = plain(json) {
            return self.push(text.as_bytes());
        }
        let parts: Result<Vec<&RawValue>, _> = serde_json::from_str(json);
        let Ok(parts) = parts else { return self.push(json.as_bytes()) };
        for part in parts {
            let inner = serde_json::from_str::<Part<'_>>(part.get()).ok();
            let inner = inner.and_then(|part| part.text).unwrap_or(part);
            match plain(inner.get()) {
                Some(text) => self.push(text.as_bytes()),
                None => self.push(part.get().as_bytes()),
            }
        }
    }
}

/// A text of JSON, without a copy where it has no escapes; none if it is something else.
fn plain(json: &str) -> Option<Cow<'_, str>> {
    let within = json.strip_prefix('"')?.strip_suffix('"')?;
    if !within.as_bytes().contains(&b'\\') {
        return Some(Cow::Borrowed(within));
    }
    serde_json::from_str::<String>(json).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(body: &str) -> Vec<u32> {
        read(body.as_bytes(), 1 << 20, 4).tokens
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
        let read = |text: &[u8], most, bytes_per_token| {
            let Text { tokens, bytes } = read(text, most, bytes_per_token);
            (tokens.len(), bytes)
        };
        assert_eq!(read(long.as_bytes(), 100, 4), (25, 100));
        // No JSON: it counts as it stands.
        assert_eq!(read(&[b'x'; 100], 1_000, 0), (100, 100));
        assert_eq!(read(&[b'x'; 100], 1_000, 1_000), (1, 100));
        assert_eq!(read(&[b'x'; 11], 1_000, 4), (2, 11));
    }

    #[test]
    fn chunks_are_the_same_wherever_a_text_is_cut() {
        let whole: Vec<u8> = (0..=255).collect();
        for size in [1, 3, 4, 7, 8, 9, 16, 64] {
            let expected: Vec<u32> = whole.chunks_exact(size).map(pseudo_token).collect();
            for at in 0..whole.len() {
                for then in [at, at.midpoint(whole.len()), at + 1] {
                    let mut text = Canonical::new(1 << 20, size as u32);
                    text.push(&whole[..at]);
                    text.push(&whole[at..then]);
                    text.push(&whole[then..]);
                    assert_eq!(text.tokens, expected, "{size} {at} {then}");
                }
            }
        }
    }

    #[test]
    fn chunks_that_differ_a_little_differ_in_half_of_their_number() {
        for chunk in [&b"abcd"[..], b"the quick brown fox jumps"] {
            let number = pseudo_token(chunk);
            for bit in 0..chunk.len() * 8 {
                let mut other = chunk.to_vec();
                other[bit / 8] ^= 1 << (bit % 8);
                let differing = (number ^ pseudo_token(&other)).count_ones();
                assert!((4..=28).contains(&differing), "{bit}: {differing}");
            }
        }
    }
}
