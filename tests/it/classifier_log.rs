//! A request classifier's log: kept by a running router, and put to others afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman::load_client::Ask;
use pointsman::recorder::{Read, read};
use pointsman::replay::classifier::{CallSummary, ClassifierReplay, Difference, Differs};
use pointsman_core::classifier::Logged;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use pointsman_tests::{components, guests};
use pointsman_wasm::ComponentPolicy;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::guests::guest;

struct Kept {
    rig: Rig,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

/// A router that keeps the log of `session-admission`, which lets one request through at a time.
async fn start(more: &str) -> Result<Kept> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("log.jsonl");
    let mut plan = Plan::new(1);
    let component = std::fs::read(guests::session_admission())?;
    plan.policies.push(("session-admission.wasm".to_owned(), component));
    plan.more = format!(
        "health: {{ interval: 1h }}
request_classifier: {{ type: session-admission, parameters: {{ most_in_flight: 1 }} }}
recording: {{ request_classifier: true, file: {}{more} }}
",
        file.display()
    );
    Ok(Kept { rig: plan.start().await?, file, _folder: folder })
}

async fn held(rig: &Rig) -> Result<Value> {
    let mut status = rig.admin_json("/v1/policies").await?;
    Ok(status["request_classifier"]["partitions"][0]["held_now"].take())
}

/// One request is under way while so many of other sessions come and are held; then all are answered.
async fn traffic(rig: &Rig, held_back: u64) -> Result<()> {
    let frozen = |frozen| rig.engines[0].control().update(|control| control.frozen = frozen);
    frozen(true)?;
    let mut running = JoinSet::new();
    for n in 0..=held_back {
        let client = rig.public.clone();
        let session = Some(format!("s{n}"));
        let ask = Ask { session, ..Ask::new(MODEL, format!("prompt {n}")) };
        running.spawn(async move { client.ask(&ask).await });
        rig.wait_for("it to be under way, or held", async || {
            Ok(rig.active_requests().await? == 1 && held(rig).await? == n)
        })
        .await?;
    }
    frozen(false)?;
    while let Some(answer) = running.join_next().await {
        let answer = answer??;
        anyhow::ensure!(answer.is_good(), "{}", answer.text());
    }
    rig.wait_for_idle().await
}

fn entries(file: &Path) -> Result<Vec<pointsman_core::classifier::LogEntry>> {
    let mut entries = Vec::new();
    for line in std::fs::read_to_string(file)?.lines() {
        match read(line)? {
            Read::Classifier(entry) => entries.push(*entry),
            other => anyhow::bail!("{other:?}"),
        }
    }
    Ok(entries)
}

fn component(name: &str, bytes: &[u8]) -> Result<Arc<ComponentPolicy>> {
    let path = PathBuf::from(format!("{name}.wasm"));
    Ok(Arc::new(ComponentPolicy::load(components::engine()?, name, &path, bytes)?))
}

fn session_admission() -> Result<Arc<ComponentPolicy>> {
    component("session-admission", &std::fs::read(guests::session_admission())?)
}

fn repeated(
    file: &Path,
    by: Arc<ComponentPolicy>,
    parameters: Option<Map<String, Value>>,
) -> Result<(CallSummary, Vec<Difference>)> {
    let mut replay = ClassifierReplay::by(by, parameters);
    let mut differences = Vec::new();
    for entry in entries(file)? {
        replay.repeat(&entry, &mut |one| differences.push(one))?;
    }
    replay.finish(&mut |one| differences.push(one));
    Ok((replay.summary().clone(), differences))
}

#[tokio::test]
async fn the_same_component_answers_a_kept_log_the_same_and_a_changed_one_differs() -> Result<()> {
    let Kept { rig, file, _folder } = start("").await?;
    traffic(&rig, 4).await?;
    // Another instance takes over, whose log begins anew.
    let mut newer = std::fs::read(guests::session_admission())?;
    newer.extend_from_slice(b"\0\x05\x04newr");
    rig.write_policy("session-admission", &newer)?;
    let digest = async |rig: &Rig| -> Result<Value> {
        let mut status = rig.admin_json("/v1/policies").await?;
        Ok(status["request_classifier"]["partitions"][0]["instance"]["digest"].take())
    };
    let before = digest(&rig).await?;
    rig.wait_for("the new one to be there", async || Ok(digest(&rig).await? != before)).await?;
    traffic(&rig, 2).await?;
    let metrics = rig.admin.get("/metrics").await?.text().to_owned();
    assert!(metrics.contains("pointsman_recorded_classifier_calls_total{outcome=\"dropped\"} 0"));
    rig.stop().await;

    let kept = entries(&file)?;
    let began = kept.iter().filter(|entry| matches!(entry.what, Logged::Began(_))).count();
    assert_eq!(began, 2);
    assert!(!std::fs::read_to_string(&file)?.contains("prompt 1"), "no text of a prompt");
    let (summary, differences) = repeated(&file, session_admission()?, None)?;
    assert_eq!(differences, []);
    assert!(summary.is_exact(), "{summary:?}");
    assert_eq!((summary.instances, summary.calls), (2, kept.len() as u64 - 2));
    assert_eq!((summary.held_was.requests, summary.held_now.requests), (6, 6));

    // With another parameter it lets two through at a time.
    let two = json!({ "most_in_flight": 2 }).as_object().cloned();
    let (summary, differences) = repeated(&file, session_admission()?, two)?;
    assert!(!summary.is_exact());
    assert_eq!(summary.held_now.requests, 4, "one less each time: {summary:?}");
    let verdicts = differences.iter().filter(|one| matches!(one.what, Differs::Verdict { .. }));
    assert_eq!(verdicts.count(), 2, "{differences:#?}");
    let shorter = differences
        .iter()
        .filter(|one| matches!(&one.what, Differs::Held { was: Some(_), now: None, .. }));
    assert_eq!(shorter.count(), 2, "{differences:#?}");

    // Another component holds all; those who were sent are admitted in its place.
    let holds = component("holds", &guest("classifier-holds-everything"))?;
    let (summary, _) = repeated(&file, holds, None)?;
    assert_eq!((summary.overtaken, summary.held_now.requests), (8, 8), "{summary:?}");
    Ok(())
}

#[tokio::test]
async fn a_log_whose_beginning_is_gone_is_not_repeated() -> Result<()> {
    let Kept { rig, file, _folder } = start(", max_file_size: 4KiB, files: 2").await?;
    traffic(&rig, 12).await?;
    rig.stop().await;
    let (summary, differences) = repeated(&file, session_admission()?, None)?;
    assert_eq!((summary.calls, differences.len()), (0, 0));
    assert!(summary.left_out > 0 && !summary.is_exact());
    let gap = summary.gaps.first().context("it is told")?.to_string();
    assert!(gap.contains("name the older files first"), "{gap}");
    Ok(())
}

#[tokio::test]
async fn logs_are_kept_only_where_somebody_wants_them_and_in_a_file() -> Result<()> {
    let mut plan = Plan::new(1);
    plan.more += "recording: { request_classifier: true }\n";
    let refused = plan.start().await.err().context("it is refused")?;
    assert!(format!("{refused:#}").contains("set `file`"), "{refused:#}");
    Ok(())
}
