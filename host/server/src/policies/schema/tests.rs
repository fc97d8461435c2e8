//! What schemas find, and which of them are of no use.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::fmt::Write;

use insta::assert_snapshot;
use pointsman_core::clock::Stopwatch;
use serde_json::json;

use super::*;

/// What is wrong with parameters, one line each.
fn told(schema: &Value, parameters: Value) -> String {
    let parameters = parameters.as_object().unwrap().clone();
    let found = ParametersSchema::read(&schema.to_string()).check(&parameters).unwrap();
    found.into_iter().map(|one| format!("{:?} {}\n", one.pointer, one.what)).collect()
}

/// Why a schema is of no use.
fn useless(schema: &str) -> String {
    ParametersSchema::read(schema).check(&Map::new()).unwrap_err()
}

#[test]
fn every_violation_is_told_in_words_with_the_value_that_it_is_about() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.invalid/made-up.json",
        "type": "object",
        "additionalProperties": false,
        "required": ["least_blocks"],
        "properties": {
            "least_blocks": { "description": "Blocks that\na worker must hold.", "type": "integer", "minimum": 1 },
            "weight": { "type": ["number", "null"], "minimum": 0, "maximum": 1 },
            "share": { "exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.25 },
            "mode": { "enum": ["fast", "slow", null, 7] },
            "only": { "const": true },
            "name": { "type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 8 },
            "tiers": {
                "type": "array", "minItems": 1, "maxItems": 3, "uniqueItems": true,
                "items": { "$ref": "#/$defs/tier" },
            },
            "by/model": { "type": "object", "minProperties": 1, "maxProperties": 1 },
            "size": { "anyOf": [{ "type": "integer" }, { "enum": ["small", "large"] }] },
            "never": false,
        },
        "$defs": { "tier": {
            "type": "object", "required": ["kind"], "additionalProperties": false,
            "properties": { "kind": { "type": "string" }, "weight": { "type": "number" } },
        } },
    });
    let all = [
        json!({}),
        json!({ "least_blocks": 0.5, "weight": "much", "only": false, "never": 1 }),
        json!({ "least_blocks": 0, "weight": 1.5, "share": 0, "mode": "fats" }),
        json!({ "least_blocks": 1, "weight": -1, "share": 0.3, "name": "Å" }),
        json!({ "least_blocks": 1, "least_block": 1, "other": [1], "by/model": {}, "tiers": [] }),
        json!({ "least_blocks": 1, "name": "x".repeat(1000), "by/model": { "a": 1, "b": 2 } }),
        json!({ "least_blocks": 1, "tiers": [{ "kind": "a" }, { "wieght": 1 }, { "kind": 2 }, { "kind": 2 }] }),
        json!({ "least_blocks": 1, "size": "medium" }),
        json!({ "least_blocks": 3, "weight": null, "mode": null, "size": "large", "tiers": [{ "kind": "a" }] }),
    ];
    let mut text = String::new();
    for parameters in all {
        let shown = parameters.to_string();
        let end = shown.len().min(90);
        writeln!(text, "{}\n{}", &shown[..end], told(&schema, parameters)).unwrap();
    }
    assert_snapshot!(text);
}

#[test]
fn what_is_wrong_everywhere_is_told_twenty_times() {
    let schema = json!({ "additionalProperties": { "type": "number" } });
    let parameters: Map<_, _> = (0..1_000).map(|nth| (format!("k{nth}"), json!("x"))).collect();
    assert_eq!(told(&schema, Value::Object(parameters)).lines().count(), MOST);
}

#[test]
fn a_schema_that_can_not_be_used_says_why() {
    let texts = [
        "",
        "{\"type\": \"obj…",
        "[]",
        r#"{"type": "objekt"}"#,
        r#"{"pattern": "("}"#,
        r#"{"$schema": "https://example.invalid/meta.json"}"#,
        r#"{"$ref": "https://example.invalid/other.json"}"#,
        r#"{"$ref": "file:///etc/passwd"}"#,
        r##"{"$ref": "#/$defs/none"}"##,
        r##"{"$ref": "#"}"##,
        r##"{"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}"##,
        r##"{"$dynamicRef": "#meta"}"##,
        r##"{"$defs": {"a": {"$id": "b.json"}}}"##,
    ];
    let all: Vec<_> = texts.iter().map(|text| format!("{text}\n  {}\n", useless(text))).collect();
    assert_snapshot!(all.join("\n"));
}

#[test]
fn a_schema_that_stands_for_far_more_than_it_says_is_of_no_use_at_once() {
    let watch = Stopwatch::start();
    let doubled = (0..100).map(|nth| {
        let next = json!({ "$ref": format!("#/$defs/d{}", nth + 1) });
        (format!("d{nth}"), json!({ "allOf": [next, next] }))
    });
    let mut defs: Map<_, _> = doubled.collect();
    defs.insert("d100".into(), json!({}));
    let bomb = json!({ "$ref": "#/$defs/d0", "$defs": defs }).to_string();
    let long = (0..1_000)
        .map(|nth| (format!("d{nth}"), json!({ "$ref": format!("#/$defs/d{}", nth + 1) })));
    let mut defs: Map<_, _> = long.collect();
    defs.insert("d1000".into(), json!({}));
    let chain = json!({ "$ref": "#/$defs/d0", "$defs": defs }).to_string();
    let nested = format!("{}{}{}", "{\"not\":".repeat(100), "{}", "}".repeat(100));
    let unreadable = "[".repeat(60_000);
    for schema in [&bomb, &chain, &nested] {
        let why = useless(schema);
        assert!(why.contains("stands for more than") || why.contains("deeper than"), "{why}");
    }
    assert!(useless(&unreadable).contains("no JSON"), "{}", useless(&unreadable));
    assert!(watch.elapsed() < std::time::Duration::from_secs(5), "{:?}", watch.elapsed());
}

#[test]
fn keys_that_are_called_like_keywords_are_keys() {
    let schema = json!({ "properties": {
        "$ref": { "type": "string" }, "id": { "type": "string" }, "$id": { "type": "string" },
        "default": { "default": { "id": "x" } },
    } });
    assert_eq!(told(&schema, json!({ "$ref": "a", "id": "b", "$id": "c" })), "");
    assert!(told(&schema, json!({ "id": 1 })).contains("expected a text, found 1"));
}

#[test]
fn the_schema_of_the_policy_that_is_shipped_is_of_use() {
    let text = include_str!("../../../../../policies/default-cost/src/parameters.schema.json");
    let schema: Value = serde_json::from_str(text).unwrap();
    assert_eq!(told(&schema, json!({ "router_temperature": 0.5, "prefill_load_scale": null })), "");
    assert_snapshot!(told(
        &schema,
        json!({ "router_temprature": 0.5, "overlap_score_credit": "1", "shared_cache_multiplier": 1.5 })
    ));
}

#[test]
fn a_time_with_its_unit_is_answered_with_the_number_that_is_wanted() {
    let schema = json!({ "properties": { "idle_secs": { "type": "integer" }, "idle": { "type": "integer" } } });
    let found = told(&schema, json!({ "idle_secs": "1h", "idle": "1h" }));
    assert_eq!(
        found,
        "\"/idle\" expected a whole number, found \"1h\"\n\
         \"/idle_secs\" expected a whole number, found \"1h\"; write 3600: the key's value is a number of seconds\n"
    );
}
