//! `pointsman policy inspect` of what isn't a policy alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman::cli::check::check_with;
use pointsman::cli::policy::inspect::{Findings, look};
use pointsman_tests::guests;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::guests::guest;

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

#[test]
fn what_is_of_another_contract_is_told_alike_by_inspect_and_by_check() -> Result<()> {
    for (name, built_for) in [("older-contract", "0.0.9"), ("wrong-version", "0.2.0")] {
        let folder = TempDir::new()?;
        let component = folder.path().join("policies/p.wasm");
        fs::create_dir(folder.path().join("policies"))?;
        fs::write(&component, guest(name))?;
        let file = folder.path().join("pointsman.yaml");
        let text = "policies_dir: policies\nworker_selection:\n  aggregated: mine\n  instances:\n    - name: mine\n      type: p\n";
        fs::write(&file, text)?;
        let refused = look(&component, Arc::default()).err().context("it is refused")?;
        let refused = format!("{refused:#}");
        let begins = format!("p.wasm: built for pointsman:policy {built_for}; this host takes ");
        let (_, rest) = refused.split_once(&begins).context(refused.clone())?;
        let sentence = format!("{begins}{rest}");
        let problems = check_with(&file, &BTreeMap::new()).problems;
        assert!(problems.iter().any(|problem| problem.contains(&sentence)), "{problems:?}");
    }
    Ok(())
}
