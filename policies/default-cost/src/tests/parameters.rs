//! Promises of the parameters: names, ranges, defaults, and what is said of bad ones.

use super::*;
use crate::{Settings, Weights};

const KEYS: [(&str, f64); 8] = [
    ("overlap_score_credit", f64::INFINITY),
    ("overlap_score_credit_decay", f64::INFINITY),
    ("prefill_load_scale", f64::INFINITY),
    ("decode_active_request_weight", f64::INFINITY),
    ("host_cache_hit_weight", 1.0),
    ("disk_cache_hit_weight", 1.0),
    ("shared_cache_multiplier", 1.0),
    ("router_temperature", f64::INFINITY),
];

fn refusal(parameters: &str) -> String {
    Trial::of::<DefaultCost>(parameters).unwrap_err().to_string()
}

fn weights(parameters: &str, router: &str) -> Weights {
    let settings: Settings = serde_json::from_str(parameters).unwrap();
    let environment =
        Environment { router_config: router.to_owned(), ..testing::environment(parameters) };
    settings.over(&environment).unwrap()
}

#[test]
fn defaults_are_those_of_the_routers_settings() {
    let default = Weights {
        overlap_score_credit: 1.0,
        overlap_score_credit_decay: 0.0,
        prefill_load_scale: 1.0,
        decode_active_request_weight: 0.0,
        host_cache_hit_weight: 0.75,
        disk_cache_hit_weight: 0.25,
        shared_cache_multiplier: 0.0,
        router_temperature: 0.0,
    };
    assert_eq!(weights("{}", "{}"), default);
    // A key that is there and null is left out.
    assert_eq!(weights(r#"{"prefill_load_scale": null}"#, "{}"), default);
}

#[test]
fn what_a_parameter_leaves_out_comes_from_the_router() {
    let router = r#"{"prefill_load_scale": 2, "shared_cache_multiplier": 0.5, "use_kv_events": true,
        "router_predicted_ttl_secs": null}"#;
    let merged = weights(r#"{"prefill_load_scale": 3, "router_temperature": 0.1}"#, router);
    let expected = Weights {
        prefill_load_scale: 3.0,
        shared_cache_multiplier: 0.5,
        router_temperature: 0.1,
        ..Weights::default()
    };
    assert_eq!(merged, expected);
}

#[test]
fn ranges_include_their_ends_and_what_is_out_of_them_is_refused_by_name() {
    for (key, most) in KEYS {
        let with = |value: &str| format!(r#"{{"{key}": {value}}}"#);
        let highest = if most.is_finite() { "1" } else { "1e308" };
        for value in ["0", "0.5", highest] {
            assert!(Trial::of::<DefaultCost>(with(value)).is_ok(), "{key}: {value}");
        }
        let expected = if most.is_finite() { "0 to 1" } else { "a finite number, at least 0" };
        let below = refusal(&with("-0.5"));
        assert_eq!(below, format!("{key}: -0.5 is out of range; expected {expected}"));
        if most.is_finite() {
            let above = refusal(&with("1.5"));
            assert_eq!(above, format!("{key}: 1.5 is out of range; expected 0 to 1"));
        }
        let text = refusal(&with(r#""hot""#));
        assert!(text.starts_with(&format!("parameter \"{key}\": invalid type")), "{text}");
    }
    let unknown = refusal(r#"{"temprature": 1}"#);
    assert!(unknown.starts_with("unknown parameter \"temprature\", expected one of"), "{unknown}");
    // JSON has no such numbers; a parser may still make them.
    for value in [f64::NAN, f64::INFINITY] {
        let settings = Settings { router_temperature: Some(value), ..Settings::default() };
        assert!(settings.over(&testing::environment("{}")).is_err(), "{value}");
    }
}

#[test]
fn the_schema_names_each_parameter_with_its_range() {
    let schema: serde_json::Value = serde_json::from_str(Settings::SCHEMA).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    let properties = schema["properties"].as_object().unwrap();
    assert_eq!(properties.len(), KEYS.len());
    for (key, most) in KEYS {
        let property = &properties[key];
        assert_eq!(
            (property["minimum"].as_f64(), &property["type"][0]),
            (Some(0.0), &"number".into())
        );
        assert_eq!(property["maximum"].as_f64(), most.is_finite().then_some(most), "{key}");
    }
}

#[test]
fn only_what_is_weighed_is_declared() {
    let declared = |role: Role, parameters: &str| -> Vec<&'static str> {
        let mut trial = Trial::within::<DefaultCost>(environment(role, parameters)).unwrap();
        let [instance, _] = trial.instances();
        instance.declaration().scorers[0].inputs.clone()
    };
    let load = ["active-prefill-tokens", "decode-cost-blocks", "preferred-taint-multiplier"];
    let caches = [
        "device-overlap-blocks",
        "host-overlap-blocks",
        "disk-overlap-blocks",
        "effective-overlap-blocks",
        "cached-tokens",
    ];
    let usual: Vec<_> = load.into_iter().chain(caches).collect();
    assert_eq!(declared(Role::Aggregated, "{}"), usual);
    assert_eq!(declared(Role::Prefill, "{}"), usual);
    assert_eq!(declared(Role::Decode, "{}"), load);
    assert_eq!(declared(Role::Aggregated, r#"{"overlap_score_credit": 0}"#), load);
    let without = declared(Role::Aggregated, r#"{"prefill_load_scale": 0}"#);
    assert_eq!(without, ["decode-cost-blocks", "preferred-taint-multiplier"]);
    let more = r#"{"decode_active_request_weight": 1, "shared_cache_multiplier": 1}"#;
    assert_eq!(declared(Role::Aggregated, more).len(), usual.len() + 2);
}
