//! What the built-ins' parameters are, so that all that is wrong with them is told at once, at its
//! lines, as of a component that has a schema. The built-ins check them again.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use pointsman_core::policy::builtin::NAMES;
use serde_json::{Map, Value, json};

use super::ParametersSchema;

static ALL: LazyLock<BTreeMap<Arc<str>, Arc<ParametersSchema>>> = LazyLock::new(|| {
    let read = |properties: Vec<Property>| Arc::new(ParametersSchema::read(&schema(properties)));
    let (cost, two_tier, none) = (read(cost()), read(two_tier()), read(Vec::new()));
    let device_aware = read(device_aware());
    let of = |name: &str| match name {
        "default" | "dynamo-default-cost-fn" => cost.clone(),
        "device-aware" => device_aware.clone(),
        "two-tier" | "dynamo-two-tier-cost-fn" => two_tier.clone(),
        _ => none.clone(),
    };
    NAMES.into_iter().map(|name| (name.into(), of(name))).collect()
});

/// The schemas of all built-ins, by name.
pub(in crate::policies) fn all() -> &'static BTreeMap<Arc<str>, Arc<ParametersSchema>> {
    &ALL
}

/// A number: its key, its least and its most value, and whether null leaves it out.
struct Property(&'static str, u8, Option<u8>, bool);

/// Those of the router's settings that the default policy weighs by.
fn cost() -> Vec<Property> {
    vec![
        Property("overlap_score_credit", 0, None, true),
        Property("overlap_score_credit_decay", 0, None, true),
        Property("prefill_load_scale", 0, None, true),
        Property("decode_active_request_weight", 0, None, true),
        Property("host_cache_hit_weight", 0, Some(1), true),
        Property("disk_cache_hit_weight", 0, Some(1), true),
        Property("shared_cache_multiplier", 0, Some(1), true),
        Property("router_temperature", 0, None, true),
    ]
}

fn two_tier() -> Vec<Property> {
    vec![
        Property("cache_threshold", 0, Some(1), false),
        Property("balance_abs_threshold", 0, None, false),
        Property("balance_rel_threshold", 1, None, false),
    ]
}

fn device_aware() -> Vec<Property> {
    vec![Property("ratio", 1, None, false)]
}

fn schema(properties: Vec<Property>) -> String {
    let shown = properties.into_iter().map(|Property(key, least, most, or_null)| {
        let kinds = if or_null { json!(["number", "null"]) } else { json!("number") };
        let mut property = json!({ "type": kinds, "minimum": least });
        if let (Some(most), Some(fields)) = (most, property.as_object_mut()) {
            fields.insert("maximum".to_owned(), json!(most));
        }
        (key.to_owned(), property)
    });
    let properties: Map<String, Value> = shown.collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties }).to_string()
}

#[cfg(test)]
mod tests {
    use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role};
    use pointsman_core::policy::{Catalog, Limits, PolicyEnvironment};

    use super::*;

    /// Whether a built-in takes parameters, as it says itself.
    fn takes(name: &str, parameters: &Map<String, Value>) -> bool {
        let environment = PolicyEnvironment {
            instance: name.into(),
            partition: PartitionKey {
                model: "m".into(),
                routing_group: DEFAULT_GROUP.into(),
                role: Role::Aggregated,
            },
            block_size: 16,
            parameters: Arc::new(parameters.clone()),
            settings: Arc::default(),
            limits: Limits::default(),
            seed: 0,
            trial: true,
        };
        let catalog = Catalog::builtin();
        catalog.get(name).is_some_and(|provider| provider.instantiate(&environment).is_ok())
    }

    #[test]
    fn a_schema_takes_what_its_built_in_takes_and_nothing_else() {
        let all_properties = cost().into_iter().chain(two_tier()).chain(device_aware());
        let keys: Vec<_> = all_properties.map(|Property(key, ..)| key).collect();
        let values = [
            json!(-1),
            json!(0),
            json!(0.5),
            json!(1),
            json!(1.5),
            json!(40),
            json!(null),
            json!("1"),
            json!(true),
            json!([]),
        ];
        for (name, schema) in all() {
            for key in keys.iter().copied().chain(["seed"]) {
                for value in &values {
                    let parameters = Map::from_iter([(key.to_owned(), value.clone())]);
                    let violations = schema.check(&parameters).map(|found| found.len());
                    let expected = usize::from(!takes(name, &parameters));
                    assert_eq!(violations, Ok(expected), "{name}: {key}: {value}");
                }
            }
            assert_eq!(schema.check(&Map::new()), Ok(Vec::new()), "{name}");
        }
    }
}
