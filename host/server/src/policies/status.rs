//! What there is, what decides and how it does, for `GET /v1/policies`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pointsman_core::ids::{PartitionKey, Role};
use pointsman_core::partition::Standing;
use pointsman_core::policy::selection::{Recipe, Rollout, default_instance};
use pointsman_core::policy::{Digest, InstanceSpec, OnFailure, Safeguards, builtin};
use pointsman_core::rollout::{CanaryReport, ShadowReport};
use pointsman_core::router::Router;
use serde::Serialize;

use super::classifier::ClassifierStatus;
use super::state::{State, TypeState};

/// How reloads went, since the router's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReloadCounts {
    /// Reloads that found something to do.
    pub attempts: u64,
    /// Those that put something in place.
    pub installed: u64,
    /// What was refused, over all of them.
    pub refused: u64,
    /// How long the last took.
    pub last_millis: u64,
}

/// One component type.
#[derive(Clone, Debug, Serialize)]
pub struct TypeStatus {
    /// Its name.
    #[serde(rename = "type")]
    pub policy_type: Arc<str>,
    /// Whether an instance is made of it.
    pub used: bool,
    /// What the folder has; none when the file is gone or can't be read.
    pub wanted_digest: Option<Digest>,
    /// What decides; none when there was no good version yet.
    pub active_digest: Option<Digest>,
    /// Since when, in milliseconds of Unix time.
    pub since_unix_ms: Option<u64>,
    /// What decides, in bytes.
    pub size: Option<u64>,
    /// The version of the contract that it was built for.
    pub contract: Option<String>,
    /// The interfaces that it imports.
    pub imports: Vec<String>,
    /// Why what the folder has doesn't decide; none when it does.
    pub error: Option<String>,
}

/// One named instance, by the names that its keys have in the YAML.
#[derive(Clone, Debug, Serialize)]
pub struct InstanceStatus {
    /// Its name.
    pub name: Arc<str>,
    /// What it is made of.
    #[serde(flatten)]
    pub recipe: Recipe,
    /// What becomes of a decision that it fails.
    pub on_failure: OnFailure,
    /// What becomes of its state where that can't be handed over.
    pub state: &'static str,
    /// What keeps it from doing harm, beside its limits.
    #[serde(flatten)]
    pub safeguards: Safeguards,
    /// Those that are shown its decisions, and the one that makes some of them.
    #[serde(flatten)]
    pub rollout: Rollout,
    /// Whether an operator has turned it off: the built-in default decides meanwhile.
    pub disabled: bool,
    /// What the trial before it was put in place found that is likely not meant so; none when that
    /// found nothing.
    pub warning: Option<String>,
    /// The roles that it decides for.
    pub roles: Vec<Role>,
    /// Where it decides.
    pub partitions: Vec<PartitionStatus>,
}

/// What an instance did in one partition.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionStatus {
    /// Where.
    #[serde(flatten)]
    pub partition: PartitionKey,
    /// Since the partition began, whichever instance decided.
    pub decisions: u64,
    /// Of those, made by another policy than the configured one.
    pub fallbacks: u64,
    /// Requests whose every eligible row was filtered out.
    pub all_filtered: u64,
    /// Filters that rejected every row and were left out for that.
    pub bypassed: u64,
    /// Events of decisions that those of its policies that learn were told of.
    pub outcomes_told: u64,
    /// Such events that gave way to later ones before anybody was told.
    pub outcomes_lost: u64,
    /// How its instances do, in the order of the recipe.
    pub instances: Vec<Standing>,
    /// How those compare that are only watched.
    pub shadows: Vec<ShadowReport>,
    /// How the one does that makes a share of the decisions; none if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryReport>,
    /// Failed policies by cause.
    pub failures: BTreeMap<&'static str, u64>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct PoliciesStatus {
    /// The folder's types, by name.
    pub types: Vec<TypeStatus>,
    /// The built-in types' names.
    pub builtin: Vec<&'static str>,
    /// The instances of the YAML, and the built-in default where a role uses it.
    pub instances: Vec<InstanceStatus>,
    /// The request classifier of the YAML; none if that has none.
    pub request_classifier: Option<ClassifierStatus>,
    /// How reloads went.
    pub reloads: ReloadCounts,
    /// What the last switch did; none before the first.
    pub last_switch: Option<SwitchStatus>,
    /// Why the YAML as it is isn't in force; none when it is.
    pub configuration_error: Option<String>,
    /// Why the folder can't be read; none when it can.
    pub folder_error: Option<String>,
    /// Changed parts of the YAML that only a restart takes up.
    pub needs_restart: Vec<&'static str>,
    /// What happened to components, as counts by name.
    pub components: BTreeMap<String, u64>,
}

/// A switch of all partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SwitchStatus {
    /// Partitions that were switched.
    pub partitions: usize,
    /// Partitions among them whose policy's state was handed over.
    pub handed_over: usize,
}

impl PoliciesStatus {
    pub(super) fn of(
        state: &State,
        router: &Router,
        now_ms: u64,
        components: BTreeMap<String, u64>,
    ) -> Self {
        let disabled = router.disabled();
        let seen = Seen { state, router, disabled: &disabled, now_ms };
        let selection = &state.wish.selection;
        let roles = |name: &str| {
            Role::ALL.into_iter().filter(|role| selection.instance_name(*role) == name).collect()
        };
        let default = default_instance();
        let named_default = selection.instances.iter().any(|spec| spec.name == default.name);
        let mut instances: Vec<_> =
            selection.instances.iter().map(|spec| seen.instance(spec, roles(&spec.name))).collect();
        let default_roles: Vec<_> = roles(&default.name);
        if !named_default && !default_roles.is_empty() {
            instances.push(seen.instance(&default, default_roles));
        }
        let used = |name: &str| state.wish.uses(name);
        Self {
            types: state
                .types
                .iter()
                .map(|(name, entry)| TypeStatus::of(name, used(name), entry))
                .collect(),
            builtin: builtin::NAMES.to_vec(),
            instances,
            request_classifier: state
                .wish
                .classifier
                .as_ref()
                .map(|spec| ClassifierStatus::of(spec, router, now_ms)),
            reloads: state.counts.clone(),
            last_switch: state.last_install.as_ref().map(|installed| SwitchStatus {
                partitions: installed.partitions,
                handed_over: installed.handed_over,
            }),
            configuration_error: state.wish_error.clone(),
            folder_error: state.folder_error.clone(),
            needs_restart: state.needs_restart.clone(),
            components,
        }
    }
}

impl TypeStatus {
    fn of(name: &Arc<str>, used: bool, entry: &TypeState) -> Self {
        let active = entry.active.as_ref();
        Self {
            policy_type: name.clone(),
            used,
            wanted_digest: entry.found.as_ref().and_then(|found| found.digest.clone()),
            active_digest: active.and_then(|active| active.provider.digest().cloned()),
            since_unix_ms: active.map(|active| unix_millis(active.since)),
            size: active.and_then(|active| active.size),
            contract: active.and_then(|active| active.contract.clone()),
            imports: active.map(|active| active.imports.clone()).unwrap_or_default(),
            error: entry.error(),
        }
    }
}

/// What instances are looked at with.
struct Seen<'a> {
    state: &'a State,
    router: &'a Router,
    disabled: &'a [Arc<str>],
    now_ms: u64,
}

impl Seen<'_> {
    fn instance(&self, spec: &InstanceSpec, roles: Vec<Role>) -> InstanceStatus {
        let partitions = self.router.partitions();
        let served = partitions.iter().filter(|partition| roles.contains(&partition.key().role));
        let partitions = served.map(|partition| {
            let counts = partition.counts();
            PartitionStatus {
                partition: partition.key().clone(),
                decisions: counts.decisions,
                fallbacks: counts.fallbacks,
                all_filtered: counts.all_filtered,
                bypassed: counts.bypassed,
                outcomes_told: counts.outcomes_told,
                outcomes_lost: counts.outcomes_lost,
                instances: partition.standing(self.now_ms),
                shadows: partition.shadows(),
                canary: partition.canary(),
                failures: counts
                    .failures
                    .into_iter()
                    .map(|(cause, n)| (cause.as_str(), n))
                    .collect(),
            }
        });
        InstanceStatus {
            name: spec.name.clone(),
            recipe: spec.recipe.clone(),
            on_failure: spec.on_failure,
            state: if spec.discard_state { "discard" } else { "keep" },
            safeguards: spec.safeguards,
            rollout: spec.rollout.clone(),
            disabled: self.disabled.contains(&spec.name),
            warning: self.state.warnings.get(&spec.name).cloned(),
            partitions: partitions.collect(),
            roles,
        }
    }
}

fn unix_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
