//! The names of things: workers, ranks, roles, partitions, decisions.
//!
//! Owns nothing but newtypes and their text forms. Everyone uses them.

use std::fmt;
use std::sync::Arc;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A worker's id, as its operator registered it.
///
/// In JSON it is a number while every reader keeps it exact, and else its decimal digits in a text:
/// many readers have no other numbers than floating-point ones. Either is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

/// The largest whole number up to which floating-point numbers leave none out.
const MOST_EXACT: u64 = (1 << 53) - 1;

impl WorkerId {
    /// The id whose decimal digits these are.
    #[must_use]
    pub fn from_decimal(digits: &str) -> Option<Self> {
        let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse().ok().filter(|_| plain).map(Self)
    }
}

impl Serialize for WorkerId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0 <= MOST_EXACT { to.serialize_u64(self.0) } else { as_decimal(&self.0, to) }
    }
}

impl<'de> Deserialize<'de> for WorkerId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WorkerIdVisitor)
    }
}

struct WorkerIdVisitor;

impl Visitor<'_> for WorkerIdVisitor {
    type Value = WorkerId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a worker's id: a whole number, or its digits in a text")
    }

    fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<WorkerId, E> {
        Ok(WorkerId(id))
    }

    fn visit_i64<E: serde::de::Error>(self, id: i64) -> Result<WorkerId, E> {
        let wrong = || E::invalid_value(Unexpected::Signed(id), &self);
        u64::try_from(id).map(WorkerId).map_err(|_| wrong())
    }

    fn visit_str<E: serde::de::Error>(self, digits: &str) -> Result<WorkerId, E> {
        let wrong = || E::invalid_value(Unexpected::Str(digits), &self);
        WorkerId::from_decimal(digits).ok_or_else(wrong)
    }
}

/// Writes a whole number as its decimal digits in a text, so that no reader rounds it.
pub(crate) fn as_decimal<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(number)
}

/// Reads what [`as_decimal`] has written.
pub(crate) fn from_decimal<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    let expected = &"the decimal digits of a 64-bit number";
    text.parse().map_err(|_| serde::de::Error::invalid_value(Unexpected::Str(&text), expected))
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A data-parallel rank. A worker's ranks need not start at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DpRank(pub u32);

impl fmt::Display for DpRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One rank of one worker: what a row stands for.
///
/// The order is the row order everywhere: ascending worker id, then rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerRank {
    /// The worker.
    pub worker_id: WorkerId,
    /// Its rank.
    pub dp_rank: DpRank,
}

impl fmt::Display for WorkerRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.worker_id, self.dp_rank)
    }
}

/// A worker named in advance. No rank means any rank of that worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerTarget {
    /// The worker.
    pub worker_id: WorkerId,
    /// Its rank; none is any rank, which is not the same as rank 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dp_rank: Option<DpRank>,
}

impl WorkerTarget {
    /// Whether a row is what the target names.
    #[must_use]
    pub fn matches(&self, row: WorkerRank) -> bool {
        self.worker_id == row.worker_id && self.dp_rank.is_none_or(|rank| rank == row.dp_rank)
    }
}

impl fmt::Display for WorkerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dp_rank {
            Some(rank) => write!(f, "{}/{rank}", self.worker_id),
            None => write!(f, "{}", self.worker_id),
        }
    }
}

/// What a worker does for a request.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Prefill and decode on one worker.
    #[default]
    Aggregated,
    /// Prefill only.
    Prefill,
    /// Decode only.
    Decode,
    /// Multimodal encoding only.
    Encode,
}

impl Role {
    /// All roles, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Aggregated, Self::Prefill, Self::Decode, Self::Encode];

    /// The word for it in YAML, metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aggregated => "aggregated",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Encode => "encode",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The routing group of workers and requests that name none; also the model-less default.
pub const DEFAULT_GROUP: &str = "default";

/// What shares one policy instance, one ledger and one queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionKey {
    /// The model's name, as clients ask for it.
    pub model: Arc<str>,
    /// The routing group.
    pub routing_group: Arc<str>,
    /// What the workers do.
    pub role: Role,
}

impl PartitionKey {
    /// Its name in messages. A trial for no partition in particular is of the default one.
    #[must_use]
    pub fn shown(&self, trial: bool) -> String {
        let nowhere =
            trial && &*self.model == DEFAULT_GROUP && &*self.routing_group == DEFAULT_GROUP;
        if nowhere { DEFAULT_GROUP.to_owned() } else { self.to_string() }
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.model, self.routing_group, self.role)
    }
}

/// Names one decision within a router's life: in receipts, logs and what observers are told.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct DecisionId(pub u64);

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use super::*;

    #[test]
    fn an_id_is_a_number_while_every_reader_keeps_it_and_else_a_text() {
        for (id, json) in [
            (0, "0"),
            (7, "7"),
            (MOST_EXACT, "9007199254740991"),
            (MOST_EXACT + 1, "\"9007199254740992\""),
            (u64::MAX, "\"18446744073709551615\""),
        ] {
            assert_eq!(serde_json::to_string(&WorkerId(id)).unwrap(), json);
            for form in [format!("{id}"), format!("\"{id}\"")] {
                assert_eq!(
                    serde_json::from_str::<WorkerId>(&form).unwrap(),
                    WorkerId(id),
                    "{form}"
                );
            }
        }
        for bad in
            ["-1", "1.5", "\"\"", "\"+7\"", "\" 7\"", "\"18446744073709551616\"", "[7]", "null"]
        {
            assert!(serde_json::from_str::<WorkerId>(bad).is_err(), "{bad}");
        }
    }
}
