//! When the workers of a partition have too much to do.

use super::Partition;
use crate::eligibility::{BusyThresholds, LoadReport, Overload};
use crate::fleet::{Epoch, Snapshot};
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

    /// Finds the workers of `snapshot` that have too much to do; none if the fleet has changed since.
    /// Waits for a decision that is being made.
    pub(crate) fn look_for_overload(
        &self,
        overload: &mut Overload,
        snapshot: &Snapshot,
        now_ms: u64,
    ) {
        self.look_beyond(self.busy_thresholds(), overload, snapshot, now_ms);
    }

    /// The same by thresholds that are known.
    pub(super) fn look_beyond(
        &self,
        thresholds: BusyThresholds,
        overload: &mut Overload,
        snapshot: &Snapshot,
        now_ms: u64,
    ) {
        overload.clear();
        if thresholds.are_off() {
            return;
        }
        let reports = self.reports.lock();
        self.ledger.read(|books| {
            // The rows of another generation have moved; whoever asks looks again for that.
            if books.snapshot.generation == snapshot.generation {
                overload.look(&thresholds, snapshot, &books.columns, &reports, now_ms);
            }
        });
    }

    /// Takes what an engine says of a rank's load, in this life of its worker or, if none is named, the
    /// present one. False if there is no such rank. Where that makes the rank busy, or no longer,
    /// those who wait are told. Never waits for a decision.
    pub fn report_load(&self, rank: WorkerRank, life: Option<Epoch>, report: LoadReport) -> bool {
        let mut reports = self.reports.lock();
        let snapshot = self.ledger.snapshot();
        let epoch = snapshot.row_of(rank).and_then(|row| snapshot.worker(row)).map(|it| it.epoch);
        if life.is_some() && life != epoch {
            return false;
        }
        let taken = reports.take(rank, &snapshot, report);
        drop(reports);
        if taken == Some(true) {
            self.ledger.relief().ring();
        }
        taken.is_some()
    }

    /// Whether load may be thought to fall as time goes by, without anybody telling: a worker that is
    /// busy by its engine's word isn't any more once that is too old.
    pub(crate) fn forgets_load(&self, now_ms: u64) -> bool {
        self.reports.lock().may_make_busy(now_ms)
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
