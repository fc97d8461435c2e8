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
    fs::copy(guests::least_busy(), folder.path().join("policies/least-busy.wasm"))?;
    let file = folder.path().join("pointsman.yaml");
    let text = "policies_dir: policies\nworker_selection:\n  aggregated: mine\n  instances:\n    - name: mine\n      \
                type: least-busy\n      parameters:\n        least: 1\n        blocks: 2\n";
    fs::write(&file, text)?;
    let report = check_with(&file, &BTreeMap::new());
    let mut problems: Vec<_> = report.problems.iter().map(|problem| told(problem)).collect();
    problems.sort_unstable();
    let path = "worker_selection.instances[0].parameters";
    let begin = "instance \"mine\" for default: type \"least-busy\" refuses to be configured: ";
    let expected = [
        format!(r#"8:9: {path}: {begin}"missing parameter \"min_device_overlap_blocks\"""#),
        format!(
            r#"8:16: {path}.least: {begin}"unknown parameter \"least\", expected \"min_device_overlap_blocks\"""#
        ),
        format!(
            r#"9:17: {path}.blocks: {begin}"unknown parameter \"blocks\", expected \"min_device_overlap_blocks\"""#
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
