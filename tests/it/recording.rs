//! Decisions that are recorded, looked at, and made again.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use http::StatusCode;
use pointsman::load_client::Ask;
use pointsman::recorder::{Read, ReadDecision, read};
use pointsman::replay::{Again, Replay};
use pointsman_core::policy::selection::{Recipe, TypeUse};
use pointsman_core::policy::{Catalog, Limits};
use pointsman_tests::components;
use pointsman_tests::guests;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::json;

struct Recorded {
    rig: Rig,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

/// Records every decision of `plan`.
async fn start(mut plan: Plan, more: &str) -> Result<Recorded> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("decisions.jsonl");
    plan.more += &format!("recording: {{ percent: 100, file: {}{more} }}\n", file.display());
    Ok(Recorded { rig: plan.start().await?, file, _folder: folder })
}

async fn ask(rig: &Rig, prompts: usize) -> Result<()> {
    for n in 0..prompts {
        let answer = rig.public.ask(&Ask::new(MODEL, "some words ".repeat(n % 9 * 30 + 1))).await?;
        assert!(answer.is_good(), "{}", answer.text());
    }
    Ok(())
}

async fn written(rig: &Rig, wanted: usize) -> Result<()> {
    rig.wait_for("the decisions to be recorded", async || {
        let metrics = rig.admin.get("/metrics").await?.text();
        let line = "pointsman_recorded_decisions_total{outcome=\"recorded\"}";
        let line = metrics.lines().find(|l| l.starts_with(line)).context("it is counted")?;
        Ok(line.ends_with(&format!(" {wanted}")))
    })
    .await
}

fn decisions(file: &Path, replay: &mut Replay) -> Result<Vec<(Box<ReadDecision>, Again)>> {
    let mut all = Vec::new();
    for line in std::fs::read_to_string(file)?.lines() {
        match read(line)? {
            Read::Settings(settings) => replay.heed(*settings),
            Read::Decision(decision) => {
                let again = replay.decide(&decision)?;
                all.push((decision, again));
            }
            Read::Classifier(entry) => panic!("{entry:?}"),
            Read::Other(kind) => panic!("{kind}"),
        }
    }
    Ok(all)
}

fn recipe(policy_type: &str, parameters: serde_json::Value) -> Recipe {
    let parameters = parameters.as_object().cloned().unwrap_or_default();
    Recipe::Whole(TypeUse {
        policy_type: policy_type.into(),
        parameters: parameters.into(),
        limits: Limits::default(),
    })
}

#[tokio::test]
async fn a_component_makes_its_decisions_again_bit_for_bit_and_another_one_differs() -> Result<()> {
    let component = std::fs::read(guests::default_cost())?;
    let parameters = "{ router_temperature: 0.7, decode_active_request_weight: 3.1 }";
    let plan = Plan::new(5).with_policy("default-cost", component, parameters);
    let Recorded { rig, file, _folder } = start(plan, "").await?;
    ask(&rig, 60).await?;
    written(&rig, 60).await?;

    let mut catalog = Catalog::builtin();
    catalog.insert(components::load(guests::default_cost())?)?;
    let same = json!({ "router_temperature": 0.7, "decode_active_request_weight": 3.1 });
    let mut replay = Replay::by(catalog.clone(), recipe("default-cost", same.clone()));
    let all = decisions(&file, &mut replay)?;
    let exact = |(_, again): &(_, Again)| *again == Again::Same { same_cost: true };
    assert!(all.len() == 60 && all.iter().all(exact), "{:?}", replay.summary());
    assert!(replay.summary().stateless);
    // The built-in has the same formula.
    let mut builtin = Replay::by(catalog.clone(), recipe("default", same));
    decisions(&file, &mut builtin)?;
    assert_eq!(builtin.summary().same_to_the_last_bit, 60);

    let mut other = Replay::by(catalog, recipe("random", json!({})));
    decisions(&file, &mut other)?;
    let summary = other.summary();
    // Both draw from the decision's seed, so that they agree where nothing else counts.
    assert!(summary.differ > 3 && summary.same + summary.differ == 60, "{summary:?}");
    assert!(summary.cached_tokens_lost > 0, "{summary:?}");
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_recorded_decision_is_found_by_its_id_and_holds_no_prompt() -> Result<()> {
    let plan = Plan::new(3).with_least_busy()?;
    let Recorded { rig, file, _folder } = start(plan, ", memory: 16KiB").await?;
    ask(&rig, 30).await?;
    written(&rig, 30).await?;
    let latest = rig.admin_json("/v1/decisions?limit=2").await?["decisions"].take();
    let newest = &latest[0];
    let id = newest["decision_id"].as_u64().context("it has an id")?;
    assert_eq!(rig.admin_json(&format!("/v1/decisions/{id}")).await?, *newest);
    let recording = &newest["recording"];
    assert_eq!(recording["rows"].as_array().map(Vec::len), Some(3), "{newest:#}");
    for column in ["active-requests", "cached-tokens", "decode-cost-blocks"] {
        assert!(!recording["columns"][column].is_null(), "{column}: {newest:#}");
    }
    assert!(recording["stages"].as_array().is_some_and(|stages| !stages.is_empty()), "{newest:#}");
    assert_eq!(newest["hop"], 0);
    assert!(newest["ties"].as_u64().is_some_and(|ties| ties > 0), "{newest:#}");
    assert!(!std::fs::read_to_string(file)?.contains("some words"));

    let old = rig.admin.get("/v1/decisions/1").await?;
    assert_eq!(old.status, StatusCode::NOT_FOUND);
    assert!(old.text().contains("older ones may be in the file"), "{}", old.text());
    let bad = rig.admin.get("/v1/decisions/first").await?;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST, "{}", bad.text());
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn files_take_turns_and_each_can_be_read_by_itself() -> Result<()> {
    let plan = Plan::new(2).with_builtin("least-loaded");
    let Recorded { rig, file, _folder } = start(plan, ", max_file_size: 16KiB, files: 3").await?;
    ask(&rig, 40).await?;
    written(&rig, 40).await?;
    rig.stop().await;
    let mut numbered = file.clone().into_os_string();
    numbered.push(".1");
    for file in [file, numbered.into()] {
        let mut replay = Replay::by(Catalog::builtin(), recipe("least-loaded", json!({})));
        let all = decisions(&file, &mut replay)?;
        assert!(!all.is_empty());
        assert_eq!(replay.summary().same_to_the_last_bit, all.len() as u64);
    }
    Ok(())
}
