//! How long a prompt is, and who spoke last, without a copy of any of it.
//!
//! One visitor for all the shapes that a prompt comes in: a text, token ids, lists of either, and
//! turns of a conversation with texts in their parts. Whatever else stands there (pictures, sound,
//! values of wrong types) is passed over; whether the engine takes it is the engine's business.

use std::fmt;

use pointsman_core::request::InputTrigger;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::prompts::Length;

/// The length of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measure {
    /// Bytes of text, escapes resolved.
    pub(super) text_bytes: u64,
    /// Token ids.
    pub(super) token_ids: u64,
    /// Who spoke last; none if there are no turns.
    last: Option<Speaker>,
}

impl Measure {
    pub(super) fn add(&mut self, other: &Self) {
        self.text_bytes += other.text_bytes;
        self.token_ids += other.token_ids;
        self.last = other.last.or(self.last);
    }

    pub(super) fn length(&self) -> Length {
        Length { text_bytes: self.text_bytes, token_ids: self.token_ids }
    }

    pub(super) fn trigger(&self) -> Option<InputTrigger> {
        Some(match self.last? {
            Speaker::User => InputTrigger::UserMessage,
            Speaker::Tool => InputTrigger::ToolResult,
            Speaker::Other => InputTrigger::Other,
        })
    }
}

/// A measured value.
#[derive(Debug)]
pub(super) struct Measured(pub(super) Measure);

impl<'de> Deserialize<'de> for Measured {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut measure = Measure::default();
        Ruler { measure: &mut measure, place: Place::Prompt }.deserialize(deserializer)?;
        Ok(Self(measure))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    User,
    Tool,
    Other,
}

/// Where in the prompt the visitor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At its top, where numbers are token ids and objects are turns.
    Prompt,
    /// Within a turn.
    Turn,
}

struct Ruler<'m> {
    measure: &'m mut Measure,
    place: Place,
}

impl<'de> DeserializeSeed<'de> for Ruler<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Ruler<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prompt")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.measure.text_bytes += text.len() as u64;
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.measure.token_ids += u64::from(self.place == Place::Prompt);
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { measure, place } = self;
        while items.next_element_seed(Ruler { measure: &mut *measure, place })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let Self { measure, place } = self;
        let is_turn = place == Place::Prompt;
        if is_turn {
            measure.last = Some(Speaker::Other);
        }
        while let Some(key) = fields.next_key()? {
            match key {
                Key::Role => {
                    let word = fields.next_value()?;
                    // A part that says that it is a tool's result has the last word.
                    if is_turn && measure.last != Some(Speaker::Tool) {
                        measure.last = match word {
                            Word::User => Some(Speaker::User),
                            Word::Tool => Some(Speaker::Tool),
                            Word::ToolResult | Word::Other => measure.last,
                        };
                    }
                }
                Key::Type => {
                    if matches!(fields.next_value()?, Word::ToolResult) {
                        measure.last = Some(Speaker::Tool);
                    }
                }
                Key::Content
                | Key::Text
                | Key::Arguments
                | Key::Output
                | Key::ToolCalls
                | Key::Function => {
                    fields.next_value_seed(Ruler { measure: &mut *measure, place: Place::Turn })?;
                }
                Key::Other => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The keys of turns and their parts that matter.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Role,
    Type,
    Content,
    Text,
    Arguments,
    Output,
    ToolCalls,
    Function,
    #[serde(other)]
    Other,
}

/// A role or a type, as far as it tells who speaks.
enum Word {
    /// A role.
    User,
    /// A role.
    Tool,
    /// A type: of a part or an item, in other dialects of the API.
    ToolResult,
    Other,
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor)
    }
}

struct WordVisitor;

impl<'de> Visitor<'de> for WordVisitor {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E>(self, word: &str) -> Result<Word, E> {
        Ok(match word {
            "user" => Word::User,
            "tool" | "function" => Word::Tool,
            "tool_result" | "function_call_output" => Word::ToolResult,
            _ => Word::Other,
        })
    }

    fn visit_u64<E>(self, _: u64) -> Result<Word, E> {
        Ok(Word::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Word, E> {
        Ok(Word::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Word, E> {
        Ok(Word::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Word, E> {
        Ok(Word::Other)
    }

    fn visit_unit<E>(self) -> Result<Word, E> {
        Ok(Word::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Word, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Word::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Word, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Word::Other)
    }
}
