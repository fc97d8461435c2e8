//! Which policy decides where: the instances that the operator named, and the roles they serve.
//!
//! Owns the recipe of each instance (one type whole, or stages of several) and the making of a
//! [`Pipeline`] from it. It doesn't know YAML; the server's config resolves to this.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use super::catalog::{Catalog, InstantiateError, PolicyEnvironment};
use super::limits::Limits;
use super::pipeline::{Pipeline, Source};
use super::settings::RouterSettings;
use crate::clock::Chance;
use crate::ids::{PartitionKey, Role};

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

/// A policy type with what it is configured by.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeUse {
    /// The type's name in the catalogue.
    #[serde(rename = "type")]
    pub policy_type: Arc<str>,
    /// Its parameters; an object.
    pub parameters: Arc<serde_json::Map<String, serde_json::Value>>,
    /// What it may use; none takes the defaults of its size.
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
    /// What its costs are multiplied by; 1 but for scorers.
    pub weight: f64,
    /// What becomes of a decision that it fails.
    pub on_failure: OnFailure,
}

/// What an instance is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
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
}

/// Which instance decides for which role.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SelectionSpec {
    /// The instance of each role; an omitted role uses the built-in default.
    pub roles: BTreeMap<Role, Arc<str>>,
    /// All instances.
    pub instances: Vec<InstanceSpec>,
}

/// Why a pipeline could not be made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BuildError {
    /// A type that there isn't.
    #[error("instance {instance:?}: unknown policy type {policy_type:?}; known: {known}")]
    UnknownType {
        /// Whose.
        instance: String,
        /// Which.
        policy_type: String,
        /// What there is.
        known: String,
    },
    /// An instance that there isn't.
    #[error("role {role}: no instance is named {instance:?}; known: {known}")]
    UnknownInstance {
        /// For which role.
        role: Role,
        /// Which.
        instance: String,
        /// What there is.
        known: String,
    },
    /// A stage that the type doesn't have.
    #[error("instance {instance:?}: type {policy_type:?} has no {kind}{wanted}; it has: {known}")]
    NoStage {
        /// Whose.
        instance: String,
        /// Which type.
        policy_type: String,
        /// Filter, scorer or picker.
        kind: &'static str,
        /// A space and the stage's name, quoted; or nothing.
        wanted: String,
        /// What there is.
        known: String,
    },
    /// The type could not be configured.
    #[error("instance {instance:?} for {partition}: {error}")]
    Instantiate {
        /// Whose.
        instance: String,
        /// Where.
        partition: PartitionKey,
        /// Why.
        error: Box<InstantiateError>,
    },
    /// The thread that made it died.
    #[error("the policy was not made: {0}; see the log for a panic")]
    Abandoned(String),
}

/// All that a pipeline is made with, beside its recipe.
#[derive(Clone, Debug)]
pub struct BuildContext<'a> {
    /// The types.
    pub catalog: &'a Catalog,
    /// Where it will serve.
    pub partition: &'a PartitionKey,
    /// Tokens in one block there.
    pub block_size: u32,
    /// The router's settings.
    pub settings: &'a Arc<RouterSettings>,
    /// A seed for the instances.
    pub seed: u64,
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
        let name = self.instance_name(role);
        // An instance can't take this name, so that it always means the same.
        if name == DEFAULT {
            return Some(Cow::Owned(default_instance()));
        }
        self.instances.iter().find(|spec| &*spec.name == name).map(Cow::Borrowed)
    }

    /// Makes the pipeline of a partition: instances made and configured, nothing shared.
    pub fn build(&self, cx: &BuildContext<'_>) -> Result<Pipeline, BuildError> {
        let role = cx.partition.role;
        let instance = self.instance(role).ok_or_else(|| {
            let known = self.instances.iter().map(|spec| &*spec.name).chain([DEFAULT]);
            BuildError::UnknownInstance {
                role,
                instance: self.instance_name(role).to_owned(),
                known: known.collect::<Vec<_>>().join(", "),
            }
        })?;
        instance.build(cx)
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
    }
}

impl InstanceSpec {
    /// Makes the pipeline of this instance for a partition.
    pub fn build(&self, cx: &BuildContext<'_>) -> Result<Pipeline, BuildError> {
        let mut pipeline = Pipeline::new(self.name.clone(), self.discard_state);
        match &self.recipe {
            Recipe::Whole(whole) => {
                let source = self.source(cx, whole, 0)?;
                pipeline.add_whole(source, self.on_failure);
            }
            Recipe::Composed { filters, scorers, picker } => {
                for stage in filters {
                    let at = self.add(&mut pipeline, cx, stage)?;
                    let added = pipeline.use_filters(at, stage.stage.as_deref(), stage.on_failure);
                    self.found(added, stage, "filter", &pipeline, at)?;
                }
                for stage in scorers {
                    let at = self.add(&mut pipeline, cx, stage)?;
                    let name = stage.stage.as_deref();
                    let added = pipeline.use_scorers(at, name, stage.weight, stage.on_failure);
                    self.found(added, stage, "scorer", &pipeline, at)?;
                }
                if let Some(stage) = picker {
                    let at = self.add(&mut pipeline, cx, stage)?;
                    let added = pipeline.use_picker(at, stage.stage.as_deref(), stage.on_failure);
                    self.found(added, stage, "picker", &pipeline, at)?;
                }
            }
        }
        pipeline.seal();
        Ok(pipeline)
    }

    fn add(
        &self,
        pipeline: &mut Pipeline,
        cx: &BuildContext<'_>,
        stage: &StageUse,
    ) -> Result<usize, BuildError> {
        let source = self.source(cx, &stage.source, pipeline.sources().len())?;
        Ok(pipeline.add_source(source))
    }

    fn found(
        &self,
        added: bool,
        stage: &StageUse,
        kind: &'static str,
        pipeline: &Pipeline,
        at: usize,
    ) -> Result<(), BuildError> {
        if added {
            return Ok(());
        }
        let known = pipeline.stage_names(at, kind);
        Err(BuildError::NoStage {
            instance: self.name.to_string(),
            policy_type: stage.source.policy_type.to_string(),
            kind,
            wanted: stage.stage.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default(),
            known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
        })
    }

    fn source(
        &self,
        cx: &BuildContext<'_>,
        used: &TypeUse,
        place: usize,
    ) -> Result<Source, BuildError> {
        let provider =
            cx.catalog.get(&used.policy_type).ok_or_else(|| BuildError::UnknownType {
                instance: self.name.to_string(),
                policy_type: used.policy_type.to_string(),
                known: cx.catalog.names().collect::<Vec<_>>().join(", "),
            })?;
        let environment = PolicyEnvironment {
            instance: self.name.clone(),
            partition: cx.partition.clone(),
            block_size: cx.block_size,
            parameters: used.parameters.clone(),
            settings: cx.settings.clone(),
            limits: used.limits,
            seed: seed_of(cx, &self.name, place),
        };
        let instance =
            provider.instantiate(&environment).map_err(|error| BuildError::Instantiate {
                instance: self.name.to_string(),
                partition: cx.partition.clone(),
                error: Box::new(error),
            })?;
        Ok(Source::new(instance, used.policy_type.clone(), provider.digest().cloned()))
    }
}

/// A seed for one instance: the same in every life of a router with the same seed, and another one
/// for each partition, instance and place in it.
fn seed_of(cx: &BuildContext<'_>, instance: &str, place: usize) -> u64 {
    let key = cx.partition;
    let words = [&*key.model, &*key.routing_group, key.role.as_str(), instance];
    let mut seed = Chance::new(cx.seed ^ place as u64).bits();
    for word in words {
        for byte in word.bytes() {
            seed = Chance::new(seed ^ u64::from(byte)).bits();
        }
        // A word's end counts too: "ab", "c" is not "a", "bc".
        seed = Chance::new(seed ^ 0x100).bits();
    }
    seed
}

#[cfg(test)]
mod tests;
