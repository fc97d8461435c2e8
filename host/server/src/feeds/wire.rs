//! What engines publish: one message's payload, as a batch of events.
//!
//! Owns the shapes in which vLLM and SGLang have written their events: as arrays or as maps, told
//! apart for each event; with fields that came and went; hashes as numbers of either sign or as
//! bytes. A payload is checked as a whole before any of it is used; an event with a field that
//! can't be understood is told apart from the others, with the place and the value.
//! `msgpack` reads the bytes; [`super::intake`] decides what the events mean for the index.
//!
//! An engine's hash becomes a 64-bit number here: a signed one by its bits, one in bytes by its
//! last 8, most significant first. That is what vLLM itself publishes where it publishes numbers.

mod event;
mod keys;

use std::fmt;

use super::msgpack::{Reader, Value};
use event::Fields;

pub use super::msgpack::Unreadable;
pub use event::{Event, Groups, Removed, Stored};
pub use keys::Keys;

/// The most blocks of one event that are read: far above what fits in an engine.
pub const MOST_BLOCKS: usize = 1 << 20;
/// The most tokens of one event that are read.
pub const MOST_TOKENS: usize = 1 << 23;

/// Why a payload, or one of its events, can't be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Which event of the batch; none if it is about the batch itself.
    pub event: Option<usize>,
    /// Which of its fields, and which element of that.
    pub field: Option<(&'static str, Option<usize>)>,
    /// What was looked for, and what is there.
    pub cause: Unreadable,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            Some(event) => write!(f, "events[{event}]")?,
            None => f.write_str("the batch")?,
        }
        match self.field {
            Some((field, Some(element))) => write!(f, ".{field}[{element}]")?,
            Some((field, None)) => write!(f, ".{field}")?,
            None => {}
        }
        write!(f, ": {}", self.cause)
    }
}

impl std::error::Error for Malformed {}

impl From<Unreadable> for Malformed {
    fn from(cause: Unreadable) -> Self {
        Self { event: None, field: None, cause }
    }
}

impl Malformed {
    /// The same, said of a field unless it is said of one already.
    fn of(mut self, field: &'static str, element: Option<usize>) -> Self {
        self.field.get_or_insert((field, element));
        self
    }
}

/// One message's payload.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// When it was published, in seconds since 1970 by the engine's clock.
    pub ts: f64,
    /// The rank that the engine says it is of.
    pub rank: Option<u32>,
    events: Reader<'a>,
    count: u32,
}

impl<'a> Batch<'a> {
    /// Reads a payload.
    ///
    /// # Errors
    ///
    /// It isn't a batch, or no whole msgpack value. An event that can't be understood is no error
    /// here: [`Batch::events`] tells.
    pub fn read(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let at = reader.place();
        let length = reader.array("a batch: an array of time, events and rank")?;
        if length < 2 {
            let found = format!("an array of {length}");
            return Err(Unreadable { at, expected: "a batch: time, events and rank", found }.into());
        }
        let ts = time(&mut reader)?;
        let mut events = reader.skip()?;
        let count = events
            .array("an array of events")
            .map_err(|e| Malformed::from(e).of("events", None))?;
        let rank = if length > 2 { rank(&mut reader)? } else { None };
        for _ in 3..length {
            reader.skip()?;
        }
        if reader.left() > 0 {
            let found = format!("{} bytes more", reader.left());
            return Err(Unreadable { at: reader.place(), expected: "the end", found }.into());
        }
        Ok(Self { ts, rank, events, count })
    }

    /// How many events it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The events in their order, each read when it is asked for.
    pub fn events(&self) -> impl Iterator<Item = Result<Event<'a>, Malformed>> + use<'a> {
        let mut reader = self.events;
        (0..self.count as usize).map(move |at| {
            let event = reader.skip().map_err(Malformed::from).and_then(|raw| {
                let (tag, fields) = Fields::read(raw)?;
                fields.event(tag)
            });
            event.map_err(|malformed| Malformed { event: Some(at), ..malformed })
        })
    }
}

fn time(reader: &mut Reader<'_>) -> Result<f64, Malformed> {
    let at = reader.place();
    let expected = "a time in seconds";
    let ts = match reader.value(expected)? {
        Value::Float(ts) if ts.is_finite() => ts,
        Value::Unsigned(ts) => ts as f64,
        other => {
            let cause = Unreadable { at, expected, found: other.to_string() };
            return Err(Malformed::from(cause).of("ts", None));
        }
    };
    Ok(ts)
}

fn rank(reader: &mut Reader<'_>) -> Result<Option<u32>, Malformed> {
    let raw = reader.skip()?;
    let mut value = raw;
    match value.value("a rank")? {
        Value::Nil => Ok(None),
        Value::Unsigned(rank) if u32::try_from(rank).is_ok() => Ok(u32::try_from(rank).ok()),
        other => {
            let cause =
                Unreadable { at: raw.place(), expected: "a rank or nil", found: other.to_string() };
            Err(Malformed::from(cause).of("data_parallel_rank", None))
        }
    }
}

#[cfg(test)]
mod tests;
