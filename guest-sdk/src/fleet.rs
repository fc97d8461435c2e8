//! The partition's workers, for policies that weigh what columns don't carry.

use crate::Result;
use crate::request::Worker;

/// One rank of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub worker: Worker,
    /// Its taints, sorted.
    pub taints: Vec<String>,
    /// Its labels as (key, value), sorted by key.
    pub labels: Vec<(String, String)>,
    /// KV blocks that the rank has in all; `None` when it didn't say.
    pub total_kv_blocks: Option<u64>,
    /// The most tokens that it batches in one step; `None` when it didn't say.
    pub max_batched_tokens: Option<u64>,
    /// What it runs on, as registered; `None` when it didn't say.
    pub device_kind: Option<String>,
}

impl Member {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Follows the fleet.
///
/// Called once after the instance was configured and then whenever the fleet changes, between two
/// decisions. To follow it in the same value that scores, wrap it in [`Shared`](crate::Shared).
pub trait FleetFollower: Send + 'static {
    /// The fleet is now this. `generation` grows with every change.
    ///
    /// # Errors
    ///
    /// The contract has no place for an error here; the SDK logs it as a warning.
    fn fleet_changed(&mut self, generation: u64, members: &[Member]) -> Result;
}
