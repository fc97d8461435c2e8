//! How the made-up decisions of one instance in one partition went.
//!
//! A failure ends the trial. What each of its decisions may be (a refusal, no row left, a stage that
//! its owner wants left out) and all of them should not be is told at the end: as an error where
//! nobody can mean it so, else as a warning.

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::RouteError;
use pointsman_core::partition::Decision;
use pointsman_core::policy::{Cause, InstanceSpec, StageFailure, StageKind};

use super::{Place, TrialError, Warning};

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    decisions: usize,
    /// Decisions that the policy made none of, and the last reason.
    barren: usize,
    reason: String,
    /// Stages that were left out: in how many decisions, and why the last time.
    left_out: BTreeMap<(&'static str, Arc<str>), (usize, StageKind, Cause)>,
}

impl Tally {
    /// Counts a decision; a failure is the trial's.
    pub(super) fn add(
        &mut self,
        instance: &str,
        decided: Result<Decision, RouteError>,
    ) -> Result<(), TrialError> {
        self.decisions += 1;
        match decided {
            Ok(Decision { receipt, .. }) => match &receipt.fallback {
                Some(failure) => self.failed(instance, failure)?,
                None => {
                    for stage in &receipt.stages {
                        let Some(cause) = stage.failed else { continue };
                        let key = (kind(stage.kind), stage.name.clone());
                        let entry = self.left_out.entry(key).or_insert((0, stage.kind, cause));
                        *entry = (entry.0 + 1, stage.kind, cause);
                    }
                }
            },
            Err(RouteError::Policy(failure)) => self.failed(instance, &failure)?,
            Err(RouteError::AllEligibleWorkersFiltered { .. }) => {
                self.barren += 1;
                "its filters keep no worker".clone_into(&mut self.reason);
            }
            Err(RouteError::NoTarget { .. }) => {
                self.barren += 1;
                "its picker goes only where a request says, which made-up ones don't"
                    .clone_into(&mut self.reason);
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn failed(&mut self, instance: &str, failure: &StageFailure) -> Result<(), TrialError> {
        if failure.cause != Cause::Refused {
            let failure = Box::new(failure.clone());
            return Err(TrialError::DryRun { instance: instance.to_owned(), failure });
        }
        self.barren += 1;
        self.reason = format!("{} {:?} refuses: {}", failure.kind, failure.stage, failure.detail);
        Ok(())
    }

    /// What all of the decisions have in common.
    pub(super) fn conclude(
        self,
        instance: &InstanceSpec,
        place: &Place,
    ) -> Result<Option<Warning>, TrialError> {
        let Self { decisions, barren, reason, left_out } = self;
        let at = place.partition.shown(true);
        let warn = |reason: String| {
            let name = &instance.name;
            let reason = format!("instance {name:?} for {at}: {reason}");
            Ok(Some(Warning { instance: name.clone(), reason }))
        };
        if barren == decisions && decisions > 0 {
            return warn(format!(
                "in all {decisions} made-up decisions {reason}; look whether it is meant to, for \
                 made-up workers have neither load nor taints nor labels"
            ));
        }
        let always = left_out.into_iter().filter(|(_, (times, ..))| *times == decisions);
        let mut refusing = None;
        for ((_, stage), (_, kind, cause)) in always {
            if cause != Cause::Refused {
                let detail =
                    format!("it is left out, as its owner wants, of all {decisions} decisions");
                let failure = Box::new(StageFailure {
                    policy: instance.name.clone(),
                    kind,
                    stage: stage.to_string(),
                    cause,
                    detail,
                });
                return Err(TrialError::DryRun { instance: instance.name.to_string(), failure });
            }
            refusing.get_or_insert((kind, stage));
        }
        match refusing {
            Some((kind, stage)) => warn(format!(
                "{kind} {stage:?} refuses in all {decisions} made-up decisions, and is left out; \
                 look whether it is meant to"
            )),
            None => Ok(None),
        }
    }
}

/// A kind as a key: kinds have no order of their own.
fn kind(kind: StageKind) -> &'static str {
    match kind {
        StageKind::Filter => "filter",
        StageKind::Scorer => "scorer",
        StageKind::Picker => "picker",
        StageKind::Fused => "fused",
    }
}
