//! An author's loop, in one process: first crates of every kind, and the library's crates, as components
//! that keep to the contract and meet their cases.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman::author::examine::{Examination, Mark, examine};
use pointsman::author::race::race;
use pointsman::author::template::{Origin, Sdk, TemplateStage, Wanted, make};
use pointsman::author::{Given, Specimen};
use pointsman::cases::{CaseFile, Subject};
use pointsman_build::{GuestOptions, Quiet, Setup, Toolchain, build_policy};
use pointsman_core::ids::Role;
use pointsman_core::policy::Limits;
use pointsman_tests::guests;
use pointsman_tests::library::LIBRARY;

use crate::docs::root;

fn given(cases: &CaseFile) -> Given {
    Given { parameters: Arc::new(cases.parameters.clone()), from: "the cases'".to_owned() }
}

/// What was found, for a test that fails.
fn told(found: &Examination) -> String {
    let lines = found.findings.iter().map(|it| format!("{:?} {}: {}", it.mark, it.check, it.what));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_policy_of_the_library_keeps_to_the_contract() -> Result<()> {
    for entry in LIBRARY {
        let cases = root().join("policies").join(entry.name).join("cases.yaml");
        let specimen =
            Specimen::open(&guests::policy(entry.name), given(&CaseFile::read(&cases)?))?;
        let role = if entry.name == "disagg-roles" { Role::Prefill } else { Role::Aggregated };
        // Its lines in policy.yaml give it that.
        let more = ["pause-resume", "weighted-rollout"].contains(&entry.name);
        let fuel = more.then_some(20_000_000);
        let limits = Limits { fuel, ..Limits::default() };
        let found = examine(&Specimen { role, limits, ..specimen });
        eprintln!("{}\n{}", entry.name, told(&found));
        assert!(found.ok, "{}\n{}", entry.name, told(&found));
        assert_eq!(found.fuel.len(), 3, "{}", entry.name);
    }
    Ok(())
}

#[test]
fn a_limit_that_is_too_low_and_parameters_that_are_refused_are_told() -> Result<()> {
    let none = || Given { parameters: Arc::default(), from: "none were given".to_owned() };
    let wrong = |found: &Examination, check: &str| -> Result<String> {
        let of = found.findings.iter().find(|it| it.check == check && it.mark == Mark::Wrong);
        Ok(of.with_context(|| format!("{check} isn't wrong in\n{}", told(found)))?.what.clone())
    };
    let specimen = Specimen::open(&guests::policy("two-tier-cost"), none())?;
    let limits = Limits { fuel: Some(200_000), ..Limits::default() };
    let found = examine(&Specimen { limits, ..specimen });
    let what = wrong(&found, "fuel")?;
    assert!(!found.ok && what.contains("of 200,000 a call: such calls fail"), "{what}");
    assert!(found.fuel[0].percent < 100.0 && found.fuel[2].percent > 100.0, "{:?}", found.fuel);

    let found = examine(&Specimen::open(guests::least_busy(), none())?);
    let what = wrong(&found, "parameters")?;
    assert!(what.contains("min_device_overlap_blocks") && what.contains("--parameters"), "{what}");
    assert!(wrong(&found, "schema")?.contains("it refuses none were given"));

    // Both a policy and a classifier, each looked at.
    let found = examine(&Specimen::open(guests::one_lane(), none())?);
    assert!(found.ok, "{}", told(&found));
    let of: Vec<_> = found.fuel.iter().map(|figure| figure.of).collect();
    assert_eq!(of, ["requests", "requests", "requests", "rows", "rows", "rows"]);
    Ok(())
}

#[test]
fn a_policy_and_the_built_in_run_over_the_same_rows() -> Result<()> {
    let given = Given { parameters: Arc::default(), from: String::new() };
    let heats = race(&Specimen::open(&guests::policy("default-cost"), given)?);
    let heats = heats.map_err(anyhow::Error::msg)?;
    let rows: Vec<_> = heats.iter().map(|heat| heat.rows).collect();
    assert_eq!(rows, [64, 1_024, 4_096]);
    for heat in &heats {
        assert!(heat.policy.us > 0.0 && heat.default.us > 0.0 && heat.times > 0.0, "{heat:?}");
        assert!(heat.policy.fuel.is_some_and(|fuel| fuel > 1_000) && heat.default.fuel.is_none());
    }
    let refuses = Given { parameters: Arc::default(), from: String::new() };
    let words = race(&Specimen::open(guests::least_busy(), refuses)?).map(drop);
    assert!(words.is_err_and(|words| words.contains("min_device_overlap_blocks")));
    Ok(())
}

/// Crates that the tests make; the same places in every run, so that cargo builds what has changed.
fn workshop() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("first-crates")
}

#[test]
fn a_first_crate_of_every_kind_builds_meets_its_cases_and_keeps_to_the_contract() -> Result<()> {
    let toolchain = Toolchain::ensure(&Setup::from_env()?, &Quiet)?;
    let sdk = Sdk::found([root().as_path()])?;
    for stage in TemplateStage::ALL {
        let name = format!("first-{stage:?}").to_lowercase();
        let folder = workshop().join(&name);
        drop(std::fs::remove_dir_all(&folder));
        make(&Wanted { name, stage, origin: Origin::Rust(sdk.clone()), folder: folder.clone() })?;
        let options = GuestOptions { offline: true, ..GuestOptions::default() };
        let built = build_policy(&toolchain, &folder, &options, &Quiet)?;
        let cases = CaseFile::read(&folder.join("cases.yaml"))?;
        let specimen = Specimen::open(&built.component, given(&cases))?;
        let component = &specimen.component;
        let subject = Subject {
            policy: component.selects_workers().then(|| component.clone() as _),
            classifier: component.classifies_requests().then(|| component.clone() as _),
        };
        assert_eq!(component.classifies_requests(), stage == TemplateStage::Classifier);
        for case in cases.run(&subject) {
            assert_eq!(case.failure, None, "{stage:?}: {:?}", case.name);
        }
        let found = examine(&specimen);
        assert!(found.ok, "{stage:?}\n{}", told(&found));
        let notes = found.findings.iter().filter(|it| it.mark == Mark::Note);
        let notes: Vec<_> = notes.map(|it| it.check).collect();
        assert!(notes.is_empty(), "{stage:?} has something to note: {}", told(&found));
    }
    Ok(())
}
