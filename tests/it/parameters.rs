//! What a component's `about` says of its parameters is held against the YAML, by `check` and at the
//! start alike.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Result;
use pointsman::cli::check::{Report, check_with};
use pointsman_tests::guests;
use tempfile::TempDir;

/// Checks a file beside the component of `policies/default-cost`, whose `parameters` are these lines.
fn checked(parameters: &str) -> Result<Report> {
    let folder = TempDir::new()?;
    fs::create_dir(folder.path().join("policies"))?;
    fs::copy(guests::default_cost(), folder.path().join("policies/default-cost.wasm"))?;
    let file = folder.path().join("pointsman.yaml");
    let text = format!(
        "policies_dir: policies\nworker_selection:\n  aggregated: mine\n  instances:\n    - name: mine\n      \
         type: default-cost\n      parameters:\n{parameters}"
    );
    fs::write(&file, text)?;
    Ok(check_with(&file, &BTreeMap::new()))
}

/// A problem without what stands before the file's name.
fn told(problem: &str) -> &str {
    problem.rsplit_once("/pointsman.yaml:").map_or(problem, |(_, told)| told)
}

#[test]
fn each_parameter_that_does_not_fit_is_told_at_its_line() -> Result<()> {
    let report = checked(
        "        prefill_load_scale: 2\n        router_temperature: -1\n        shared_cache_multiplier: much\n        overlap_credit: 1\n",
    )?;
    assert!(!report.is_good());
    let problems: Vec<_> = report.problems.iter().map(|problem| told(problem)).collect();
    let path = "worker_selection.instances[0].parameters";
    let wants = "the schema of policy type \"default-cost\" wants that";
    assert!(
        problems.contains(&&*format!(
            "9:29: {path}.router_temperature: expected at least 0, found -1; {wants}"
        )),
        "{problems:?}"
    );
    assert!(problems.contains(
        &&*format!("10:34: {path}.shared_cache_multiplier: expected nothing or a number, found \"much\"; {wants}")
    ), "{problems:?}");
    let unknown = format!("11:25: {path}.overlap_credit: unknown key; ");
    assert!(problems.iter().any(|problem| problem.starts_with(&unknown)), "{problems:?}");
    assert_eq!(problems.len(), 3, "once each, and not once more by the component: {problems:?}");
    Ok(())
}

#[test]
fn a_component_without_a_schema_tells_all_that_it_refuses_each_at_its_line() -> Result<()> {
    let folder = TempDir::new()?;
    fs::create_dir(folder.path().join("policies"))?;
    fs::copy(guests::one_lane(), folder.path().join("policies/one-lane.wasm"))?;
    let file = folder.path().join("pointsman.yaml");
    let text = "policies_dir: policies\nworker_selection:\n  aggregated: mine\n  instances:\n    - name: mine\n      \
                type: one-lane\n      parameters:\n        least: 1\n        blocks: 2\n        worker: -1\n";
    fs::write(&file, text)?;
    let report = check_with(&file, &BTreeMap::new());
    let mut problems: Vec<_> = report.problems.iter().map(|problem| told(problem)).collect();
    problems.sort_unstable();
    let path = "worker_selection.instances[0].parameters";
    let begin = "instance \"mine\" for default: type \"one-lane\" refuses to be configured: ";
    let known = r#"expected \"worker\" or \"most_in_flight\""#;
    let expected = [
        format!(r#"8:16: {path}.least: {begin}"unknown parameter \"least\", {known}""#),
        format!(r#"9:17: {path}.blocks: {begin}"unknown parameter \"blocks\", {known}""#),
        format!(
            r#"10:17: {path}.worker: {begin}"parameter \"worker\": invalid value: integer \"-1\", expected u64""#
        ),
    ];
    let mut expected: Vec<_> = expected.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(problems, expected);
    Ok(())
}

#[test]
fn a_built_in_tells_all_that_it_refuses_each_at_its_line() -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("pointsman.yaml");
    let text = "worker_selection:\n  aggregated: mine\n  instances:\n    - name: mine\n      type: two-tier\n      \
                parameters:\n        cache_threshold: 2\n        balance: 1\n";
    fs::write(&file, text)?;
    let report = check_with(&file, &BTreeMap::new());
    let problems: Vec<_> = report.problems.iter().map(|problem| told(problem)).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().any(|problem| problem.starts_with("7:26: ")), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.starts_with("8:18: ")), "{problems:?}");
    Ok(())
}

#[test]
fn parameters_that_fit_and_files_of_ones_own_are_passed_in_silence() -> Result<()> {
    let report = checked("        router_temperature: 0.5\n        prefill_load_scale:\n")?;
    assert!(report.is_good(), "{report}");
    assert_eq!(report.instances.len(), 1);
    let about_files =
        |warning: &&String| warning.contains("belongs to") || warning.contains("schema");
    assert_eq!(report.warnings.iter().filter(about_files).count(), 0, "{report}");
    Ok(())
}

/// Checks a file beside the components of `tests/guests/one-lane`, as `gate`, and
/// `policies/session-admission`.
fn checked_classifier(folder: &str, section: &str) -> Result<Report> {
    let tree = TempDir::new()?;
    fs::create_dir(tree.path().join("policies"))?;
    // It says nothing of its parameters.
    fs::copy(guests::one_lane(), tree.path().join("policies/gate.wasm"))?;
    let admission = tree.path().join("policies/session-admission.wasm");
    fs::copy(guests::session_admission(), admission)?;
    let file = tree.path().join("pointsman.yaml");
    fs::write(&file, format!("{folder}request_classifier:\n{section}"))?;
    Ok(check_with(&file, &BTreeMap::new()))
}

const FOLDER: &str = "policies_dir: policies\n";

#[test]
fn all_that_a_classifier_refuses_is_told_in_one_run_each_at_its_line() -> Result<()> {
    let path = "request_classifier.parameters";
    let report = checked_classifier(
        FOLDER,
        "  type: gate\n  parameters:\n    worker: many\n    most: 1\n    most_in_flight: -1\n",
    )?;
    let problems: Vec<_> = report.problems.iter().map(|problem| told(problem)).collect();
    let begin = "request_classifier: type \"gate\" refuses to be configured: ";
    let [worker, most, in_flight] = &problems[..] else { panic!("{problems:?}") };
    assert!(worker.starts_with(&format!("5:13: {path}.worker: {begin}\"parameter ")), "{worker}");
    assert!(most.starts_with(&format!("6:11: {path}.most: {begin}\"unknown parameter ")), "{most}");
    assert!(in_flight.starts_with(&format!("7:21: {path}.most_in_flight: {begin}")), "{in_flight}");

    let section =
        "  type: session-admission\n  parameters:\n    most_in_flight: 0\n    most_hold: 1\n";
    let report = checked_classifier(FOLDER, section)?;
    let problems: Vec<_> = report.problems.iter().map(|problem| told(problem)).collect();
    let [in_flight, held] = &problems[..] else { panic!("{problems:?}") };
    assert!(in_flight.starts_with(&format!("5:21: {path}.most_in_flight: expected at least 1")));
    assert!(
        held.starts_with(&format!(
            "6:16: {path}.most_hold: unknown key; did you mean \"most_held\"?"
        ))
    );
    Ok(())
}

#[test]
fn a_classifier_that_there_is_not_is_told_with_what_to_do() -> Result<()> {
    for (folder, section, wanted) in [
        (
            "",
            "  type: gate\n",
            "2:9: request_classifier.type: unknown type of request classifiers \"gate\": none is built in, and no policies_dir is set; set it to the folder that has gate.wasm",
        ),
        (
            FOLDER,
            "  type: gaet\n",
            "3:9: request_classifier.type: unknown type of request classifiers \"gaet\"; known: gate, session-admission; did you mean \"gate\"?",
        ),
        (
            FOLDER,
            "  type: least-loaded\n",
            "3:9: request_classifier.type: request_classifier: type \"least-loaded\" is a policy and classifies no requests; name it in worker_selection",
        ),
    ] {
        let report = checked_classifier(folder, section)?;
        let problems: Vec<_> = report.problems.iter().map(|problem| told(problem)).collect();
        assert_eq!(problems, [wanted]);
    }
    Ok(())
}
