//! Who has too much to do, and why a request may have nobody.

use super::Attempt;
use crate::eligibility::Rules;
use crate::error::RouteError;
use crate::partition::Slot;

impl Attempt<'_> {
    /// Finds out who has too much to do, if anybody wants to know.
    pub(super) fn look_for_overload(&self, slot: &mut Slot) {
        let thresholds = slot.thresholds();
        slot.overload.clear();
        if thresholds.are_off() {
            return;
        }
        let reports = self.partition.reports.lock();
        self.partition.ledger.read(|books| {
            // The rows of another generation have moved; the attempt is made again for that.
            if books.snapshot.generation == self.snapshot.generation {
                let (snapshot, now_ms) = (&self.snapshot, self.moment.now_ms);
                slot.overload.look(&thresholds, snapshot, &books.columns, &reports, now_ms);
            }
        });
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
