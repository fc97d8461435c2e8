//! The built-in `default`, `policies/default-cost` linked natively and its component give the same
//! costs, to the last bit, and choose the same rows.
//!
//! `columns` puts made-up columns before the pipelines, so that every term meets every other;
//! `fleets` asks whole routers, whose columns come from ledgers, caches and taints. Every case is
//! made from its number, which a failure names.

mod columns;
mod fleets;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use pointsman_core::clock::Chance;
use pointsman_core::ids::{PartitionKey, Role};
use pointsman_core::policy::selection::{InstanceSpec, Recipe, TypeUse};
use pointsman_core::policy::{
    Catalog, InstantiateError, Limits, OnFailure, PolicyEnvironment, PolicyProvider,
    RouterSettings, SharedCacheType,
};
use pointsman_tests::linked::linked;
use pointsman_tests::{components, guests};
use serde_json::{Map, Value, json};

/// The built-in, the crate linked natively, and its component.
fn three() -> Result<[Arc<dyn PolicyProvider>; 3]> {
    let builtin = Catalog::builtin().get("default").context("the built-in")?.clone();
    let native = linked::<default_cost::DefaultCost>("default-cost-native");
    Ok([builtin, native, components::load(guests::default_cost())?])
}

fn partition(role: Role) -> PartitionKey {
    PartitionKey { model: "m".into(), routing_group: "default".into(), role }
}

/// A catalogue in which there is this type.
fn catalog(provider: &Arc<dyn PolicyProvider>) -> Catalog {
    let mut catalog = Catalog::builtin();
    if catalog.get(provider.policy_type()).is_none() {
        catalog.insert(provider.clone()).unwrap();
    }
    catalog
}

fn instance(policy_type: &str, parameters: &Map<String, Value>) -> InstanceSpec {
    InstanceSpec::new(
        "it",
        Recipe::Whole(TypeUse {
            policy_type: policy_type.into(),
            parameters: Arc::new(parameters.clone()),
            // A busy machine may stop a thread for long; this is about what is chosen.
            limits: Limits { deadline: Some(Duration::from_secs(30)), ..Limits::default() },
        }),
        OnFailure::Reject,
    )
}

/// The keys that are parameters and settings both, with the most that each may be.
const KEYS: [(&str, f64); 8] = [
    ("overlap_score_credit", 3.0),
    ("overlap_score_credit_decay", 3.0),
    ("prefill_load_scale", 3.0),
    ("decode_active_request_weight", 3.0),
    ("host_cache_hit_weight", 1.0),
    ("disk_cache_hit_weight", 1.0),
    ("shared_cache_multiplier", 1.0),
    ("router_temperature", 2.0),
];

/// A weight: often 0 or a round one, else with all its digits.
fn weight(chance: &mut Chance, most: f64) -> f64 {
    match chance.below(4) {
        0 => 0.0,
        1 => (chance.below(5) as f64 / 4.0).min(most),
        _ => chance.unit() * most,
    }
}

/// Some of the parameters.
fn parameters(chance: &mut Chance) -> Map<String, Value> {
    let mut parameters = Map::new();
    for (key, most) in KEYS {
        if chance.below(3) == 0 {
            parameters.insert(key.to_owned(), weight(chance, most).into());
        }
    }
    parameters
}

/// Settings, every other time those that nobody changed.
fn settings(chance: &mut Chance) -> RouterSettings {
    let mut settings = RouterSettings::default();
    if chance.below(2) == 0 {
        settings.overlap_score_credit = weight(chance, 3.0);
        settings.overlap_score_credit_decay = weight(chance, 3.0);
        settings.prefill_load_scale = weight(chance, 3.0);
        settings.decode_active_request_weight = weight(chance, 3.0);
        settings.host_cache_hit_weight = weight(chance, 1.0);
        settings.disk_cache_hit_weight = weight(chance, 1.0);
        settings.share(SharedCacheType::Hicache, Some(weight(chance, 1.0)));
        settings.router_temperature = weight(chance, 2.0);
        settings.router_track_prefill_tokens = chance.below(4) > 0;
        settings.router_track_active_blocks = chance.below(4) > 0;
    }
    assert!(settings.problems().is_empty(), "{:?}", settings.problems());
    settings
}

/// What a policy type says of these parameters.
fn refusal(provider: &Arc<dyn PolicyProvider>, parameters: &Value) -> Option<String> {
    let environment = PolicyEnvironment {
        instance: "it".into(),
        partition: partition(Role::Aggregated),
        block_size: 16,
        parameters: Arc::new(parameters.as_object().cloned().unwrap_or_default()),
        settings: Arc::default(),
        limits: Limits::default(),
        seed: 1,
        trial: true,
    };
    match provider.instantiate(&environment) {
        Ok(_) => None,
        Err(InstantiateError::Refused { reason, .. }) => Some(reason),
        Err(other) => panic!("{parameters}: {other}"),
    }
}

#[test]
fn parameters_are_taken_and_refused_alike_in_the_same_words() -> Result<()> {
    let three = three()?;
    let mut refused = 0;
    for (key, _) in KEYS {
        for value in [json!(0), json!(0.25), json!(1), json!(1.5), json!(-0.5), json!(null)] {
            let parameters = json!({ key: value });
            let [builtin, native, component] =
                [0, 1, 2].map(|i: usize| refusal(&three[i], &parameters));
            assert_eq!(builtin, native, "{parameters}");
            // What a component says is quoted.
            let quoted = builtin.as_ref().map(|text| format!("{text:?}"));
            assert_eq!(quoted, component, "{parameters}");
            refused += usize::from(builtin.is_some());
        }
    }
    // Below nothing each of them; above 1 three.
    assert_eq!(refused, KEYS.len() + 3);
    // What isn't a parameter, or no number, is refused by all, each in its reader's words.
    for (parameters, named) in [
        (json!({ "temprature": 1 }), "temprature"),
        (json!({ "router_temperature": "hot" }), "hot"),
        (json!({ "prefill_load_scale": [1] }), "invalid type"),
    ] {
        for provider in &three {
            let said = refusal(provider, &parameters).unwrap_or_default();
            assert!(said.contains(named), "{}: {said:?}", provider.policy_type());
        }
    }
    Ok(())
}
