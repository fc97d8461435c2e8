//! The trial: what the YAML tells components is held to what they say of their parameters, every
//! instance is made and configured, and those of components decide a few made-up requests, all by
//! the way that real decisions take.
//!
//! Runs before policies are put in place, on a blocking thread. What fails here never serves.

mod tally;

use std::num::NonZeroU32;
use std::sync::Arc;

use pointsman_core::BuildError;
use pointsman_core::classifier::ClassifierSpec;
use pointsman_core::clock::Moment;
use pointsman_core::fleet::{Fleet, WorkerSpec};
use pointsman_core::ids::{DEFAULT_GROUP, DecisionId, DpRank, PartitionKey, Role, WorkerId};
use pointsman_core::partition::{Mode, Partition};
use pointsman_core::policy::pipeline::Pipeline;
use pointsman_core::policy::selection::{BuildContext, default_instance};
use pointsman_core::policy::{Catalog, InstanceSpec, StageFailure};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Policies;
use serde::Serialize;
use thiserror::Error;

use tally::Tally;

use super::schema::Violation;
use super::state::TypeSchemas;
use crate::config::{At, Places, Remark};

/// The trial's seed; any will do, and the same one gives the same trial.
const SEED: u64 = 0x7a11_5eed;

/// Fleets that are tried: one row, a few, and more than one word of a bit mask.
const FLEETS: [u32; 3] = [1, 3, 65];

/// Why a set of policies was refused before it served.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TrialError {
    /// An instance could not be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Its parameters aren't as the schema of a component has them.
    #[error(
        "instance {instance:?}: policy type {policy_type:?}: {violation}; its schema wants that"
    )]
    Parameters {
        /// Which.
        instance: Arc<str>,
        /// Which of the types that it uses, in the order in which it uses them.
        position: usize,
        /// The type.
        policy_type: Arc<str>,
        /// What is wrong.
        violation: Violation,
    },
    /// The request classifier's parameters aren't as the schema of its component has them.
    #[error("request_classifier: type {policy_type:?}: {violation}; its schema wants that")]
    ClassifierParameters {
        /// The type.
        policy_type: Arc<str>,
        /// What is wrong.
        violation: Violation,
    },
    /// It failed to decide a made-up request.
    #[error("instance {instance:?} fails on synthetic rows: {failure}")]
    DryRun {
        /// Which.
        instance: String,
        /// How.
        failure: Box<StageFailure>,
    },
}

impl TrialError {
    /// The place in the file that it is about.
    #[must_use]
    pub fn place<'p>(&self, places: &'p Places) -> Option<&'p At> {
        match self {
            Self::Build(error) => places.of(error),
            Self::Parameters { instance, position, violation, .. } => {
                places.parameter(instance, *position, &violation.pointer)
            }
            Self::ClassifierParameters { violation, .. } => {
                places.classifier_parameter(&violation.pointer)
            }
            Self::DryRun { instance, .. } => places.instances.get(instance.as_str()),
        }
    }

    /// In words, with its place; what can be told apart in remarks of its own.
    #[must_use]
    pub fn remarks(&self, places: &Places) -> Vec<Remark> {
        match self {
            Self::Build(error) => places.remarks(error),
            _ => vec![self.remark(places)],
        }
    }

    /// In words, behind its place in the file where it has one.
    #[must_use]
    pub fn explain(&self, places: &Places) -> String {
        match self {
            Self::Build(error) => places.explain(error),
            _ => self.remark(places).to_string(),
        }
    }

    fn remark(&self, places: &Places) -> Remark {
        let at = self.place(places).cloned();
        let text = match self {
            Self::Build(error) => return places.remark(error),
            Self::Parameters { policy_type, violation, .. }
            | Self::ClassifierParameters { policy_type, violation }
                if at.is_some() =>
            {
                format!("{}; the schema of policy type {policy_type:?} wants that", violation.what)
            }
            _ => self.to_string(),
        };
        Remark { at, text }
    }
}

/// A partition that exists: its instance is tried there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) partition: PartitionKey,
    pub(super) block_size: u32,
}

/// What a trial found.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// What can't serve.
    pub(super) errors: Vec<TrialError>,
    /// What can, and likely isn't meant as it is; at most one of an instance.
    pub(super) warnings: Vec<Warning>,
}

/// Something about an instance that decides and is of no use to the made-up requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Which.
    pub instance: Arc<str>,
    /// In a sentence.
    pub reason: String,
}

/// Tries all instances, those that serve nothing yet included.
pub(super) fn try_all(policies: &Policies, schemas: &TypeSchemas, places: &[Place]) -> Trial {
    // Whatever is logged meanwhile, by whoever, is of the trial.
    let _span = tracing::error_span!("trial").entered();
    let selection = &policies.selection;
    let mut found = Trial::default();
    try_classifier(policies, schemas, places, &mut found);
    for role in Role::ALL {
        // An instance that isn't there is the role's mistake; one that can't be made is told below.
        if let Err(error @ BuildError::UnknownInstance { .. }) =
            selection.build(&context(policies, &nowhere(role)))
        {
            found.errors.push(error.into());
        }
    }
    for instance in &selection.instances {
        let (violations, mut warning) = hold(instance, schemas);
        if !violations.is_empty() {
            // What the component says of them needs no second word.
            found.errors.extend(violations);
            continue;
        }
        let serves = |role: &Role| selection.instance_name(*role) == &*instance.name;
        let roles: Vec<_> = Role::ALL.into_iter().filter(serves).collect();
        let real = places.iter().filter(|place| roles.contains(&place.partition.role)).cloned();
        let mut tried: Vec<_> = real.collect();
        if tried.is_empty() {
            tried.push(nowhere(roles.first().copied().unwrap_or_default()));
        }
        for place in &tried {
            match try_one(policies, instance, place) {
                // What it does says more than what couldn't be checked.
                Ok(none_or_some) => warning = none_or_some.or(warning),
                // One place's error says enough.
                Err(error) => {
                    found.errors.push(error);
                    break;
                }
            }
        }
        found.warnings.extend(warning);
    }
    found
}

/// Tries the request classifier where it is to serve; else for a partition that doesn't exist yet.
fn try_classifier(policies: &Policies, schemas: &TypeSchemas, places: &[Place], found: &mut Trial) {
    let Some(spec) = &policies.classifier else { return };
    let name = &spec.classifier_type;
    // A component that selects workers too speaks of the parameters for that.
    let schema = schemas.get(name).filter(|_| policies.catalog.get(name).is_none());
    let violations = schema.map(|schema| schema.check(&spec.parameters));
    if let Some(Ok(violations)) = violations
        && !violations.is_empty()
    {
        found.errors.extend(violations.into_iter().map(|violation| {
            TrialError::ClassifierParameters { policy_type: name.clone(), violation }
        }));
        return;
    }
    let served = |place: &&Place| ClassifierSpec::is_for(place.partition.role);
    let mut tried: Vec<_> = places.iter().filter(served).cloned().collect();
    if tried.is_empty() {
        tried.push(nowhere(Role::default()));
    }
    for place in &tried {
        // One place's error says enough.
        if let Err(error) = policies.try_classifier(&place.partition, place.block_size) {
            found.errors.push(BuildError::Classifier(error).into());
            return;
        }
    }
}

/// Holds an instance's parameters to what its types say of theirs.
fn hold(instance: &InstanceSpec, schemas: &TypeSchemas) -> (Vec<TrialError>, Option<Warning>) {
    let (mut violations, mut warning) = (Vec::new(), None);
    for (position, used) in instance.recipe.types().into_iter().enumerate() {
        let Some(schema) = schemas.get(&used.policy_type) else { continue };
        let (name, policy_type) = (&instance.name, &used.policy_type);
        match schema.check(&used.parameters) {
            Ok(found) => violations.extend(found.into_iter().map(|violation| {
                let (instance, policy_type) = (name.clone(), policy_type.clone());
                TrialError::Parameters { instance, position, policy_type, violation }
            })),
            Err(why) => {
                let reason = format!(
                    "instance {name:?}: its parameters are not checked before policy type \
                     {policy_type:?} is given them: its schema {why}"
                );
                warning.get_or_insert(Warning { instance: name.clone(), reason });
            }
        }
    }
    (violations, warning)
}

fn try_one(
    policies: &Policies,
    instance: &InstanceSpec,
    place: &Place,
) -> Result<Option<Warning>, TrialError> {
    let cx = context(policies, place);
    let component = |pipeline: &Pipeline| pipeline.sources().iter().any(|s| s.digest().is_some());
    let pipeline = instance.build(&cx)?;
    if !component(&pipeline) {
        return Ok(None);
    }
    // The host's own, as in service: a filter that rejects every row and a policy that says no are
    // answers; only a failure shows as one.
    let builtin = Catalog::builtin();
    let fallback = default_instance().build(&BuildContext { catalog: &builtin, ..cx.clone() })?;
    let partition = Partition::new(place.partition.clone(), place.block_size, pipeline, fallback);
    let partition = partition.for_trial();
    let mut tally = Tally::default();
    for (nth, workers) in (0..).zip(FLEETS) {
        partition.ledger().realign(fleet(place, workers).snapshot(&place.partition));
        // The dry run asks stage by stage, the booking in one call where the instance can.
        for mode in [Mode::DryRun, Mode::Book] {
            let request = RouteRequest::new("trial", place.partition.clone(), 1_000);
            let moment = Moment { now_ms: nth, seed: SEED };
            let id = DecisionId(nth);
            let decided = partition.decide(&request, &policies.settings, id, moment, mode);
            tally.add(&instance.name, decided)?;
        }
    }
    tally.conclude(instance, place)
}

fn context<'a>(policies: &'a Policies, place: &'a Place) -> BuildContext<'a> {
    BuildContext {
        catalog: &policies.catalog,
        partition: &place.partition,
        block_size: place.block_size,
        settings: &policies.settings,
        seed: SEED,
        trial: true,
    }
}

/// A partition for instances that serve none yet.
fn nowhere(role: Role) -> Place {
    let partition =
        PartitionKey { model: "default".into(), routing_group: DEFAULT_GROUP.into(), role };
    Place { partition, block_size: pointsman_core::fleet::DEFAULT_BLOCK_SIZE.get() }
}

fn fleet(place: &Place, workers: u32) -> Fleet {
    let mut fleet = Fleet::default();
    for id in 1..=workers {
        let endpoint = "http://192.0.2.1:9";
        let mut spec = WorkerSpec::new(WorkerId(id.into()), endpoint, place.partition.clone());
        spec.block_size = NonZeroU32::new(place.block_size).unwrap_or(spec.block_size);
        spec.total_kv_blocks = Some(1_000);
        spec.data_parallel_start_rank = DpRank(id % 2).0;
        // Equal block sizes and few ranks: the fleet takes them all.
        if let Err(error) = fleet.upsert(spec) {
            tracing::debug!(%error, "a made-up worker was refused");
        }
    }
    fleet
}

/// The types of an instance by its name.
pub(super) fn types_of(policies: &Policies, instance: &str) -> Vec<Arc<str>> {
    let found = policies.selection.instances.iter().find(|spec| &*spec.name == instance);
    found.map_or_else(Vec::new, |spec| {
        spec.recipe.types().into_iter().map(|used| used.policy_type.clone()).collect()
    })
}

#[cfg(test)]
mod tests;
