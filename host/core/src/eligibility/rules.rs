//! The rules, for one request over one snapshot.

use super::{Exclusion, PinProblem};
use crate::fleet::{Availability, Snapshot, Worker};
use crate::request::Constraints;

/// What a worker must be to have a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    constraints: &'a Constraints,
    /// The adapter that it must have. None if the request asks for none, is pinned, or none of the
    /// workers that it allows has it: then the others are as good.
    adapter: Option<&'a str>,
    /// Which of the snapshot's workers have too much to do, by their places; empty is none.
    overloaded: &'a [bool],
}

impl<'a> Rules<'a> {
    pub(crate) fn of(
        constraints: &'a Constraints,
        snapshot: &Snapshot,
        overloaded: &'a [bool],
    ) -> Self {
        let wanted = constraints.adapter.as_deref().filter(|_| constraints.pinned.is_none());
        let adapter = wanted.filter(|adapter| {
            let allows = |worker: &&Worker| {
                let allowed = constraints.allowed.as_ref();
                allowed.is_none_or(|allowed| allowed.contains(&worker.spec.worker_id))
            };
            let mut allowed = snapshot.workers.iter().filter(allows);
            allowed.any(|worker| worker.spec.lora_adapters.contains(*adapter))
        });
        Self { constraints, adapter, overloaded }
    }

    /// The first rule that the `at`th worker of the snapshot fails as a whole; a pinned rank is the
    /// caller's to look at.
    pub(crate) fn exclusion(&self, at: usize, worker: &Worker) -> Option<Exclusion> {
        let (constraints, id) = (self.constraints, worker.spec.worker_id);
        let lacks = |adapter: &str| !worker.spec.lora_adapters.contains(adapter);
        if constraints.allowed.as_ref().is_some_and(|allowed| !allowed.contains(&id)) {
            Some(Exclusion::NotAllowed)
        } else if constraints.pinned.is_some_and(|target| target.worker_id != id) {
            Some(Exclusion::NotPinned)
        } else if self.adapter.is_some_and(lacks) {
            Some(Exclusion::WithoutAdapter)
        } else if constraints.tried.contains(&id) {
            Some(Exclusion::Tried)
        } else if worker.availability == Availability::Draining {
            Some(Exclusion::Draining)
        } else if worker.availability == Availability::Unhealthy {
            Some(Exclusion::Unhealthy)
        } else if !constraints.required_taints.is_subset(&worker.spec.taints) {
            Some(Exclusion::MissingTaint)
        } else if worker.availability == Availability::Overloaded
            || self.overloaded.get(at).copied().unwrap_or(false)
        {
            Some(Exclusion::Overloaded)
        } else {
            None
        }
    }

    /// Why a pinned request got nothing: the first of its rules that fails, in the order of
    /// [`PinProblem`]. None when nothing is wrong with the pin, or there is none.
    pub(crate) fn pin_problem(&self, snapshot: &Snapshot) -> Option<PinProblem> {
        let target = self.constraints.pinned?;
        let allowed = self.constraints.allowed.as_ref();
        if allowed.is_some_and(|allowed| !allowed.contains(&target.worker_id)) {
            return Some(PinProblem::NotAllowed);
        }
        let Some(at) = snapshot.place_of(target.worker_id) else {
            return Some(PinProblem::NotRoutable);
        };
        let worker = snapshot.workers.get(at)?;
        Some(match self.exclusion(at, worker) {
            Some(Exclusion::NotAllowed) => PinProblem::NotAllowed,
            Some(Exclusion::Tried | Exclusion::Draining | Exclusion::Unhealthy) => {
                PinProblem::WorkerUnavailable
            }
            _ if target.dp_rank.is_some_and(|rank| !worker.spec.has_rank(rank)) => {
                PinProblem::RankUnavailable
            }
            Some(Exclusion::MissingTaint) => PinProblem::TaintsUnsatisfied,
            Some(Exclusion::Overloaded) => PinProblem::Overloaded,
            Some(Exclusion::NotPinned | Exclusion::WithoutAdapter) | None => return None,
        })
    }
}
