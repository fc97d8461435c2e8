//! A partition's rows at one time: what a decision is made over.

use super::worker::{Availability, Worker};
use crate::ids::{WorkerId, WorkerRank};

/// The rows of one partition at one time, in ascending (worker id, rank) order.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Grows with every change of the fleet.
    pub generation: u64,
    /// One per row.
    pub rows: Vec<WorkerRank>,
    /// One per row: which of `workers` the row belongs to.
    pub worker_of_row: Vec<u32>,
    /// The workers, ascending by id.
    pub workers: Vec<Worker>,
    /// Whether every worker is ready: then eligibility needs no look at them.
    pub all_ready: bool,
}

impl Snapshot {
    /// The worker of a row.
    #[must_use]
    pub fn worker(&self, row: usize) -> Option<&Worker> {
        self.workers.get(*self.worker_of_row.get(row)? as usize)
    }

    /// A worker by id.
    #[must_use]
    pub fn worker_by_id(&self, id: WorkerId) -> Option<&Worker> {
        self.workers.get(self.place_of(id)?)
    }

    /// Where a worker stands among `workers`.
    #[must_use]
    pub fn place_of(&self, id: WorkerId) -> Option<usize> {
        self.workers.binary_search_by_key(&id, |worker| worker.spec.worker_id).ok()
    }

    /// The row of a worker's rank.
    #[must_use]
    pub fn row_of(&self, rank: WorkerRank) -> Option<usize> {
        self.rows.binary_search(&rank).ok()
    }

    /// Where each row goes on in another snapshot: the same rank, in the same life.
    pub(crate) fn continued_in<'a>(
        &'a self,
        after: &'a Self,
    ) -> impl Iterator<Item = Option<u32>> + 'a {
        // Both stand in the order of their ranks.
        let mut next = 0;
        self.rows.iter().enumerate().map(move |(row, rank)| {
            while after.rows.get(next).is_some_and(|other| other < rank) {
                next += 1;
            }
            let epoch = self.worker(row)?.epoch;
            let goes_on = after.rows.get(next)? == rank && after.worker(next)?.epoch == epoch;
            goes_on.then_some(next as u32)
        })
    }

    pub(super) fn build(generation: u64, workers: Vec<Worker>) -> Self {
        let mut rows = Vec::new();
        let mut worker_of_row = Vec::new();
        for (i, worker) in workers.iter().enumerate() {
            for dp_rank in worker.spec.ranks() {
                rows.push(WorkerRank { worker_id: worker.spec.worker_id, dp_rank });
                worker_of_row.push(i as u32);
            }
        }
        let all_ready = workers.iter().all(|w| w.availability == Availability::Ready);
        Self { generation, rows, worker_of_row, workers, all_ready }
    }
}
