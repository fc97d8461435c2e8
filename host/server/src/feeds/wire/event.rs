//! One event: its fields, whichever way they are written.
//!
//! Owns the names and the order of the fields. Both ways of writing them end in the same table of
//! unread values, from which the event is made; what isn't in the table is ignored, and nil is as
//! good as absent.

use super::keys::Keys;
use super::{MOST_BLOCKS, MOST_TOKENS, Malformed};
use crate::feeds::msgpack::{Reader, Unreadable, Value};

// Places in the table.
const HASHES: usize = 0;
const PARENT: usize = 1;
const TOKENS: usize = 2;
const BLOCK_SIZE: usize = 3;
const LORA_ID: usize = 4;
const MEDIUM: usize = 5;
const LORA_NAME: usize = 6;
const EXTRA_KEYS: usize = 7;
const GROUP: usize = 8;
const KIND: usize = 9;
const LOCALITY: usize = 10;
const CACHE_SALT: usize = 11;

/// The fields that we read, at their places in the table.
const NAMES: [&str; 12] = [
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "locality",
    "cache_salt",
];

/// Where the elements of an array go, after the tag. Those behind these are ignored: the versions
/// that have more fields write maps.
const STORED_ORDER: &[usize] =
    &[HASHES, PARENT, TOKENS, BLOCK_SIZE, LORA_ID, MEDIUM, LORA_NAME, EXTRA_KEYS, GROUP, KIND];
const REMOVED_ORDER: &[usize] = &[HASHES, MEDIUM, GROUP];

/// What the events of a hybrid model's cache group are good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Groups {
    /// The engine doesn't say.
    #[default]
    Unsaid,
    /// Every block of a prompt is in it.
    Whole,
    /// It holds a part only: a window, a state.
    Partial,
}

impl Groups {
    fn of_kind(kind: &str) -> Self {
        match kind {
            "full_attention" | "mla_attention" | "sink_full_attention" => Self::Whole,
            "unknown" | "" => Self::Unsaid,
            _ => Self::Partial,
        }
    }
}

/// Blocks that an engine has stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored<'a> {
    /// What it calls them.
    pub hashes: Vec<u64>,
    /// What it calls the block before; none at the beginning of a prompt.
    pub parent: Option<u64>,
    /// Their tokens; of a page of token pairs, the first of each.
    pub tokens: Vec<u32>,
    /// Tokens in a block.
    pub block_size: u32,
    /// What sets these blocks apart, besides their tokens.
    pub keys: Keys<'a>,
    /// The kind of memory.
    pub medium: Option<&'a str>,
    /// The hybrid model's cache group.
    pub group: Option<u32>,
    /// What that group holds.
    pub holds: Groups,
    /// Whether they are in another machine's memory.
    pub remote: bool,
}

/// Blocks that an engine no longer has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removed<'a> {
    /// What it calls them.
    pub hashes: Vec<u64>,
    /// The kind of memory.
    pub medium: Option<&'a str>,
    /// The hybrid model's cache group.
    pub group: Option<u32>,
    /// Whether they were in another machine's memory.
    pub remote: bool,
}

/// What an engine tells of its cache.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// Blocks are held from now on.
    Stored(Stored<'a>),
    /// Blocks are no longer held.
    Removed(Removed<'a>),
    /// Nothing is held any more.
    Cleared,
    /// Something that we don't know.
    Unknown,
}

/// The values of an event's fields, not read yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields<'a> {
    /// Where the event begins.
    at: usize,
    raw: [Option<Reader<'a>>; NAMES.len()],
}

/// What an event is, by its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Stored,
    Removed,
    Cleared,
    Unknown,
}

impl Tag {
    fn of(text: &[u8]) -> Self {
        match text {
            b"BlockStored" => Self::Stored,
            b"BlockRemoved" => Self::Removed,
            b"AllBlocksCleared" => Self::Cleared,
            _ => Self::Unknown,
        }
    }

    fn order(self) -> &'static [usize] {
        match self {
            Self::Stored => STORED_ORDER,
            Self::Removed => REMOVED_ORDER,
            Self::Cleared | Self::Unknown => &[],
        }
    }
}

impl<'a> Fields<'a> {
    /// Takes an event apart.
    pub(super) fn read(mut event: Reader<'a>) -> Result<(Tag, Self), Malformed> {
        let at = event.place();
        match event.value("an event: an array or a map")? {
            Value::Array(length @ 1..) => Self::of_array(event, length, at),
            Value::Map(length) => Self::of_map(event, length, at),
            other => Err(unexpected(at, "an event: an array or a map", other)),
        }
    }

    fn of_array(mut event: Reader<'a>, length: u32, at: usize) -> Result<(Tag, Self), Malformed> {
        let tag = tag(event.skip()?)?;
        let mut fields = Self { at, ..Self::default() };
        for &field in tag.order().iter().take(length as usize - 1) {
            fields.set(field, event.skip()?);
        }
        Ok((tag, fields))
    }

    fn of_map(mut event: Reader<'a>, length: u32, at: usize) -> Result<(Tag, Self), Malformed> {
        let (mut found, mut fields) = (None, Self { at, ..Self::default() });
        for _ in 0..length {
            let key = event.skip()?.value("a key")?;
            let value = event.skip()?;
            let Value::Text(key) = key else { continue };
            if key == b"type" {
                found = Some(tag(value)?);
            } else if let Some(field) = NAMES.iter().position(|name| name.as_bytes() == key) {
                fields.set(field, value);
            }
        }
        match found {
            Some(tag) => Ok((tag, fields)),
            None => {
                let found = format!("a map of {length} without a type");
                Err(Unreadable { at, expected: "an event with its type", found }.into())
            }
        }
    }

    fn set(&mut self, field: usize, value: Reader<'a>) {
        let nil = matches!(value.clone().value("a value"), Ok(Value::Nil));
        if let Some(place) = self.raw.get_mut(field) {
            *place = Some(value).filter(|_| !nil);
        }
    }

    /// Reads what the event needs.
    pub(super) fn event(self, tag: Tag) -> Result<Event<'a>, Malformed> {
        Ok(match tag {
            Tag::Stored => Event::Stored(self.stored()?),
            Tag::Removed => Event::Removed(Removed {
                hashes: self.hashes()?,
                medium: self.text(MEDIUM)?,
                group: self.number(GROUP, "a group's number")?,
                remote: self.is_remote()?,
            }),
            Tag::Cleared => Event::Cleared,
            Tag::Unknown => Event::Unknown,
        })
    }

    fn stored(self) -> Result<Stored<'a>, Malformed> {
        let hashes = self.hashes()?;
        let parent = self.field(PARENT, |_, mut value| hash(&mut value))?;
        let block_size = self.number(BLOCK_SIZE, "a block's tokens")?;
        let keys = Keys::read(
            self.raw[EXTRA_KEYS],
            Keys {
                adapter: self.text(LORA_NAME)?,
                adapter_id: self.raw[LORA_ID],
                namespace: self.text(CACHE_SALT)?,
                media: Vec::new(),
            },
            hashes.len(),
            parent.is_none(),
        )
        .map_err(|malformed| malformed.of(NAMES[EXTRA_KEYS], None))?;
        Ok(Stored {
            parent,
            tokens: self.tokens()?,
            block_size: block_size.ok_or_else(|| self.missing(BLOCK_SIZE))?,
            keys,
            medium: self.text(MEDIUM)?,
            group: self.number(GROUP, "a group's number")?,
            holds: self.text(KIND)?.map_or(Groups::Unsaid, Groups::of_kind),
            remote: self.is_remote()?,
            hashes,
        })
    }

    fn field<T>(
        &self,
        field: usize,
        read: impl FnOnce(usize, Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        let Some(value) = self.raw[field] else { return Ok(None) };
        read(value.place(), value).map(Some).map_err(|malformed| malformed.of(NAMES[field], None))
    }

    fn text(&self, field: usize) -> Result<Option<&'a str>, Malformed> {
        self.field(field, |_, value| text(value))
    }

    fn is_remote(&self) -> Result<bool, Malformed> {
        Ok(self.text(LOCALITY)?.is_some_and(|locality| locality.eq_ignore_ascii_case("REMOTE")))
    }

    fn number(&self, field: usize, expected: &'static str) -> Result<Option<u32>, Malformed> {
        self.field(field, |at, mut value| match value.value(expected)? {
            Value::Unsigned(number) if number <= u64::from(u32::MAX) => Ok(number as u32),
            other => Err(unexpected(at, expected, other)),
        })
    }

    fn list<T>(
        &self,
        field: usize,
        most: usize,
        read: impl Fn(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let read_all = |at, mut value: Reader<'a>| {
            let length = value.array("a list")? as usize;
            if length > most {
                return Err(unexpected(
                    at,
                    "a list that fits in an engine",
                    Value::Array(length as u32),
                ));
            }
            let mut list = Vec::with_capacity(length.min(value.left()));
            for element in 0..length {
                list.push(read(&mut value).map_err(|e| e.of(NAMES[field], Some(element)))?);
            }
            Ok(list)
        };
        self.field(field, read_all)?.ok_or_else(|| self.missing(field))
    }

    fn missing(&self, field: usize) -> Malformed {
        let cause = Unreadable { at: self.at, expected: "a value", found: "none".to_owned() };
        Malformed::from(cause).of(NAMES[field], None)
    }

    fn hashes(&self) -> Result<Vec<u64>, Malformed> {
        self.list(HASHES, MOST_BLOCKS, hash)
    }

    fn tokens(&self) -> Result<Vec<u32>, Malformed> {
        self.list(TOKENS, MOST_TOKENS, token)
    }
}

pub(super) fn unexpected(at: usize, expected: &'static str, found: Value<'_>) -> Malformed {
    Unreadable { at, expected, found: found.to_string() }.into()
}

fn tag(mut value: Reader<'_>) -> Result<Tag, Malformed> {
    let at = value.place();
    match value.value("an event's type")? {
        Value::Text(text) => Ok(Tag::of(text)),
        other => Err(unexpected(at, "an event's type", other)),
    }
}

pub(super) fn text(mut value: Reader<'_>) -> Result<&str, Malformed> {
    let at = value.place();
    match value.value("text")? {
        Value::Text(bytes) => std::str::from_utf8(bytes)
            .map_err(|_| unexpected(at, "text in UTF-8", Value::Text(bytes))),
        other => Err(unexpected(at, "text", other)),
    }
}

/// A block's name as a number: see the page of [`crate::feeds::wire`].
fn hash(from: &mut Reader<'_>) -> Result<u64, Malformed> {
    if let Some(hash) = from.unsigned() {
        return Ok(hash);
    }
    let at = from.place();
    match from.value("a hash")? {
        Value::Unsigned(hash) => Ok(hash),
        Value::Negative(hash) => Ok(hash.cast_unsigned()),
        Value::Bytes(bytes) if !bytes.is_empty() => {
            let last = bytes.get(bytes.len().saturating_sub(8)..).unwrap_or(bytes);
            Ok(last.iter().fold(0, |hash, &byte| hash << 8 | u64::from(byte)))
        }
        other => Err(unexpected(at, "a hash: a number or bytes", other)),
    }
}

/// A token, or the first of several that a page of pairs has in its place.
fn token(from: &mut Reader<'_>) -> Result<u32, Malformed> {
    let mut at = from.place();
    if let Some(token) = from.unsigned() {
        return u32::try_from(token).map_err(|_| not_a_token(at, Value::Unsigned(token)));
    }
    let length = match from.value("a token")? {
        Value::Array(length @ 1..) => length,
        other => return Err(not_a_token(at, other)),
    };
    at = from.place();
    let first = from.value("a token")?;
    let Value::Unsigned(token @ 0..=0xffff_ffff) = first else {
        return Err(not_a_token(at, first));
    };
    for _ in 1..length {
        from.skip()?;
    }
    Ok(token as u32)
}

fn not_a_token(at: usize, found: Value<'_>) -> Malformed {
    unexpected(at, "a token of at most 32 bits", found)
}
