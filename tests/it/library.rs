//! The library of policies, as a table: every crate's cases, and its native build and its component beside
//! each other over generated fleets, requests and seeds.

mod admissions;
pub(crate) mod decisions;
mod documents;
mod fuel;
mod languages;

use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman::cases::{CaseFile, Subject};
use pointsman_core::policy::{Catalog, PolicyProvider};
use pointsman_tests::library::{Entry, LIBRARY, Native};
use pointsman_tests::{components, guests};
use pointsman_wasm::ComponentPolicy;

use crate::docs::root;

/// Decisions, or calls of a classifier, that both builds of a crate are asked for.
const TRIPLES: u64 = 10_000;

fn component(entry: &Entry) -> Result<Arc<ComponentPolicy>> {
    let path = guests::policy(entry.name);
    let bytes = std::fs::read(&path)?;
    Ok(Arc::new(ComponentPolicy::load(components::engine()?, entry.name, &path, &bytes)?))
}

/// The crate's two builds as policies; none if it is none.
fn policies(entry: &Entry) -> Result<Option<[Arc<dyn PolicyProvider>; 2]>> {
    let Native::Policy(native) = entry.native else { return Ok(None) };
    Ok(Some([native(), component(entry)?]))
}

#[test]
fn every_crate_of_the_library_stands_in_the_table() -> Result<()> {
    let mut folders = Vec::new();
    for found in std::fs::read_dir(root().join("policies"))? {
        let path = found?.path();
        if path.join("Cargo.toml").is_file() {
            folders.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    folders.sort();
    let names: Vec<_> = LIBRARY.iter().map(|entry| entry.name).collect();
    assert_eq!(names, folders);
    Ok(())
}

#[test]
fn every_crates_cases_pass_natively_and_in_its_component() -> Result<()> {
    let mut failures = Vec::new();
    for entry in LIBRARY {
        let path = root().join("policies").join(entry.name).join("cases.yaml");
        let file = CaseFile::read(&path)?;
        let component = component(entry)?;
        let subjects = match entry.native {
            Native::Policy(native) => [native(), component]
                .map(|policy| Subject { policy: Some(policy), classifier: None }),
            Native::Classifier(native) => [native(), component]
                .map(|classifier| Subject { policy: None, classifier: Some(classifier) }),
        };
        for (build, subject) in ["native", "component"].into_iter().zip(&subjects) {
            let outcomes = file.run(subject);
            assert!(outcomes.len() >= 4, "{} has {} cases", entry.name, outcomes.len());
            let failed = outcomes.into_iter().filter_map(|case| Some((case.failure?, case.name)));
            failures.extend(
                failed.map(|(what, case)| format!("{} ({build}), {case:?}: {what}", entry.name)),
            );
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

#[test]
fn native_build_and_component_decide_the_same_over_generated_fleets_requests_and_seeds()
-> Result<()> {
    for entry in LIBRARY {
        match entry.native {
            Native::Policy(_) => {
                decisions::agree(entry, &policies(entry)?.context("it is a policy")?)?;
            }
            Native::Classifier(native) => admissions::agree(entry, native(), component(entry)?)?,
        }
    }
    Ok(())
}

#[test]
fn two_tier_cost_chooses_the_rows_of_the_built_in() -> Result<()> {
    let entry =
        LIBRARY.iter().find(|entry| entry.name == "two-tier-cost").context("it is there")?;
    let builtin = Catalog::builtin().get("two-tier").context("the built-in")?.clone();
    decisions::agree(entry, &[builtin, component(entry)?])
}
