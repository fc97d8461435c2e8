//! Reads an engine's own count of prompt tokens, cached tokens and output tokens as its answer goes by.
//!
//! Looks for three keys in the bytes, however chunks cut them, and keeps none of them. Within a JSON
//! text every quote has a backslash before it, so that `"cached_tokens":` stands nowhere but where
//! it is a key. A token of that name may be a key as well, in the legacy form of `logprobs`: its
//! value is never a whole number without a sign, as counts are.
//!
//! It isn't for answers that are compressed. What is null or left out counts as not said.

use std::sync::LazyLock;

use memchr::memmem;

use crate::telemetry::Usage;

/// The keys, how they end, and the length of the longest.
const KEYS: [(Field, &[u8]); 3] = [
    (Field::Prompt, b"\"prompt_tokens\""),
    (Field::Cached, b"\"cached_tokens\""),
    (Field::Completion, b"\"completion_tokens\""),
];
const END: &[u8] = b"_tokens\"";
const LONGEST: usize = 19;

/// Made once: to make one takes longer than to look through most chunks.
static FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(END));

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct Reader {
    usage: Usage,
    /// The last bytes of the chunk before, where a key may have begun.
    tail: [u8; LONGEST],
    tail_length: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Field {
    #[default]
    Prompt,
    Cached,
    Completion,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// No key has come.
    #[default]
    Seeking,
    /// After a key, before its colon.
    Key(Field),
    /// After the colon, before the value.
    Colon(Field),
    /// Within a number; none if it is too large to be one.
    Number(Field, Option<u64>),
}

impl Reader {
    /// A chunk goes by.
    pub(super) fn see(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        if let State::Seeking = self.state
            && let Some((field, at)) = self.across(chunk)
        {
            self.state = State::Key(field);
            rest = &chunk[at..];
        }
        loop {
            rest = match self.state {
                State::Seeking => match next_key(rest, 0) {
                    Some((field, after)) => {
                        self.state = State::Key(field);
                        &rest[after..]
                    }
                    None => break,
                },
                _ => self.value(rest),
            };
            if rest.is_empty() {
                break;
            }
        }
        self.keep(chunk);
    }

    /// Nothing more comes. A count that isn't ended isn't one.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// A key that began in the chunk before, and where in this one it ends.
    fn across(&self, chunk: &[u8]) -> Option<(Field, usize)> {
        let mut joint = [0; 2 * LONGEST];
        let (before, head) = (self.tail_length, chunk.len().min(LONGEST - 1));
        joint.get_mut(..before)?.copy_from_slice(&self.tail[..before]);
        joint.get_mut(before..before + head)?.copy_from_slice(&chunk[..head]);
        // One that ends before this chunk has been seen.
        let (field, after) = next_key(&joint[..before + head], before)?;
        Some((field, after - before))
    }

    /// Remembers the end of a chunk.
    fn keep(&mut self, chunk: &[u8]) {
        const MOST: usize = LONGEST - 1;
        let fresh = chunk.len().min(MOST);
        let stays = self.tail_length.min(MOST - fresh);
        self.tail.copy_within(self.tail_length - stays..self.tail_length, 0);
        self.tail[stays..stays + fresh].copy_from_slice(&chunk[chunk.len() - fresh..]);
        self.tail_length = stays + fresh;
    }

    /// Reads on after a key; gives what comes after its value, or all that is left of the chunk.
    fn value<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        for (at, &byte) in bytes.iter().enumerate() {
            self.state = match (self.state, byte) {
                (State::Key(_) | State::Colon(_), byte) if byte.is_ascii_whitespace() => continue,
                (State::Key(field), b':') => State::Colon(field),
                (State::Colon(field), b'0'..=b'9') => {
                    State::Number(field, Some(u64::from(byte - b'0')))
                }
                (State::Number(field, number), b'0'..=b'9') => {
                    let digit = u64::from(byte - b'0');
                    let number =
                        number.and_then(|number| number.checked_mul(10)?.checked_add(digit));
                    State::Number(field, number)
                }
                (State::Number(field, number), b',' | b'}' | b' ' | b'\t' | b'\r' | b'\n') => {
                    self.note(field, number);
                    State::Seeking
                }
                _ => State::Seeking,
            };
            if let State::Seeking = self.state {
                return &bytes[at..];
            }
        }
        &[]
    }

    fn note(&mut self, field: Field, number: Option<u64>) {
        let Some(number) = number else { return };
        match field {
            Field::Prompt => self.usage.prompt_tokens = Some(number),
            Field::Cached => self.usage.cached_tokens = Some(number),
            Field::Completion => self.usage.completion_tokens = Some(number),
        }
    }
}

/// The first key that ends past `seen`, and where it ends.
fn next_key(bytes: &[u8], seen: usize) -> Option<(Field, usize)> {
    let ends = FINDER.find_iter(bytes).map(|at| at + END.len());
    ends.filter(|&after| after > seen).find_map(|after| {
        let (field, _) = KEYS.iter().find(|(_, key)| bytes[..after].ends_with(key))?;
        Some((*field, after))
    })
}

#[cfg(test)]
mod tests;
