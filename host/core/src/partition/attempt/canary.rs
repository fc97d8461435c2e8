//! How a canary is asked.

use super::keep::Keep;
use super::{Attempt, Halt};
use crate::clock::Stopwatch;
use crate::error::RouteError;
use crate::partition::Slot;
use crate::policy::failure::{Cause, StageFailure, StageKind};
use crate::policy::pipeline::Selected;
use crate::policy::selection::OnFailure;
use crate::policy::view::RequestView;

impl Attempt<'_> {
    /// Asks the canary, if the decision is its.
    pub(super) fn ask_canary(
        &self,
        slot: &mut Slot,
        view: &RequestView<'_>,
        keep: &mut Keep,
    ) -> Option<Result<Selected, Halt>> {
        let Slot { canary, eligibility, caches, .. } = slot;
        let canary = canary.as_mut().filter(|canary| canary.takes(self.request, self.moment))?;
        let watch = Stopwatch::start();
        let asked = self.run(&mut canary.pipeline, eligibility, caches, view, keep);
        if !matches!(asked, Err(Halt::Moved)) {
            canary.note(asked.is_err(), watch.elapsed(), self.moment.now_ms);
        }
        if let Err(Halt::Failed(failure, _)) = &asked {
            self.log(failure, OnFailure::Skip);
        }
        Some(asked)
    }

    /// A canary that rejects every row has failed: who it is tried for may keep some.
    pub(super) fn filtered_all(&self, slot: &Slot, error: &RouteError) -> StageFailure {
        let canary = slot.canary.as_ref().map(|canary| canary.pipeline.name().clone());
        StageFailure {
            policy: canary.unwrap_or_else(|| slot.current.name().clone()),
            kind: StageKind::Filter,
            stage: "decide".to_owned(),
            cause: Cause::Refused,
            detail: error.to_string(),
        }
    }
}
