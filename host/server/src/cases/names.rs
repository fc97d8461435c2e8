//! How cases name rows and targets: `2` or `"2/1"`, a worker and a rank of it.

use std::fmt;

use pointsman_core::ids::{DpRank, WorkerId, WorkerRank, WorkerTarget};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A row: `2` is rank 0 of worker 2, `"2/1"` its rank 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowName(pub WorkerRank);

/// A target: `2` is any rank of worker 2, `"2/1"` its rank 1 and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetName(pub WorkerTarget);

impl fmt::Display for RowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.worker_id.0, self.0.dp_rank.0) {
            (id, 0) => write!(f, "{id}"),
            (id, rank) => write!(f, "{id}/{rank}"),
        }
    }
}

impl RowName {
    /// As YAML has it: `2`, or `"2/1"`.
    #[must_use]
    pub fn yaml(&self) -> String {
        match self.0.dp_rank.0 {
            0 => self.to_string(),
            _ => format!("\"{self}\""),
        }
    }
}

impl TargetName {
    /// As YAML has it: `2` for any rank of it, `"2/0"` for one.
    #[must_use]
    pub fn yaml(&self) -> String {
        match self.0.dp_rank {
            None => self.0.worker_id.0.to_string(),
            Some(rank) => format!("\"{}/{}\"", self.0.worker_id.0, rank.0),
        }
    }
}

impl<'de> Deserialize<'de> for RowName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (id, rank) = deserializer.deserialize_any(Name)?;
        let dp_rank = DpRank(rank.unwrap_or(0));
        Ok(Self(WorkerRank { worker_id: WorkerId(id), dp_rank }))
    }
}

impl<'de> Deserialize<'de> for TargetName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (id, rank) = deserializer.deserialize_any(Name)?;
        Ok(Self(WorkerTarget { worker_id: WorkerId(id), dp_rank: rank.map(DpRank) }))
    }
}

struct Name;

impl Visitor<'_> for Name {
    type Value = (u64, Option<u32>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a worker's id, or \"id/rank\" in quotes")
    }

    fn visit_u64<E: de::Error>(self, id: u64) -> Result<Self::Value, E> {
        Ok((id, None))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let name = text
            .split_once('/')
            .and_then(|(id, rank)| Some((id.parse().ok()?, Some(rank.parse().ok()?))));
        name.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}
