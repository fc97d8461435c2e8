//! The policies at start: what `serve` begins with, and what `check` reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::policy::{Cause, Digest, StageError};
use pointsman_core::router::Policies;
use thiserror::Error;

use super::blame::{AttemptError, Blame};
use super::components::{Components, LookError, NoComponents};
use super::configuration::Wish;
use super::folder::WasmFolder;
use super::state::State;
use super::trial::{Trial, TrialError, Warning, try_all};
use crate::config::{At, Config, Places, Remark};

/// Why the router can't start with these policies.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The folder can't be read.
    #[error(transparent)]
    Folder(#[from] LookError),
    /// The YAML names or tells a policy what can't be.
    #[error("{}", list(.mistakes))]
    Refused {
        /// At least one.
        mistakes: Vec<Mistake>,
        /// Components that would be felt beside it.
        problems: Vec<Problem>,
    },
}

/// A mistake of the configuration that only the policies could find.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// What it is.
    pub error: TrialError,
    /// In words, with its place in the file where it has one.
    pub remark: Remark,
}

/// The most mistakes that an error tells.
const MOST_TOLD: usize = 50;

fn list(mistakes: &[Mistake]) -> String {
    let told = mistakes.iter().take(MOST_TOLD).map(|mistake| mistake.remark.to_string());
    let text = told.collect::<Vec<_>>().join("\n");
    match mistakes.len().saturating_sub(MOST_TOLD) {
        0 => text,
        more => format!("{text}\nand {more} more"),
    }
}

/// Something that doesn't keep the router from starting, but will be felt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The policy type.
    pub policy_type: String,
    /// Where the file names it, or what it fails with, or its folder.
    pub at: Option<At>,
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
    /// Where the file has to do with components that failed their trial.
    failed_at: BTreeMap<Arc<str>, At>,
}

/// The components that a configuration wants: those in its folder, or none. Slow: they are
/// compiled, so call it where blocking is allowed.
///
/// # Errors
///
/// This machine can't run components.
pub fn components(config: &Config) -> Result<Arc<dyn Components>, LookError> {
    let Some(folder) = &config.policies_dir else { return Ok(Arc::new(NoComponents)) };
    Ok(Arc::new(WasmFolder::open(folder, &config.wasm)?))
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
        let places = &config.places;
        let mut state = State { wish: Wish::from(config), ..State::default() };
        let found = components.look().map_err(|error| error.at(places.key("policies_dir")))?;
        for refusal in state.saw(found, true) {
            let at = shown(places.of_type(&refusal.what));
            tracing::error!(
                policy_type = refusal.what,
                at,
                reason = refusal.reason,
                "a component is refused"
            );
        }
        let mut failed_at = BTreeMap::new();
        for entry in state.types.values_mut() {
            let reason = entry.found.as_ref().and_then(|found| found.provider.as_ref().err());
            entry.stand_in =
                reason.map(|reason| StageError::new(Cause::Unavailable, reason.clone()));
        }
        let mut new = state.new_versions(0, true);
        let policies = loop {
            let policies = state.policies(&state.wish, &new);
            let Trial { errors, warnings } = try_all(&policies, &state.schemas(&new), &[]);
            if errors.is_empty() {
                state.warned(&warnings);
                break policies;
            }
            let mut broken = false;
            for error in &errors {
                let place = error.place(places);
                let error = AttemptError::Trial(error.clone());
                if let (Some(stand_in), Blame::Types(types)) =
                    (error.broken(), error.blame(&policies, &new))
                {
                    for policy_type in types {
                        let at = shown(place);
                        tracing::error!(%policy_type, at, %error, "a component is refused");
                        failed_at.extend(place.map(|at| (policy_type.clone(), at.clone())));
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
                let mistakes = errors.into_iter().flat_map(|error| {
                    let remarks = error.remarks(places);
                    remarks.into_iter().map(move |remark| Mistake { error: error.clone(), remark })
                });
                let problems = problems(&state, &failed_at, places);
                return Err(OpenError::Refused { mistakes: mistakes.collect(), problems });
            }
        };
        for policy_type in &new {
            state.took_up(policy_type);
        }
        state.mark_seen();
        Ok(Self { state, components, policies, failed_at })
    }

    /// What the router is made with.
    #[must_use]
    pub fn policies(&self) -> Policies {
        self.policies.clone()
    }

    /// Says what serves from now on.
    pub(super) fn log(&self) {
        for (policy_type, entry) in &self.state.types {
            if let Some(active) = &entry.active {
                let digest = active.provider.digest().map_or("none", Digest::short);
                tracing::info!(%policy_type, digest, "a policy is taken up");
            }
        }
        for Warning { instance, reason } in self.warnings() {
            tracing::warn!(%instance, reason, "a policy is likely not as it is meant");
        }
    }

    /// What serves and is likely not meant so.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let told = self.state.warnings.iter();
        told.map(|(instance, reason)| Warning {
            instance: instance.clone(),
            reason: reason.clone(),
        })
        .collect()
    }

    /// What will be felt: components that are refused.
    #[must_use]
    pub fn problems(&self, places: &Places) -> Vec<Problem> {
        problems(&self.state, &self.failed_at, places)
    }
}

fn problems(state: &State, failed_at: &BTreeMap<Arc<str>, At>, places: &Places) -> Vec<Problem> {
    let problems = state.types.iter().filter_map(|(name, entry)| {
        Some(Problem {
            policy_type: name.to_string(),
            at: failed_at.get(name).or_else(|| places.of_type(name)).cloned(),
            used: state.wish.uses(name),
            reason: entry.error()?,
        })
    });
    problems.collect()
}

/// A place for the log.
fn shown(at: Option<&At>) -> String {
    at.map(ToString::to_string).unwrap_or_default()
}
