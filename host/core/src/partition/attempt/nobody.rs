//! Who has too much to do, and why a request may have nobody.

use super::Attempt;
use crate::eligibility::{Eligibility, PinProblem, Rules};
use crate::error::RouteError;
use crate::ids::WorkerTarget;
use crate::partition::Slot;
use crate::policy::pipeline::Pipeline;
use crate::request::Constraints;

impl Attempt<'_> {
    /// Finds out who has too much to do, if anybody wants to know.
    pub(super) fn look_for_overload(&self, slot: &mut Slot) {
        let thresholds = slot.thresholds();
        let overload = &mut slot.overload;
        self.partition.look_beyond(thresholds, overload, &self.snapshot, self.moment.now_ms);
    }

    /// The worker that a policy is told the request should go to. A policy that goes nowhere else isn't
    /// asked about one that it can't place: that is no failure of its.
    pub(super) fn target(
        &self,
        pipeline: &Pipeline,
        eligible: &Eligibility,
        overloaded: &[bool],
    ) -> Result<Option<WorkerTarget>, RouteError> {
        let bound = self.request.affinity_target;
        if !pipeline.needs_target() {
            return Ok(bound);
        }
        let pinned = self.request.constraints.pinned;
        let Some(target) = pinned.or(bound) else {
            let (partition, policy) = (self.partition.key.clone(), pipeline.name().clone());
            return Err(RouteError::NoTarget { partition, policy });
        };
        let rows = eligible.rows.iter().filter_map(|&row| self.snapshot.rows.get(row as usize));
        if rows.into_iter().any(|rank| target.matches(*rank)) {
            return Ok(Some(target));
        }
        let constraints = Constraints { pinned: Some(target), ..self.request.constraints.clone() };
        let rules = Rules::of(&constraints, &self.snapshot, overloaded);
        let problem = rules.pin_problem(&self.snapshot).unwrap_or(PinProblem::WorkerUnavailable);
        Err(RouteError::PinnedWorker { target, problem })
    }

    /// Why the rules left no row.
    pub(super) fn nobody(&self, slot: &Slot) -> RouteError {
        let (constraints, excluded) = (&self.request.constraints, slot.eligibility.excluded);
        let rules = Rules::of(constraints, &self.snapshot, slot.overload.workers());
        if let Some(target) = constraints.pinned
            && let Some(problem) = rules.pin_problem(&self.snapshot)
        {
            return RouteError::PinnedWorker { target, problem };
        }
        // Overload is the last rule, so these pass all others.
        if excluded.overloaded > 0 {
            return RouteError::AllEligibleWorkersOverloaded(self.partition.key.clone());
        }
        RouteError::NoEndpoints { partition: self.partition.key.clone(), excluded }
    }
}
