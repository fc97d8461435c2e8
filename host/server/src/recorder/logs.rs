//! How far each request classifier's log has come in the file.
//!
//! Owns which entry may follow: a log that lacks one is worth nothing from there on, so that nothing
//! more is written of it until another instance begins.

use std::collections::BTreeMap;

use pointsman_core::classifier::LogEntry;
use pointsman_core::ids::PartitionKey;

/// The latest entry of each log, as its instance and its call.
#[derive(Debug, Default)]
pub(super) struct Logs(BTreeMap<PartitionKey, (u64, u64)>);

impl Logs {
    /// Whether all that stands before an entry has been written.
    pub(super) fn follows(&self, entry: &LogEntry) -> bool {
        let before = (entry.instance, entry.call.wrapping_sub(1));
        entry.call == 0 || self.0.get(&entry.partition) == Some(&before)
    }

    pub(super) fn wrote(&mut self, entry: &LogEntry) {
        self.0.insert(entry.partition.clone(), (entry.instance, entry.call));
    }
}
