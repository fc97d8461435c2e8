//! When the workers of a partition have too much to do.

use super::Partition;
use crate::eligibility::{BusyThresholds, LoadReport};
use crate::ids::WorkerRank;

impl Partition {
    /// Beyond what a rank is busy now. Waits for a decision that is being made.
    #[must_use]
    pub fn busy_thresholds(&self) -> BusyThresholds {
        self.slot.lock().thresholds()
    }

    /// Whether an operator has set that here, in the settings' place.
    pub(crate) fn busy_here(&self) -> Option<BusyThresholds> {
        self.slot.lock().busy_here
    }

    /// Sets it in the settings' place, for as long as there is the partition; none goes back to them.
    /// Waits for a decision that is being made.
    pub(crate) fn set_busy(&self, thresholds: Option<BusyThresholds>) {
        let mut slot = self.slot.lock();
        slot.busy_here = thresholds;
        slot.host();
    }

    /// Takes what an engine says of a rank's load. False if there is no such rank.
    pub fn report_load(&self, rank: WorkerRank, report: LoadReport) -> bool {
        let mut reports = self.reports.lock();
        let snapshot = self.ledger.snapshot();
        let worker = snapshot.row_of(rank).and_then(|row| snapshot.worker(row));
        if let Some(worker) = worker {
            reports.take(rank, worker.epoch, report);
        }
        worker.is_some()
    }

    /// The last report of each rank, stale ones included.
    #[must_use]
    pub fn load_reports(&self) -> Vec<(WorkerRank, LoadReport)> {
        self.reports.lock().all().collect()
    }

    /// The ranks that were last found busy are not kept: they are found anew. Which workers have too
    /// much to do now, by their thresholds alone.
    #[must_use]
    pub fn overloaded_workers(&self, now_ms: u64) -> Vec<crate::ids::WorkerId> {
        let thresholds = self.busy_thresholds();
        let mut overload = crate::eligibility::Overload::default();
        let reports = self.reports.lock();
        self.ledger.read(|books| {
            overload.look(&thresholds, &books.snapshot, &books.columns, &reports, now_ms);
            let workers = books.snapshot.workers.iter().zip(overload.workers());
            workers.filter(|(_, busy)| **busy).map(|(worker, _)| worker.spec.worker_id).collect()
        })
    }
}
