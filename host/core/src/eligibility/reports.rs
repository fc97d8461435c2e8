//! What engines say of their own load.
//!
//! Owns the last report of each rank and its age. One that is too old counts as absent: an engine that
//! has fallen silent is neither busy nor idle by what it once said.

use std::collections::BTreeMap;

use crate::fleet::{Epoch, Snapshot};
use crate::ids::WorkerRank;

/// For how long a report is believed, in milliseconds. Engines that report do so every second or so.
pub const MOST_REPORT_AGE_MS: u64 = 10_000;

/// An engine's own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// KV blocks that requests hold.
    pub used_kv_blocks: u64,
    /// KV blocks that there are; none when it didn't say. What the worker was registered with wins.
    pub total_kv_blocks: Option<u64>,
    /// When it came, on the router's clock.
    pub at_ms: u64,
}

impl LoadReport {
    /// How old it is.
    #[must_use]
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.at_ms)
    }

    /// Whether it is still believed.
    #[must_use]
    pub fn is_fresh(&self, now_ms: u64) -> bool {
        self.age_ms(now_ms) <= MOST_REPORT_AGE_MS
    }
}

/// The last report of each rank, in its worker's present life.
#[derive(Debug, Default)]
pub struct LoadReports {
    by_rank: BTreeMap<WorkerRank, (Epoch, LoadReport)>,
}

impl LoadReports {
    /// Takes a report of a rank.
    pub fn take(&mut self, rank: WorkerRank, epoch: Epoch, report: LoadReport) {
        self.by_rank.insert(rank, (epoch, report));
    }

    /// The report of a rank in this life, if it is still believed.
    #[must_use]
    pub fn fresh(&self, rank: WorkerRank, epoch: Epoch, now_ms: u64) -> Option<LoadReport> {
        let (of, report) = *self.by_rank.get(&rank)?;
        (of == epoch && report.is_fresh(now_ms)).then_some(report)
    }

    /// The last reports, ascending by rank, stale ones included.
    pub fn all(&self) -> impl Iterator<Item = (WorkerRank, LoadReport)> + '_ {
        self.by_rank.iter().map(|(rank, (_, report))| (*rank, *report))
    }

    /// Forgets those of ranks that have left or begun another life.
    pub fn realign(&mut self, snapshot: &Snapshot) {
        self.by_rank.retain(|&rank, (epoch, _)| {
            let row = snapshot.row_of(rank);
            let worker = row.and_then(|row| snapshot.worker(row));
            worker.is_some_and(|worker| worker.epoch == *epoch)
        });
    }
}
