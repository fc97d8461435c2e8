//! The policies at start: what `serve` begins with, and what `check` reports.

use std::sync::Arc;

use pointsman_core::policy::{Cause, StageError};
use pointsman_core::router::Policies;
use serde::Serialize;
use thiserror::Error;

use super::blame::{AttemptError, Blame};
use super::components::{Components, LookError};
use super::configuration::Wish;
use super::state::State;
use super::trial::{TrialError, try_all};
use crate::config::Config;

/// Why the router can't start with these policies.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The folder can't be read.
    #[error(transparent)]
    Folder(#[from] LookError),
    /// The YAML names or tells a policy what can't be. At least one mistake.
    #[error("{}", list(.0))]
    Refused(Vec<Mistake>),
}

/// A mistake of the configuration that only the policies could find.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// What it is.
    pub error: TrialError,
    /// In words, behind its place in the file where it has one.
    pub text: String,
}

fn list(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(|mistake| &*mistake.text).collect::<Vec<_>>().join("\n")
}

/// Something that doesn't keep the router from starting, but will be felt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The policy type.
    #[serde(rename = "type")]
    pub policy_type: String,
    /// Whether the YAML uses it.
    pub used: bool,
    /// In a sentence.
    pub reason: String,
}

/// The policies that the router starts with.
#[derive(Debug)]
pub struct Opened {
    pub(super) state: State,
    pub(super) components: Arc<dyn Components>,
    policies: Policies,
}

impl Opened {
    /// Looks at all components and tries what the configuration wants of them. Slow: components
    /// are compiled, so call it where blocking is allowed.
    ///
    /// A component that is broken doesn't keep the router from starting: a stand-in fails its
    /// decisions, and `on_failure` says what becomes of those, until a good version comes.
    ///
    /// # Errors
    ///
    /// The folder can't be read; the configuration names what isn't there; or a policy refuses
    /// its parameters.
    pub fn open(config: &Config, components: Arc<dyn Components>) -> Result<Self, OpenError> {
        let mut state = State { wish: Wish::from(config), ..State::default() };
        for refusal in state.saw(components.look()?, true) {
            tracing::error!(
                policy_type = refusal.what,
                reason = refusal.reason,
                "a component is refused"
            );
        }
        for entry in state.types.values_mut() {
            let reason = entry.found.as_ref().and_then(|found| found.provider.as_ref().err());
            entry.stand_in =
                reason.map(|reason| StageError::new(Cause::Unavailable, reason.clone()));
        }
        let mut new = state.new_versions(0, true);
        let policies = loop {
            let policies = state.policies(&state.wish, &new);
            let errors = try_all(&policies, &[]);
            if errors.is_empty() {
                break policies;
            }
            let mut broken = false;
            for error in &errors {
                let error = AttemptError::Trial(error.clone());
                if let (Some(stand_in), Blame::Types(types)) =
                    (error.broken(), error.blame(&policies, &new))
                {
                    for policy_type in types {
                        tracing::error!(%policy_type, %error, "a component is refused");
                        new.remove(&policy_type);
                        state.refuse(&policy_type, 0, error.to_string());
                        if let Some(entry) = state.types.get_mut(&policy_type) {
                            entry.stand_in = Some(stand_in.clone());
                        }
                        broken = true;
                    }
                }
            }
            if !broken {
                let mistakes = errors.into_iter().map(|error| {
                    let text = error.explain(&config.places);
                    Mistake { error, text }
                });
                return Err(OpenError::Refused(mistakes.collect()));
            }
        };
        for policy_type in &new {
            state.took_up(policy_type);
        }
        state.mark_seen();
        Ok(Self { state, components, policies })
    }

    /// What the router is made with.
    #[must_use]
    pub fn policies(&self) -> Policies {
        self.policies.clone()
    }

    /// What will be felt: components that are refused.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let problems = self.state.types.iter().filter_map(|(name, entry)| {
            Some(Problem {
                policy_type: name.to_string(),
                used: self.state.wish.uses(name),
                reason: entry.error()?,
            })
        });
        problems.collect()
    }
}
