//! From a recipe to a pipeline: instances made and configured, and their stages put in order.

use std::sync::Arc;

use thiserror::Error;

use super::{DEFAULT, InstanceSpec, Recipe, SelectionSpec, ShadowSpec, StageUse, TypeUse};
use crate::classifier::SeatError;
use crate::clock::Chance;
use crate::ids::{PartitionKey, Role};
use crate::policy::breaker::BreakerSpec;
use crate::policy::catalog::{Catalog, InstantiateError, PolicyEnvironment};
use crate::policy::pipeline::{Pipeline, Source};
use crate::policy::settings::RouterSettings;
use crate::rollout::{Canary, Shadow};

/// Why a pipeline could not be made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BuildError {
    /// A type that there isn't.
    #[error("instance {instance:?}: unknown policy type {policy_type:?}; known: {known}")]
    UnknownType {
        /// Whose.
        instance: String,
        /// Which of the instance's types, in the order of [`Recipe::types`], from 0.
        position: usize,
        /// Which.
        policy_type: String,
        /// What there is.
        known: String,
    },
    /// A type that there is, and that can't decide.
    #[error(
        "instance {instance:?}: type {policy_type:?} is a request classifier and selects no workers; name it in request_classifier"
    )]
    SelectsNoWorkers {
        /// Whose.
        instance: String,
        /// Which of the instance's types, in the order of [`Recipe::types`], from 0.
        position: usize,
        /// Which.
        policy_type: String,
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
    /// An instance that there isn't, as a shadow or a canary.
    #[error("instance {of:?}: no instance is named {instance:?}; known: {known}")]
    UnknownFollower {
        /// Whose.
        of: String,
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
        /// Which of the instance's types, in the order of [`Recipe::types`], from 0.
        position: usize,
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
        /// Which of the instance's types, in the order of [`Recipe::types`], from 0.
        position: usize,
        /// For which partition; `default` in a trial for none in particular.
        partition: String,
        /// Why.
        error: Box<InstantiateError>,
    },
    /// The request classifier could not be made.
    #[error(transparent)]
    Classifier(#[from] SeatError),
    /// The thread that made it died.
    #[error("the policy was not made: {0}; see the log for a panic")]
    Abandoned(String),
}

/// The share of decisions that the built-in default is shown beside any other policy, and the share
/// of one processor's time that it may take for that.
const COMPARED: f64 = 0.01;

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
    /// Whether they are made to be tried and not to serve.
    pub trial: bool,
}

impl SelectionSpec {
    /// Makes the pipeline of a partition: instances made and configured, nothing shared.
    pub fn build(&self, cx: &BuildContext<'_>) -> Result<Pipeline, BuildError> {
        let role = cx.partition.role;
        let instance = self.instance(role).ok_or_else(|| BuildError::UnknownInstance {
            role,
            instance: self.instance_name(role).to_owned(),
            known: self.known(),
        })?;
        instance.build(cx)
    }

    /// Makes those that come after the instance of a partition: its shadows, and its canary. Unless
    /// the built-in default decides, it is one of the shadows if some are to be `compared`, and shown a
    /// few of the decisions.
    pub(crate) fn build_rollout(
        &self,
        cx: &BuildContext<'_>,
        compared: bool,
    ) -> Result<(Vec<Arc<Shadow>>, Option<Canary>), BuildError> {
        let Some(first) = self.instance(cx.partition.role) else { return Ok((Vec::new(), None)) };
        let follower = |name: &str| -> Result<Pipeline, BuildError> {
            let spec = self.named(name).ok_or_else(|| BuildError::UnknownFollower {
                of: first.name.to_string(),
                instance: name.to_owned(),
                known: self.known(),
            })?;
            if name == DEFAULT {
                // Always the host's own, whatever the catalogue holds.
                return spec.build(&BuildContext { catalog: &Catalog::builtin(), ..cx.clone() });
            }
            spec.build(cx)
        };
        let mut specs = first.rollout.shadows.clone();
        let compared = compared && !first.is_builtin_default();
        if compared && specs.iter().all(|spec| &*spec.instance != DEFAULT) {
            let (sample, budget) = (COMPARED, COMPARED);
            specs.push(ShadowSpec { instance: DEFAULT.into(), sample, budget });
        }
        let shadows = specs.into_iter().enumerate().map(|(nth, spec)| {
            let pipeline = follower(&spec.instance)?;
            Ok(Arc::new(Shadow::new(spec, nth, pipeline)))
        });
        let shadows = shadows.collect::<Result<_, BuildError>>()?;
        let canary = match &first.rollout.canary {
            None => None,
            Some(spec) => Some(Canary::new(spec.clone(), follower(&spec.instance)?)),
        };
        Ok((shadows, canary))
    }

    fn known(&self) -> String {
        let known = self.instances.iter().map(|spec| &*spec.name).chain([DEFAULT]);
        known.collect::<Vec<_>>().join(", ")
    }
}

impl InstanceSpec {
    /// Whether it is what decides where nobody said anything.
    fn is_builtin_default(&self) -> bool {
        matches!(&self.recipe, Recipe::Whole(whole)
            if &*whole.policy_type == DEFAULT && whole.parameters.is_empty())
    }

    /// Makes the pipeline of this instance for a partition.
    pub fn build(&self, cx: &BuildContext<'_>) -> Result<Pipeline, BuildError> {
        let mut safeguards = self.safeguards;
        if cx.trial {
            // Each decision of a trial is to be asked of it.
            safeguards.breaker = BreakerSpec::off();
        }
        let mut pipeline = Pipeline::new(self.name.clone(), self.discard_state, safeguards);
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
                    let added = pipeline.use_scorers(at, name, stage.into(), stage.on_failure);
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
            position: at,
            policy_type: stage.source.policy_type.to_string(),
            kind,
            wanted: stage.stage.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default(),
            known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
        })
    }

    /// Why a type makes no policy.
    fn no_policy(&self, catalog: &Catalog, used: &TypeUse, position: usize) -> BuildError {
        let (instance, policy_type) = (self.name.to_string(), used.policy_type.to_string());
        if catalog.classifier(&policy_type).is_some() {
            return BuildError::SelectsNoWorkers { instance, position, policy_type };
        }
        let known = catalog.names().collect::<Vec<_>>().join(", ");
        BuildError::UnknownType { instance, position, policy_type, known }
    }

    fn source(
        &self,
        cx: &BuildContext<'_>,
        used: &TypeUse,
        position: usize,
    ) -> Result<Source, BuildError> {
        let provider = cx
            .catalog
            .get(&used.policy_type)
            .ok_or_else(|| self.no_policy(cx.catalog, used, position))?;
        let environment = PolicyEnvironment {
            instance: self.name.clone(),
            partition: cx.partition.clone(),
            block_size: cx.block_size,
            parameters: used.parameters.clone(),
            settings: cx.settings.clone(),
            limits: used.limits,
            seed: seed_of(cx, &self.name, position),
            trial: cx.trial,
        };
        let instance =
            provider.instantiate(&environment).map_err(|error| BuildError::Instantiate {
                instance: self.name.to_string(),
                position,
                partition: environment.place(),
                error: Box::new(error),
            })?;
        let source = Source::new(instance, used.policy_type.clone(), provider.digest().cloned());
        Ok(source.made_by(provider.clone(), environment))
    }
}

/// A seed for one instance: the same in every life of a router with the same seed, and another one
/// for each partition, instance and place in it.
pub(super) fn seed_of(cx: &BuildContext<'_>, instance: &str, place: usize) -> u64 {
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
