//! A partition's sessions, against its fleet.
//!
//! Owns which workers count as lost to a session: those that are gone, and their earlier lives; where
//! sessions are pinned, those too that may be given nothing new.

use std::sync::Arc;

use super::Partition;
use crate::affinity::{Affinity, AffinityMode, Ask, Bound, Conflict, Entry};
use crate::fleet::{Availability, Snapshot, Worker};

/// Places that are looked at under one lock.
const PLACES_AT_ONCE: usize = 1_024;

impl Partition {
    /// Which worker each session is bound to.
    #[must_use]
    pub fn affinity(&self) -> &Arc<Affinity> {
        &self.affinity
    }

    /// Lets a session's request in. A hard binding to a worker that is leaving or unhealthy is as
    /// lost as one to a worker that is gone; one to an overloaded worker stays, and so does a soft
    /// one, which the policy needn't heed.
    pub fn enter_session(&self, ask: &Ask<'_>) -> Result<Entry, Conflict> {
        let fleet = self.ledger.snapshot();
        self.affinity.enter(ask, |bound| stands(&fleet, bound, ask.terms.mode))
    }

    /// What a request of a session would go by now; none if it would make a binding, or wait for
    /// one. Nothing changes by it.
    #[must_use]
    pub fn peek_session(&self, ask: &Ask<'_>) -> Option<Bound> {
        let bound = self.affinity.peek(ask)?;
        stands(&self.ledger.snapshot(), &bound, ask.terms.mode).then_some(bound)
    }

    /// Ends the sessions whose time is over, or all idle ones where none is to be bound, and those
    /// whose worker is gone. Call it now and then.
    pub fn expire_sessions(&self, now_ms: u64, ttl_ms: Option<u64>) {
        if self.affinity.is_empty() {
            return;
        }
        let fleet = self.ledger.snapshot();
        let stands = |bound: &Bound| stands(&fleet, bound, AffinityMode::Soft);
        while self.affinity.expire(now_ms, ttl_ms, PLACES_AT_ONCE, stands) {}
    }
}

fn stands(fleet: &Snapshot, bound: &Bound, mode: AffinityMode) -> bool {
    match mode {
        AffinityMode::Hard => worker(fleet, bound).is_some_and(takes_requests),
        AffinityMode::Soft => worker(fleet, bound).is_some(),
    }
}

/// The worker in the life that is meant.
fn worker<'f>(fleet: &'f Snapshot, bound: &Bound) -> Option<&'f Worker> {
    let worker = fleet.worker_by_id(bound.worker.worker_id)?;
    let same = worker.epoch == bound.epoch && worker.spec.has_rank(bound.worker.dp_rank);
    same.then_some(worker)
}

fn takes_requests(worker: &Worker) -> bool {
    matches!(worker.availability, Availability::Ready | Availability::Overloaded)
}
