//! What engines say of their own load.
//!
//! Owns the last report of each rank and its age, and whether it alone makes its rank busy. One that is
//! too old counts as absent: an engine that has fallen silent is neither busy nor idle by what it once
//! said. It doesn't know how reports come.

use std::collections::BTreeMap;

use crate::fleet::{Epoch, Snapshot};
use crate::ids::WorkerRank;

/// For how long a report is believed, in milliseconds. Engines that report do so every second or so.
pub const MOST_REPORT_AGE_MS: u64 = 10_000;

/// An engine's own count. What it didn't say is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// KV blocks that requests hold.
    pub used_kv_blocks: Option<u64>,
    /// KV blocks that there are. What the worker was registered with wins.
    pub total_kv_blocks: Option<u64>,
    /// The share of its KV blocks that requests hold, 0 to 1, as it counts both.
    pub kv_cache_usage: Option<f64>,
    /// Requests that it computes or answers.
    pub running_requests: Option<u64>,
    /// Requests that wait in it.
    pub waiting_requests: Option<u64>,
    /// When it was so, on the router's clock.
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

    /// Whether more than this share of the rank's blocks is in use by it. `total_kv_blocks` is what the
    /// worker was registered with.
    #[must_use]
    pub fn exceeds(&self, share: f64, total_kv_blocks: Option<u64>) -> bool {
        let total = total_kv_blocks.or(self.total_kv_blocks);
        let counted = self.used_kv_blocks.zip(total);
        counted.is_some_and(|(used, total)| used as f64 > share * total as f64)
            || self.kv_cache_usage.is_some_and(|usage| usage > share)
    }
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    epoch: Epoch,
    report: LoadReport,
    /// What its worker is registered with.
    total_kv_blocks: Option<u64>,
}

impl Taken {
    fn makes_busy(&self, share: f64, now_ms: u64) -> bool {
        self.report.is_fresh(now_ms) && self.report.exceeds(share, self.total_kv_blocks)
    }

    fn believed_until_ms(&self) -> u64 {
        self.report.at_ms.saturating_add(MOST_REPORT_AGE_MS)
    }
}

/// The last report of each rank, in its worker's present life.
#[derive(Debug, Default)]
pub struct LoadReports {
    by_rank: BTreeMap<WorkerRank, Taken>,
    /// The share beyond which a rank is busy.
    share: Option<f64>,
    /// Until when, at most, some rank is busy by what was said up to now; none if none is.
    busy_until_ms: Option<u64>,
}

impl LoadReports {
    /// Takes a report of a rank of `snapshot`. None if there is no such rank; else whether its rank is
    /// busy by it and wasn't by the one before, or the other way round.
    pub fn take(
        &mut self,
        rank: WorkerRank,
        snapshot: &Snapshot,
        report: LoadReport,
    ) -> Option<bool> {
        let worker = snapshot.worker(snapshot.row_of(rank)?)?;
        let (epoch, total_kv_blocks) = (worker.epoch, worker.spec.total_kv_blocks);
        let taken = Taken { epoch, report, total_kv_blocks };
        let before = self.by_rank.insert(rank, taken).filter(|before| before.epoch == epoch);
        let Some(share) = self.share else { return Some(false) };
        let was = before.is_some_and(|before| before.makes_busy(share, report.at_ms));
        let is = taken.makes_busy(share, report.at_ms);
        if is {
            self.busy_until_ms = self.busy_until_ms.max(Some(taken.believed_until_ms()));
        }
        Some(was != is)
    }

    /// Goes by another share of blocks beyond which a rank is busy; none: none is.
    pub fn heed(&mut self, share: Option<f64>) {
        self.share = share;
        let busy = self.by_rank.values().filter(|taken| {
            share.is_some_and(|share| taken.report.exceeds(share, taken.total_kv_blocks))
        });
        self.busy_until_ms = busy.map(Taken::believed_until_ms).max();
    }

    /// Whether some rank may be busy by its report: it won't be by time alone, unless the next one
    /// says it again.
    #[must_use]
    pub fn may_make_busy(&self, now_ms: u64) -> bool {
        self.busy_until_ms.is_some_and(|until| now_ms <= until)
    }

    /// The report of a rank in this life, if it is still believed.
    #[must_use]
    pub fn fresh(&self, rank: WorkerRank, epoch: Epoch, now_ms: u64) -> Option<LoadReport> {
        let taken = self.by_rank.get(&rank)?;
        (taken.epoch == epoch && taken.report.is_fresh(now_ms)).then_some(taken.report)
    }

    /// The last reports, ascending by rank, stale ones included.
    pub fn all(&self) -> impl Iterator<Item = (WorkerRank, LoadReport)> + '_ {
        self.by_rank.iter().map(|(rank, taken)| (*rank, taken.report))
    }

    /// Forgets those of ranks that have left or begun another life.
    pub fn realign(&mut self, snapshot: &Snapshot) {
        self.by_rank.retain(|&rank, taken| {
            let row = snapshot.row_of(rank);
            let worker = row.and_then(|row| snapshot.worker(row));
            let worker = worker.filter(|worker| worker.epoch == taken.epoch);
            if let Some(worker) = worker {
                taken.total_kv_blocks = worker.spec.total_kv_blocks;
            }
            worker.is_some()
        });
    }
}
