//! Which policy decides where: the instances that the operator named, and the roles they serve.
//!
//! Owns the recipe of each instance: one type whole, or stages of several; `build` makes a
//! [`Pipeline`](super::pipeline::Pipeline) of it. It doesn't know YAML; the server's config resolves
//! to this.

mod build;
mod rollout;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::breaker::BreakerSpec;
use super::limits::Limits;
use super::normalisation::Normalisation;
use crate::ids::Role;

pub use build::{BuildContext, BuildError};
pub(crate) use rollout::as_percent;
pub use rollout::{CanaryBy, CanarySpec, Rollout, ShadowSpec, Share, percent};

/// The instance name that always means the built-in default policy.
pub const DEFAULT: &str = "default";

/// What becomes of a decision whose policy fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The built-in default policy decides it.
    #[default]
    Default,
    /// The request gets an error.
    Reject,
    /// The stage is left out, if it is a filter or a scorer; else as `default`.
    Skip,
    /// The version before this one decides it, while it is kept; else as `default`.
    LastGood,
}

/// What becomes of a decision of which filters reject every row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnAllFiltered {
    /// The request gets an error: that may well be meant.
    #[default]
    Reject,
    /// The filter that rejected the last of them is left out.
    Bypass,
}

/// What keeps an instance from doing harm, beside its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Safeguards {
    /// When it is no longer asked.
    pub breaker: BreakerSpec,
    /// What becomes of a decision of which its filters reject every row.
    pub on_all_filtered: OnAllFiltered,
    /// Units of fuel that all stages of a decision may use together; none is as much as each may.
    pub decision_fuel: Option<u64>,
}

/// A policy type with what it is configured by.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeUse {
    /// The type's name in the catalogue.
    #[serde(rename = "type")]
    pub policy_type: Arc<str>,
    /// Its parameters; an object.
    pub parameters: Arc<serde_json::Map<String, serde_json::Value>>,
    /// What it may use. Not shown where nothing of it is set: a built-in has none, and a component's
    /// go by its size.
    #[serde(skip_serializing_if = "Limits::are_unset")]
    pub limits: Limits,
}

/// A stage, or all stages of its kind, of a type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageUse {
    /// Whose.
    #[serde(flatten)]
    pub source: TypeUse,
    /// Which; none is every stage of the kind that the type has.
    pub stage: Option<String>,
    /// What is made of its costs first; nothing but for scorers.
    #[serde(skip_serializing_if = "Normalisation::is_none")]
    pub normalisation: Normalisation,
    /// What its costs are multiplied by; 1 but for scorers.
    pub weight: f64,
    /// What becomes of a decision that it fails.
    pub on_failure: OnFailure,
}

/// What an instance is made of. Shown as the YAML has it: a type, or stages by their kinds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Recipe {
    /// One type, with all its stages.
    Whole(TypeUse),
    /// Stages of several types.
    Composed {
        /// In order.
        filters: Vec<StageUse>,
        /// In order.
        scorers: Vec<StageUse>,
        /// None picks the lowest cost.
        picker: Option<StageUse>,
    },
}

impl Recipe {
    /// The types that it names.
    pub fn types(&self) -> Vec<&TypeUse> {
        match self {
            Self::Whole(whole) => vec![whole],
            Self::Composed { filters, scorers, picker } => {
                filters.iter().chain(scorers).chain(picker).map(|stage| &stage.source).collect()
            }
        }
    }
}

impl Recipe {
    /// The same to be changed, in the same order.
    pub fn types_mut(&mut self) -> Vec<&mut TypeUse> {
        match self {
            Self::Whole(whole) => vec![whole],
            Self::Composed { filters, scorers, picker } => {
                let stages = filters.iter_mut().chain(scorers).chain(picker);
                stages.map(|stage| &mut stage.source).collect()
            }
        }
    }
}

/// A named instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceSpec {
    /// Its name.
    pub name: Arc<str>,
    /// What it is made of.
    pub recipe: Recipe,
    /// What becomes of a decision that it fails.
    pub on_failure: OnFailure,
    /// Whether a reload goes on when state can't be handed over.
    pub discard_state: bool,
    /// What keeps it from doing harm.
    pub safeguards: Safeguards,
    /// What comes after it, where a role names it.
    pub rollout: Rollout,
}

impl InstanceSpec {
    /// One with the usual safeguards and no rollout, whose state is handed over or its reload refused.
    pub fn new(name: impl Into<Arc<str>>, recipe: Recipe, on_failure: OnFailure) -> Self {
        Self {
            name: name.into(),
            recipe,
            on_failure,
            discard_state: false,
            safeguards: Safeguards::default(),
            rollout: Rollout::default(),
        }
    }
}

/// Which instance decides for which role.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SelectionSpec {
    /// The instance of each role; an omitted role uses the built-in default.
    pub roles: BTreeMap<Role, Arc<str>>,
    /// All instances.
    pub instances: Vec<InstanceSpec>,
}

impl SelectionSpec {
    /// The name of the instance that serves a role.
    #[must_use]
    pub fn instance_name(&self, role: Role) -> &str {
        self.roles.get(&role).map_or(DEFAULT, |name| name)
    }

    /// The instance that serves a role; none if the role names one that there isn't.
    #[must_use]
    pub fn instance(&self, role: Role) -> Option<Cow<'_, InstanceSpec>> {
        self.named(self.instance_name(role))
    }

    /// An instance by its name; none if there is none.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Cow<'_, InstanceSpec>> {
        // An instance can't take this name, so that it always means the same.
        if name == DEFAULT {
            return Some(Cow::Owned(default_instance()));
        }
        self.instances.iter().find(|spec| &*spec.name == name).map(Cow::Borrowed)
    }

    /// The instance that serves a role, then those that come after it: as many as there are.
    #[must_use]
    pub fn with_rollout(&self, role: Role) -> Vec<Cow<'_, InstanceSpec>> {
        let Some(first) = self.instance(role) else { return Vec::new() };
        let after: Vec<Arc<str>> = first.rollout.instances().cloned().collect();
        let after = after.iter().filter_map(|name| self.named(name));
        std::iter::once(first).chain(after).collect()
    }
}

/// The built-in default policy, as an instance.
#[must_use]
pub fn default_instance() -> InstanceSpec {
    InstanceSpec {
        name: DEFAULT.into(),
        recipe: Recipe::Whole(TypeUse {
            policy_type: DEFAULT.into(),
            parameters: Arc::default(),
            limits: Limits::default(),
        }),
        on_failure: OnFailure::Reject,
        discard_state: false,
        safeguards: Safeguards { breaker: BreakerSpec::off(), ..Safeguards::default() },
        rollout: Rollout::default(),
    }
}

#[cfg(test)]
mod tests;
