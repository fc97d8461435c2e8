//! What each stage of a decision cost, in the memory of the decision before.
//!
//! Decisions of one pipeline are of the same stages in the same order, so that the names are there already,
//! and no count of theirs has to be touched.

use std::sync::Arc;

use super::source::Spent;
use crate::policy::failure::{StageError, StageKind};
use crate::receipt::StageTrace;

/// The traces of one run.
#[derive(Debug, Default)]
pub(super) struct Traces {
    stages: Vec<StageTrace>,
    /// How many are of this run; the others are of one before.
    used: usize,
}

impl Traces {
    pub(super) fn get(&self) -> &[StageTrace] {
        self.stages.get(..self.used).unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    pub(super) fn push(
        &mut self,
        name: &Arc<str>,
        kind: StageKind,
        spent: Spent,
        error: Option<&StageError>,
    ) {
        let failed = error.map(|error| error.cause);
        let detail = error.map(|error| error.detail.as_str().into());
        match self.stages.get_mut(self.used).filter(|stage| Arc::ptr_eq(&stage.name, name)) {
            Some(stage) => {
                (stage.kind, stage.fuel, stage.micros) = (kind, spent.fuel, spent.micros);
                (stage.failed, stage.bypassed) = (failed, false);
                if stage.detail.is_some() || detail.is_some() {
                    stage.detail = detail;
                }
            }
            None => {
                self.stages.truncate(self.used);
                self.stages.push(StageTrace {
                    name: name.clone(),
                    kind,
                    fuel: spent.fuel,
                    micros: spent.micros,
                    failed,
                    detail,
                    bypassed: false,
                });
            }
        }
        self.used += 1;
    }

    /// The last stage's answer was left out, since it left no row.
    pub(super) fn bypass_last(&mut self) {
        let last = self.used.checked_sub(1).and_then(|at| self.stages.get_mut(at));
        last.into_iter().for_each(|stage| stage.bypassed = true);
    }
}
