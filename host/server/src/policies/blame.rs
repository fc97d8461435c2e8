//! Which of the things that changed is to blame for a refusal.

use std::collections::BTreeSet;
use std::sync::Arc;

use pointsman_core::BuildError;
use pointsman_core::classifier::SeatError;
use pointsman_core::policy::StageError;
use pointsman_core::policy::{Cause, InstantiateError};
use pointsman_core::router::{InstallError, Policies};

use super::trial::{TrialError, types_of};
use crate::config::Places;

/// Who is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// New versions of these types; never empty.
    Types(BTreeSet<Arc<str>>),
    /// The configuration: it names or tells a policy what can't be.
    Configuration,
    /// Nothing that changed.
    Nobody,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    #[error(transparent)]
    Trial(#[from] TrialError),
    #[error(transparent)]
    Install(#[from] InstallError),
}

impl AttemptError {
    fn build(&self) -> Option<&BuildError> {
        match self {
            Self::Trial(TrialError::Build(error)) | Self::Install(InstallError::Build(error)) => {
                Some(error)
            }
            _ => None,
        }
    }

    /// In words, behind its place in the file where it has one.
    pub(super) fn explain(&self, places: &Places) -> String {
        match self {
            Self::Trial(error) => error.explain(places),
            Self::Install(InstallError::Build(error)) => places.explain(error),
            Self::Install(error) => error.to_string(),
        }
    }

    /// Who is to blame, among the types with a new version.
    pub(super) fn blame(&self, policies: &Policies, new: &BTreeSet<Arc<str>>) -> Blame {
        let suspects: Vec<Arc<str>> = match (self, self.build()) {
            (_, Some(BuildError::Abandoned(_))) => return Blame::Nobody,
            (
                _,
                Some(
                    BuildError::NoStage { policy_type, .. }
                    | BuildError::SelectsNoWorkers { policy_type, .. },
                ),
            ) => vec![policy_type.as_str().into()],
            (_, Some(BuildError::Instantiate { error, .. })) => vec![type_of(error).into()],
            (_, Some(BuildError::Classifier(error))) => match error {
                // A new version may classify nothing any more.
                SeatError::UnknownType { classifier_type, .. }
                | SeatError::ClassifiesNothing { classifier_type } => {
                    vec![classifier_type.as_str().into()]
                }
                SeatError::Instantiate(error) => vec![type_of(error).into()],
                SeatError::DryRun { classifier_type, .. } => vec![classifier_type.as_str().into()],
            },
            (_, Some(_)) => Vec::new(),
            (
                Self::Trial(
                    TrialError::Parameters { policy_type, .. }
                    | TrialError::ClassifierParameters { policy_type, .. },
                ),
                _,
            ) => vec![policy_type.clone()],
            // Which of an instance's types it was can't be told from the failure.
            (Self::Trial(TrialError::DryRun { instance, .. }), _) => types_of(policies, instance),
            (Self::Install(InstallError::Handover { failure, .. }), _) => {
                types_of(policies, &failure.policy)
            }
            _ => Vec::new(),
        };
        let guilty: BTreeSet<_> = suspects.into_iter().filter(|one| new.contains(one)).collect();
        if guilty.is_empty() { Blame::Configuration } else { Blame::Types(guilty) }
    }

    /// How the component failed, if what failed is the component and not what it was told.
    pub(super) fn broken(&self) -> Option<StageError> {
        let made = |error: &InstantiateError| match error {
            InstantiateError::Failed { cause, .. } => {
                Some(StageError::new(*cause, self.to_string()))
            }
            InstantiateError::Declaration { .. } => {
                Some(StageError::new(Cause::BadOutput, self.to_string()))
            }
            InstantiateError::Refused { .. } | InstantiateError::Limits { .. } => None,
        };
        match (self, self.build()) {
            (_, Some(BuildError::Instantiate { error, .. })) => made(error),
            (_, Some(BuildError::Classifier(SeatError::Instantiate(error)))) => made(error),
            (_, Some(BuildError::Classifier(SeatError::DryRun { error, .. }))) => {
                Some(StageError::new(error.cause, self.to_string()))
            }
            (Self::Trial(TrialError::DryRun { failure, .. }), _) => {
                Some(StageError::new(failure.cause, self.to_string()))
            }
            _ => None,
        }
    }
}

fn type_of(error: &InstantiateError) -> &str {
    match error {
        InstantiateError::Refused { policy_type, .. }
        | InstantiateError::Limits { policy_type, .. }
        | InstantiateError::Declaration { policy_type, .. }
        | InstantiateError::Failed { policy_type, .. } => policy_type,
    }
}
