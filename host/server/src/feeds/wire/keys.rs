//! What sets blocks apart besides their tokens: adapter, cache salt, media, embeddings.
//!
//! Owns the reading of vLLM's `extra_keys`, a list for each block without names in it, and of the
//! fields that say the same by name. What we don't know counts as one more medium, so that a block
//! that has it never passes for one that hasn't.

use std::fmt::Write as _;

use pointsman_core::hashing;

use super::Malformed;
use super::event::{text, unexpected};
use crate::feeds::msgpack::{Reader, Value};

/// What sets an event's blocks apart.
#[derive(Clone, Debug, Default)]
pub struct Keys<'a> {
    /// The adapter's name.
    pub adapter: Option<&'a str>,
    /// Its number in the engine, where the engine gives one: it may be all that is known.
    pub(super) adapter_id: Option<Reader<'a>>,
    /// The cache salt. Only the first block of a prompt has it.
    pub namespace: Option<&'a str>,
    /// Hashes of the media in each block; empty if no block has any.
    pub media: Vec<Vec<u64>>,
}

impl PartialEq for Keys<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.adapter == other.adapter
            && self.adapter_is_unnamed() == other.adapter_is_unnamed()
            && self.namespace == other.namespace
            && self.media == other.media
    }
}

impl<'a> Keys<'a> {
    /// The same blocks without an adapter's number.
    #[must_use]
    pub fn new(adapter: Option<&'a str>, namespace: Option<&'a str>, media: Vec<Vec<u64>>) -> Self {
        Self { adapter, adapter_id: None, namespace, media }
    }

    /// Whether the blocks are an adapter's whose name we can't tell. Older engines say a number
    /// only, which means nothing outside of them.
    #[must_use]
    pub fn adapter_is_unnamed(&self) -> bool {
        self.adapter.is_none() && self.adapter_id.is_some()
    }

    /// Completes what the event says by name with its lists of keys.
    pub(super) fn read(
        lists: Option<Reader<'a>>,
        mut known: Self,
        blocks: usize,
        at_start: bool,
    ) -> Result<Self, Malformed> {
        let Some(mut lists) = lists else { return Ok(known) };
        let at = lists.place();
        let length = lists.array("a list for each block")?;
        // None at all say as much as an empty one for each.
        if length == 0 {
            return Ok(known);
        }
        if length as usize != blocks {
            return Err(unexpected(at, "a list for each block", Value::Array(length)));
        }
        for block in 0..blocks {
            let mut keys = lists.skip()?;
            let at = keys.place();
            let count = match keys.value("a block's keys")? {
                Value::Nil => continue,
                Value::Array(count) => count,
                other => return Err(unexpected(at, "a block's keys, or nil", other)),
            };
            for _ in 0..count {
                let key = keys.skip()?;
                if let Some(medium) = known.take(key, at_start && block == 0)? {
                    // Most prompts have none: no list is made for them.
                    known.media.resize_with(blocks, Vec::new);
                    if let Some(media) = known.media.get_mut(block) {
                        media.push(medium);
                    }
                }
            }
        }
        Ok(known)
    }

    /// Takes one key in, and returns its hash if it is a medium, or as good as one.
    fn take(&mut self, raw: Reader<'a>, first: bool) -> Result<Option<u64>, Malformed> {
        let mut key = raw;
        Ok(match key.value("a key")? {
            Value::Nil => None,
            Value::Text(_) => {
                let name = text(raw)?;
                if self.adapter_is_unnamed() {
                    self.adapter = Some(name);
                    None
                } else if self.adapter == Some(name) {
                    None
                } else {
                    self.salt(name, first)
                }
            }
            Value::Bytes(digest) => Some(hash_of(digest)),
            Value::Array(length) => self.take_tuple(raw, key, length, first)?,
            // The adapter's number: its name says the same.
            Value::Unsigned(_) if self.adapter.is_some() => None,
            _ => Some(opaque(raw)),
        })
    }

    fn take_tuple(
        &mut self,
        raw: Reader<'a>,
        mut key: Reader<'a>,
        length: u32,
        first: bool,
    ) -> Result<Option<u64>, Malformed> {
        if length < 2 {
            return Ok(Some(opaque(raw)));
        }
        let (name, second) = (key.skip()?, key.skip()?);
        let Ok(name) = text(name) else { return Ok(Some(opaque(raw))) };
        let mut value = second;
        Ok(match (name, value.value("a key's value")?, length) {
            // [identifier, offset]
            (identifier, Value::Unsigned(_) | Value::Negative(_), 2) => {
                Some(hashing::media_hash(identifier))
            }
            ("lora", Value::Text(_), _) => {
                self.adapter = self.adapter.or(Some(text(second)?));
                None
            }
            ("mm", Value::Text(_), _) => Some(hashing::media_hash(text(second)?)),
            ("cache_salt", Value::Text(_), 2) => self.salt(text(second)?, first),
            ("prompt_embeds", Value::Bytes(digest), 2) => Some(hash_of(digest)),
            _ => Some(opaque(raw)),
        })
    }

    fn salt(&mut self, salt: &'a str, first: bool) -> Option<u64> {
        if first && self.namespace.is_none_or(|known| known == salt) {
            self.namespace = Some(salt);
            None
        } else {
            Some(hashing::media_hash(salt))
        }
    }
}

/// The hash of what we don't know.
fn opaque(mut raw: Reader<'_>) -> u64 {
    hash_of(raw.rest())
}

/// The hash of a digest: of one of 32 bytes, its first 8.
fn hash_of(bytes: &[u8]) -> u64 {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string can't fail.
        let _ = write!(digits, "{byte:02x}");
    }
    hashing::media_hash(&digits)
}
