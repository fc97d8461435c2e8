//! `pointsman policy inspect` of what isn't a policy alone.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman::cli::policy::inspect::{Findings, look};
use pointsman_tests::guests;
use serde_json::{Value, json};

/// Looks into a component that is told these parameters.
fn inspected(file: &Path, parameters: &Value) -> Result<(Findings, String)> {
    let parameters = parameters.as_object().context("parameters are an object")?;
    let findings = look(file, Arc::new(parameters.clone()))?;
    let text = findings.show()?;
    Ok((findings, text))
}

/// What stands in the lines of a key.
fn lines<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    let of_key = text.lines().filter(|line| line.split(' ').next() == Some(key));
    of_key.filter_map(|line| Some(line.split_once(' ')?.1.trim_start())).collect()
}

#[test]
fn a_request_classifier_is_shown_for_what_it_is() -> Result<()> {
    let file = guests::session_admission();
    let (findings, text) = inspected(file, &json!({ "most_in_flight": 2, "most_held": 77 }))?;
    assert!(findings.are_good(), "{text}");
    assert_eq!(lines(&text, "name"), ["session-admission 0.1.0"]);
    let [exports] = lines(&text, "exports")[..] else { panic!("{text}") };
    assert!(exports.contains("pointsman:policy/request-classifier@0.1.0"), "{text}");
    assert_eq!(lines(&text, "classifier"), ["holds 77 requests at most, wants no ticks"]);
    for key in ["filter", "scorer", "picker", "properties", "stages", "try", "fuel"] {
        assert_eq!(lines(&text, key), [""; 0], "{text}");
    }
    let [schema] = lines(&text, "parameters")[..] else { panic!("{text}") };
    assert!(schema.starts_with('{') && text.contains("\"most_in_flight\""), "{text}");
    let json = serde_json::to_value(&findings)?;
    assert_eq!(json["stages"], Value::Null);
    assert_eq!(
        (&json["classifier"]["tick_ms"], &json["classifier"]["most_held"]),
        (&json!(0), &json!(77))
    );
    Ok(())
}

#[test]
fn a_classifier_that_refuses_its_parameters_is_answered_with_the_command_that_gives_them()
-> Result<()> {
    let (findings, text) = inspected(guests::session_admission(), &json!({}))?;
    assert!(!findings.are_good());
    let [refusal] = lines(&text, "classifier")[..] else { panic!("{text}") };
    assert!(refusal.contains("not known: ") && refusal.contains("most_in_flight"), "{text}");
    let [command] = lines(&text, "try")[..] else { panic!("{text}") };
    assert!(command.ends_with("--parameters '{\"most_in_flight\": VALUE}'"), "{text}");
    assert!(lines(&text, "unfit")[0].contains("`most_in_flight` is missing"), "{text}");
    Ok(())
}

#[test]
fn what_is_a_policy_and_a_classifier_is_shown_as_both() -> Result<()> {
    let (findings, text) = inspected(guests::one_lane(), &json!({ "worker": 2 }))?;
    assert!(findings.are_good(), "{text}");
    let [exports] = lines(&text, "exports")[..] else { panic!("{text}") };
    assert!(exports.contains("/request-classifier@") && exports.contains("/worker-selection@"));
    assert_eq!(lines(&text, "scorer").len(), 1, "{text}");
    assert!(lines(&text, "properties")[0].contains("stateless"), "{text}");
    assert_eq!(lines(&text, "classifier").len(), 1, "{text}");
    Ok(())
}
