//! One pushed event, and the body around it, as they are read.
//!
//! Owns the keys, and which of them each kind of event has: they may come in any order, the kind
//! last. [`super::read`] knows what values are.

use pointsman_core::hashing::media_hash;
use pointsman_core::ids::DpRank;
use serde::de::{DeserializeSeed, MapAccess};

use super::read::{List, Notes, Number, Place, Read, Text, Token, Value};
use super::{MOST_BYTES, MOST_EVENTS, PushError, Pushable, Pushed};

const BODY: &[&str] = &["dp_rank", "events"];

/// The keys of a stored event, which are all that there are.
const STORED: &[&str] = &[
    "type",
    "parent_hash",
    "block_hashes",
    "token_ids",
    "block_size",
    "medium",
    "lora_name",
    "cache_salt",
    "mm_hashes",
];
const REMOVED: &[&str] = &["type", "block_hashes", "medium"];
const CLEARED: &[&str] = &["type"];

/// Reads a body.
pub(super) fn read(body: &[u8]) -> Result<Pushed, PushError> {
    let notes = Notes::new(MOST_BYTES);
    let mut from = serde_json::Deserializer::from_slice(body);
    let pushed = {
        let at = Place::top(&notes);
        let pushed = Value { at: &at, read: Body }.deserialize(&mut from);
        pushed.and_then(|pushed| match pushed {
            Some(pushed) => from.end().map(|()| pushed),
            None => Err(at.unexpected(Body::EXPECTED, Token::Null)),
        })
    };
    let json = |error: serde_json::Error| PushError::Json(error.to_string());
    pushed.map_err(|error| notes.into_problem().unwrap_or_else(|| json(error)))
}

#[derive(Clone, Copy)]
struct Body;

impl Read for Body {
    type Out = Pushed;
    const EXPECTED: &'static str = "an object";

    fn object<'de, A: MapAccess<'de>>(
        self,
        at: &Place<'_>,
        mut from: A,
    ) -> Result<Pushed, A::Error> {
        let (mut seen, mut dp_rank, mut events) = (vec![], None, None);
        while let Some(key) = from.next_key::<String>()? {
            let key = at.check_key(&key, BODY, &mut seen)?;
            let at = at.key(key);
            match key {
                "dp_rank" => dp_rank = from.next_value_seed(Value { at: &at, read: Number })?,
                _ => {
                    let read = List { of: OneEvent, most: MOST_EVENTS };
                    events = from.next_value_seed(Value { at: &at, read })?;
                }
            }
        }
        let events = must(at, "events", events, "a list")?;
        Ok(Pushed { dp_rank: dp_rank.map(DpRank), events })
    }
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stored,
    Removed,
    Cleared,
}

impl Kind {
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Stored => STORED,
            Self::Removed => REMOVED,
            Self::Cleared => CLEARED,
        }
    }
}

#[derive(Clone, Copy)]
struct OfKind;

impl Read for OfKind {
    type Out = Kind;
    const EXPECTED: &'static str = "stored, removed or cleared";

    fn token(self, token: Token<'_>) -> Option<Kind> {
        match token {
            Token::Text("stored") => Some(Kind::Stored),
            Token::Text("removed") => Some(Kind::Removed),
            Token::Text("cleared") => Some(Kind::Cleared),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
struct Hash;

impl Read for Hash {
    type Out = u64;
    const EXPECTED: &'static str = "a hash: a number of 64 bits, or the same as text";

    fn token(self, token: Token<'_>) -> Option<u64> {
        token.wide()
    }
}

#[derive(Clone, Copy)]
struct Medium;

impl Read for Medium {
    type Out = u64;
    const EXPECTED: &'static str = "an identifier or a number of 64 bits";

    fn token(self, token: Token<'_>) -> Option<u64> {
        match token {
            Token::Text(identifier) => Some(media_hash(identifier)),
            other => other.wide(),
        }
    }
}

const fn list<R>(of: R) -> List<R> {
    List { of, most: usize::MAX }
}

#[derive(Clone, Copy)]
struct OneEvent;

impl Read for OneEvent {
    type Out = Pushable;
    const EXPECTED: &'static str = "an object";

    fn object<'de, A: MapAccess<'de>>(
        self,
        at: &Place<'_>,
        mut from: A,
    ) -> Result<Pushable, A::Error> {
        let mut seen = Vec::with_capacity(STORED.len());
        let (mut kind, mut parent, mut hashes, mut tokens) = (None, None, None, None);
        let (mut block_size, mut medium, mut adapter) = (None, None, None);
        let (mut namespace, mut media) = (None, None);
        while let Some(key) = from.next_key::<String>()? {
            let key = at.check_key(&key, kind.map_or(STORED, Kind::keys), &mut seen)?;
            let at = &at.key(key);
            match key {
                "type" => kind = from.next_value_seed(Value { at, read: OfKind })?,
                "parent_hash" => parent = from.next_value_seed(Value { at, read: Hash })?,
                "block_hashes" => hashes = from.next_value_seed(Value { at, read: list(Hash) })?,
                "token_ids" => tokens = from.next_value_seed(Value { at, read: list(Number) })?,
                "block_size" => block_size = from.next_value_seed(Value { at, read: Number })?,
                "medium" => medium = from.next_value_seed(Value { at, read: Text })?,
                "lora_name" => adapter = from.next_value_seed(Value { at, read: Text })?,
                "cache_salt" => namespace = from.next_value_seed(Value { at, read: Text })?,
                _ => media = from.next_value_seed(Value { at, read: list(list(Medium)) })?,
            }
        }
        let kind = must(at, "type", kind, OfKind::EXPECTED)?;
        if let Some(key) = seen.iter().find(|key| !kind.keys().contains(*key)) {
            return Err(at.unknown(key, kind.keys()));
        }
        if kind == Kind::Cleared {
            return Ok(Pushable::Cleared);
        }
        let hashes = must(at, "block_hashes", hashes, "a list")?;
        if kind == Kind::Removed {
            return Ok(Pushable::Removed { hashes, medium });
        }
        if let Some(lists) = media.as_ref().filter(|lists| lists.len() != hashes.len()) {
            let found = format_args!("{} lists for {} hashes", lists.len(), hashes.len());
            return Err(at.key("mm_hashes").unexpected("a list for each of block_hashes", found));
        }
        Ok(Pushable::Stored {
            hashes,
            parent,
            tokens: must(at, "token_ids", tokens, "a list")?,
            block_size: must(at, "block_size", block_size, Number::EXPECTED)?,
            medium,
            adapter,
            namespace,
            media: media.unwrap_or_default(),
        })
    }
}

/// What must be there.
fn must<T, E: serde::de::Error>(
    at: &Place<'_>,
    key: &str,
    value: Option<T>,
    expected: &'static str,
) -> Result<T, E> {
    value.ok_or_else(|| at.key(key).unexpected(expected, "nothing"))
}
