//! What a sandboxed instance may use. Native policies are not limited.
//!
//! An owner sets what matters to him and leaves the rest to the component's size class, which is
//! known only once the component is: whoever makes the instance puts the two together.

use std::time::Duration;

use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::clock::written;

/// The limits of one instance, as its owner set them; none leaves it to the component's size. Every
/// call gets them afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Units of fuel per call: about one per wasm instruction.
    #[serde(serialize_with = "or_by_size")]
    pub fuel: Option<u64>,
    /// Bytes of linear memory.
    #[serde(serialize_with = "or_by_size")]
    pub memory: Option<u64>,
    /// Time at work per call: a backstop, at least [`Limits::least_deadline`] of the fuel, so that an
    /// endless loop always ends by fuel. None is that least.
    #[serde(serialize_with = "as_written")]
    pub deadline: Option<Duration>,
    /// Bytes of linear memory beyond which an instance is replaced between two calls, with its
    /// state handed over if it can; none is [`Limits::recycle_at_of`] its memory.
    #[serde(serialize_with = "or_by_size")]
    pub recycle_at: Option<u64>,
    /// Elements of all its tables, of 8 bytes each.
    #[serde(serialize_with = "or_by_size")]
    pub table_elements: Option<u64>,
    /// Bytes that one answer may bring into the host's memory: 8 for each row that is scored.
    pub reply_bytes: u64,
    /// Log lines per call; what is over is counted and dropped.
    pub log_lines: u32,
    /// Bytes of one log line; what is over is cut off.
    pub log_line_bytes: u32,
}

/// A deadline that can end a call before its fuel does, so that one loop has two causes.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "a deadline of {deadline:?} can end a call before {fuel} fuel does; set at least {least:?}, or leave it out"
)]
pub struct RacingLimits {
    /// The deadline.
    pub deadline: Duration,
    /// The fuel beside it.
    pub fuel: u64,
    /// The shortest deadline beside that fuel.
    pub least: Duration,
}

/// What is shown where the owner set nothing.
const BY_SIZE: &str = "by size";

fn or_by_size<S: Serializer>(limit: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    match limit {
        Some(limit) => to.serialize_u64(*limit),
        None => to.serialize_str(BY_SIZE),
    }
}

fn as_written<S: Serializer>(deadline: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match deadline {
        Some(deadline) => to.serialize_str(&written(*deadline)),
        None => to.serialize_str(BY_SIZE),
    }
}

impl Limits {
    /// Linear memory of the class `small`: components in Rust, C, Zig.
    pub const SMALL_MEMORY: u64 = 32 << 20;
    /// Elements of tables of the class `small`.
    pub const SMALL_TABLE_ELEMENTS: u64 = 20_000;
    /// Fuel of the class `small`: a thousand times what a usual policy needs for 64 workers, ten
    /// times for 4,096.
    pub const SMALL_FUEL: u64 = 5_000_000;
    /// Linear memory of the class `large`: components that bring an interpreter along.
    pub const LARGE_MEMORY: u64 = 256 << 20;
    /// Elements of tables of the class `large`.
    pub const LARGE_TABLE_ELEMENTS: u64 = 1_000_000;
    /// Fuel of the class `large`: an interpreter runs tens of instructions for one of its program,
    /// and starts up when it is configured.
    pub const LARGE_FUEL: u64 = 100_000_000;
    /// The shortest deadline that can't race with fuel.
    pub const MIN_DEADLINE: Duration = Duration::from_millis(50);

    /// The limits of the class `small`, all of them set.
    #[must_use]
    pub fn small() -> Self {
        Self::of(Self::SMALL_FUEL, Self::SMALL_MEMORY, Self::SMALL_TABLE_ELEMENTS)
    }

    /// The limits of the class `large`, all of them set.
    #[must_use]
    pub fn large() -> Self {
        Self::of(Self::LARGE_FUEL, Self::LARGE_MEMORY, Self::LARGE_TABLE_ELEMENTS)
    }

    /// Three quarters of the memory: with the rest it goes on until its replacement is there.
    #[must_use]
    pub fn recycle_at_of(memory: u64) -> u64 {
        memory - memory / 4
    }

    /// Whether all is left to the component's size.
    #[must_use]
    pub fn are_unset(&self) -> bool {
        *self == Self::default()
    }

    fn of(fuel: u64, memory: u64, table_elements: u64) -> Self {
        Self {
            fuel: Some(fuel),
            memory: Some(memory),
            recycle_at: Some(Self::recycle_at_of(memory)),
            deadline: Some(Self::least_deadline(fuel)),
            table_elements: Some(table_elements),
            ..Self::default()
        }
    }

    /// The shortest deadline beside `fuel`: twenty times as long as the fuel usually takes, and at
    /// least [`Limits::MIN_DEADLINE`].
    #[must_use]
    pub fn least_deadline(fuel: u64) -> Duration {
        // A core burns about 1,000,000 units a millisecond on code as policies have it, so that
        // a twentieth of that is the floor.
        let usual = Duration::from_micros(fuel / 1_000);
        Self::MIN_DEADLINE.max(usual * 20)
    }

    /// The deadline beside `fuel`: the one that is set, unless the two can race, or else the least.
    pub fn deadline_beside(&self, fuel: u64) -> Result<Duration, RacingLimits> {
        let least = Self::least_deadline(fuel);
        match self.deadline {
            Some(deadline) if deadline < least => Err(RacingLimits { deadline, fuel, least }),
            set => Ok(set.unwrap_or(least)),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: None,
            memory: None,
            deadline: None,
            recycle_at: None,
            table_elements: None,
            reply_bytes: 4 << 20,
            log_lines: 20,
            log_line_bytes: 1 << 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_set_is_shown_as_left_to_the_size() {
        let shown = |limits: Limits| serde_json::to_value(limits).map(|value| value.to_string());
        let unset = r#"{"deadline":"by size","fuel":"by size","log_line_bytes":1024,"log_lines":20,"memory":"by size","recycle_at":"by size","reply_bytes":4194304,"table_elements":"by size"}"#;
        assert_eq!(shown(Limits::default()).ok().as_deref(), Some(unset));
        let small = r#"{"deadline":"100ms","fuel":5000000,"log_line_bytes":1024,"log_lines":20,"memory":33554432,"recycle_at":25165824,"reply_bytes":4194304,"table_elements":20000}"#;
        assert_eq!(shown(Limits::small()).ok().as_deref(), Some(small));
        let long = Limits { deadline: Some(Duration::from_secs(90)), ..Limits::default() };
        assert!(shown(long).is_ok_and(|text| text.contains(r#""deadline":"90s""#)));
    }

    #[test]
    fn a_deadline_never_races_with_the_fuel_beside_it() {
        let short = Limits { deadline: Some(Duration::from_millis(100)), ..Limits::default() };
        assert_eq!(short.deadline_beside(Limits::SMALL_FUEL), Ok(Duration::from_millis(100)));
        let error = short.deadline_beside(Limits::LARGE_FUEL).map_err(|error| error.to_string());
        let words = "a deadline of 100ms can end a call before 100000000 fuel does; \
                     set at least 2s, or leave it out";
        assert_eq!(error, Err(words.to_owned()));
        assert_eq!(Limits::default().deadline_beside(1), Ok(Limits::MIN_DEADLINE));
        assert!(Limits::large().deadline_beside(Limits::LARGE_FUEL).is_ok());
    }
}
