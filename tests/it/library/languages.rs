//! `least-busy` in other languages, and what a new policy in them begins with.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use pointsman::author::examine::examine;
use pointsman::author::template::{Origin, TemplateStage, Wanted, make};
use pointsman::author::{Given, Specimen};
use pointsman::cases::{CaseFile, Subject};
use pointsman_core::classifier::ClassifierProvider;
use pointsman_core::ids::Role;
use pointsman_core::policy::PolicyProvider;
use pointsman_tests::languages::{Component, build};
use pointsman_tests::library::{Entry, LIBRARY, Native};
use pointsman_tests::{components, guests};
use pointsman_wasm::ComponentPolicy;
use serde_json::Value;

use super::TRIPLES;
use super::decisions::{self, Place};
use super::fuel::fuel;
use crate::docs::root;

/// Decisions of Python, a call of which takes as long as a hundred of Rust's.
const FEWER_TRIPLES: u64 = 2_000;

fn least_busy() -> Result<(&'static Entry, Arc<dyn PolicyProvider>)> {
    let entry = LIBRARY.iter().find(|entry| entry.name == "least-busy").context("it is there")?;
    let Native::Policy(native) = entry.native else { anyhow::bail!("it is a policy") };
    Ok((entry, native()))
}

fn load(component: &Component) -> Result<Arc<ComponentPolicy>> {
    let bytes = std::fs::read(&component.file)?;
    let name = component.file.file_stem().and_then(|stem| stem.to_str()).context("a name")?;
    Ok(Arc::new(ComponentPolicy::load(components::engine()?, name, &component.file, &bytes)?))
}

/// Every case of the file is met.
fn meets(policy: &Arc<ComponentPolicy>, cases: &Path) -> Result<()> {
    let subject = Subject {
        policy: policy.selects_workers().then(|| policy.clone() as Arc<dyn PolicyProvider>),
        classifier: policy
            .classifies_requests()
            .then(|| policy.clone() as Arc<dyn ClassifierProvider>),
    };
    let outcomes = CaseFile::read(cases)?.run(&subject);
    ensure!(outcomes.len() >= 4, "{} cases", outcomes.len());
    let failed = outcomes.into_iter().filter_map(|case| Some((case.name, case.failure?)));
    let failed: BTreeMap<_, _> = failed.collect();
    ensure!(failed.is_empty(), "{failed:#?}");
    Ok(())
}

fn schema(policy: &ComponentPolicy) -> Result<Value> {
    let described = policy.describe().context("it describes itself")?;
    Ok(serde_json::from_str(&described.parameters_schema)?)
}

/// The sample in a folder of `policies/least-busy`, beside the native build.
fn is_least_busy(language: &str, triples: u64) -> Result<()> {
    let folder = root().join("policies/least-busy");
    let Some(component) = build(&folder.join(language))? else { return Ok(()) };
    let policy = load(&component)?;
    let imports = policy.imports();
    ensure!(imports.iter().all(|name| name.starts_with("pointsman:policy/")), "{imports:?}");
    meets(&policy, &folder.join("cases.yaml"))?;

    let (entry, native) = least_busy()?;
    let bytes = std::fs::read(guests::least_busy())?;
    let rust =
        ComponentPolicy::load(components::engine()?, entry.name, guests::least_busy(), &bytes)?;
    assert_eq!(schema(&policy)?, schema(&rust)?);
    decisions::agree_over(triples, entry, &[native, policy.clone()])?;

    // With `--nocapture`: the catalogue's figures.
    let place = Place::new(Role::Aggregated, 16, entry.parameters[0])?;
    let mut figures = Vec::new();
    for rows in [1, 64, 1_024, 4_096] {
        let provider: Arc<dyn PolicyProvider> = policy.clone();
        figures.push(fuel(&mut place.pipeline(&provider)?, &place, rows)?);
    }
    eprintln!("{language}: {} bytes, fuel {figures:?}", policy.size());
    let most = policy.class().limits().fuel.context("a class has a limit")?;
    let [.., large, largest] = figures[..] else { anyhow::bail!("{figures:?}") };
    ensure!(large < most / 4 && largest < most / 4 * 3, "{figures:?} of {most}");
    Ok(())
}

/// A new policy of every stage builds as it stands and meets the cases that it comes with; nothing is wrong with it.
fn begins_well(origin: &Origin) -> Result<()> {
    for stage in TemplateStage::ALL {
        let place = tempfile::tempdir()?;
        let folder = place.path().join("my-first");
        let name = "my-first".to_owned();
        make(&Wanted { name, stage, origin: origin.clone(), folder: folder.clone() })?;
        let Some(component) = build(&folder)? else { return Ok(()) };
        ensure!(component.file.ends_with("my-first.wasm"), "{component:?}");
        let cases = folder.join("cases.yaml");
        let parameters = Arc::new(CaseFile::read(&cases)?.parameters);
        let given = Given { parameters, from: "the cases'".to_owned() };
        let specimen = Specimen::open(&component.file, given)?;
        meets(&specimen.component, &cases).with_context(|| format!("{stage:?}"))?;
        let written = std::fs::read_to_string(folder.join("parameters.schema.json"))?;
        let written = serde_json::from_str::<Value>(&written)?;
        assert_eq!(schema(&specimen.component)?, written, "{stage:?}");
        // A whole policy has the other stages of a decision, and to look at it takes a while.
        if [TemplateStage::Policy, TemplateStage::Classifier].contains(&stage) {
            let found = examine(&specimen);
            ensure!(found.ok, "{stage:?}: {:#?}", found.findings);
        }
    }
    Ok(())
}

#[test]
fn least_busy_in_python_meets_its_cases_and_chooses_as_in_rust() -> Result<()> {
    is_least_busy("python", FEWER_TRIPLES)
}

#[test]
fn least_busy_in_javascript_meets_its_cases_and_chooses_as_in_rust() -> Result<()> {
    is_least_busy("js", TRIPLES)
}

#[test]
fn least_busy_in_c_meets_its_cases_and_chooses_as_in_rust() -> Result<()> {
    is_least_busy("c", TRIPLES)
}

#[test]
fn new_policies_in_python_build_and_meet_their_cases() -> Result<()> {
    begins_well(&Origin::Python)
}

#[test]
fn new_policies_in_javascript_build_and_meet_their_cases() -> Result<()> {
    begins_well(&Origin::JavaScript)
}
