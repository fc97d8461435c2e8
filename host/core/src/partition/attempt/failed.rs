//! What becomes of a decision that its policy fails: who decides in its place, and what the log says.

use super::{Attempt, By, Halt, Keep};
use crate::partition::Slot;
use crate::policy::failure::{Cause, StageFailure, StageKind};
use crate::policy::pipeline::{Pipeline, Selected};
use crate::policy::selection::OnFailure;
use crate::policy::view::RequestView;

impl Attempt<'_> {
    /// Whoever decides in place of a policy that failed: the last good version if there is one to
    /// ask, else the built-in default.
    pub(super) fn stand_in(
        &self,
        slot: &mut Slot,
        on_failure: OnFailure,
        view: &RequestView<'_>,
        keep: &mut Keep,
    ) -> Result<(Selected, By), Halt> {
        let Slot { previous, fallback, eligibility, caches, .. } = slot;
        if let Some(last_good) = previous.as_mut().filter(|_| on_failure == OnFailure::LastGood) {
            match self.run(last_good, eligibility, caches, view, keep) {
                Err(Halt::Failed(failure, _)) => self.log(&failure, OnFailure::Default),
                other => return other.map(|selected| (selected, By::LastGood)),
            }
        }
        let selected = self.run(fallback, eligibility, caches, view, keep)?;
        Ok((selected, By::Fallback))
    }

    /// Whoever is turned off is not asked: the built-in decides, whatever his owner wants of failures.
    pub(super) fn turned_off(&self, pipeline: &Pipeline) -> Halt {
        self.partition.counters.failed(Cause::Disabled);
        let failure = StageFailure {
            policy: pipeline.name().clone(),
            kind: StageKind::Fused,
            stage: "decide".to_owned(),
            cause: Cause::Disabled,
            detail: "an operator has turned it off".to_owned(),
        };
        Halt::Failed(Box::new(failure), OnFailure::Default)
    }

    pub(super) fn log(&self, failure: &StageFailure, on_failure: OnFailure) {
        let trial = self.partition.trial;
        if trial {
            let partition = self.partition.key.shown(true);
            tracing::warn!(partition, trial, %failure, "a policy failed to decide a made-up request");
            return;
        }
        // Who isn't asked has failed before, or was turned off, and the log has that.
        if matches!(failure.cause, Cause::Unavailable | Cause::Disabled) {
            tracing::debug!(partition = %self.partition.key, %failure, "a policy wasn't asked");
            return;
        }
        tracing::warn!(
            partition = %self.partition.key,
            request_id = &*self.request.request_id,
            decision_id = %self.decision_id,
            %failure,
            ?on_failure,
            "a policy failed to decide"
        );
    }
}
