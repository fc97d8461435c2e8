//! A policy is replaced while traffic flows: nothing fails, and every answer is of one version.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use pointsman::load_client::Ask;
use pointsman_build::digest;
use pointsman_tests::rig::{MODEL, Plan};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// Requests that wait for an answer, at most.
const MOST_AT_ONCE: usize = 64;

fn versions() -> Result<[Vec<u8>; 2]> {
    Ok([
        std::fs::read(pointsman_tests::guests::least_busy())?,
        std::fs::read(pointsman_tests::guests::least_prefill())?,
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_replacements_under_200_requests_a_second_fail_none() -> Result<()> {
    let versions = versions()?;
    let digests: Vec<String> = versions.iter().map(|bytes| digest(bytes)).collect();
    let rig = Plan::new(3)
        .with_policy("least-busy", versions[0].clone(), "{ min_device_overlap_blocks: 0 }")
        .start()
        .await?;
    let done = Arc::new(AtomicBool::new(false));
    let flow = {
        let (client, done) = (rig.public.clone(), done.clone());
        async move {
            let (mut running, mut answers) = (JoinSet::new(), Vec::new());
            let mut tick = tokio::time::interval(Duration::from_millis(5));
            // A machine that can't keep up isn't asked for more and more at once.
            tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
            while !done.load(Ordering::Relaxed) {
                tick.tick().await;
                while running.len() >= MOST_AT_ONCE {
                    answers.extend(running.join_next().await);
                }
                let client = client.clone();
                running.spawn(async move { client.ask(&Ask::new(MODEL, "hello")).await });
            }
            while let Some(answer) = running.join_next().await {
                answers.push(answer);
            }
            answers
        }
    };
    let swaps = async {
        for n in 1..=20 {
            rig.write_policy("least-busy", &versions[n % 2])?;
            rig.wait_for_digest("least-busy", &digests[n % 2]).await?;
        }
        done.store(true, Ordering::Relaxed);
        anyhow::Ok(())
    };
    let (answers, swapped) = tokio::join!(flow, swaps);
    swapped?;
    let mut seen = BTreeSet::new();
    for answer in answers {
        let answer = answer??;
        assert!(answer.is_good(), "{} {}", answer.status, answer.text());
        let version = answer.policy().strip_prefix("it@").map(str::to_owned);
        assert!(
            digests.iter().any(|digest| Some(&digest[..12]) == version.as_deref()),
            "{}",
            answer.policy()
        );
        seen.insert(version);
    }
    assert_eq!(seen.len(), 2, "both versions decided");
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn an_invalid_component_leaves_the_last_good_one_serving_and_says_why() -> Result<()> {
    let [good, better] = versions()?;
    let rig = Plan::new(1)
        .with_policy("least-busy", good.clone(), "{ min_device_overlap_blocks: 0 }")
        .start()
        .await?;
    let half = &good[..good.len() / 2];
    for bad in [&b"not wasm at all"[..], half, b""] {
        rig.write_policy("least-busy", bad)?;
        rig.wait_for("the error to be shown", async || {
            Ok(rig.policy_type("least-busy").await?["error"].is_string())
        })
        .await?;
        let shown = rig.policy_type("least-busy").await?;
        assert_eq!(shown["active_digest"], digest(&good), "{shown}");
        let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
        assert!(
            answer.is_good() && answer.policy().ends_with(&digest(&good)[..12]),
            "{}",
            answer.policy()
        );
    }
    rig.write_policy("least-busy", &better)?;
    rig.wait_for_digest("least-busy", &digest(&better)).await?;
    assert_eq!(rig.policy_type("least-busy").await?["error"], Value::Null);
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_component_that_is_removed_goes_on_until_it_returns() -> Result<()> {
    let [good, better] = versions()?;
    let rig = Plan::new(1)
        .with_policy("least-busy", good.clone(), "{ min_device_overlap_blocks: 0 }")
        .start()
        .await?;
    std::fs::remove_file(rig.policies_dir().join("least-busy.wasm"))?;
    rig.wait_for("the removal to be shown", async || {
        Ok(rig.policy_type("least-busy").await?["error"].is_string())
    })
    .await?;
    let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
    assert!(
        answer.is_good() && answer.policy().ends_with(&digest(&good)[..12]),
        "{}",
        answer.policy()
    );
    rig.write_policy("least-busy", &better)?;
    rig.wait_for_digest("least-busy", &digest(&better)).await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn changed_yaml_changes_the_policy_without_a_restart() -> Result<()> {
    let rig = Plan::new(2).with_builtin("round-robin").start().await?;
    assert_eq!(rig.public.ask(&Ask::new(MODEL, "hello")).await?.policy(), "it@builtin");
    rig.write_policy("least-busy", &versions()?[0])?;
    let before = std::fs::read_to_string(rig.config_file())?;
    let after = before.replace(
        "type: round-robin }",
        "type: least-busy, parameters: { min_device_overlap_blocks: 0 } }",
    );
    assert_ne!(before, after);
    pointsman_build::write_atomically(&rig.config_file(), after.as_bytes())?;
    let want = format!("it@{}", &digest(&versions()?[0])[..12]);
    rig.wait_for("the component to decide", async || {
        let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
        assert!(answer.is_good(), "{}", answer.text());
        Ok(answer.policy() == want)
    })
    .await?;

    // A file that is wrong changes nothing.
    pointsman_build::write_atomically(
        &rig.config_file(),
        b"worker_selection: { aggregated: nobody }\n",
    )?;
    let reload = rig.admin.post("/v1/policies/reload", &serde_json::json!({})).await?;
    assert_eq!(reload.status, http::StatusCode::CONFLICT, "{}", reload.text());
    assert!(reload.text().contains("nobody"), "{}", reload.text());
    assert_eq!(rig.public.ask(&Ask::new(MODEL, "hello")).await?.policy(), want);
    rig.stop().await;
    Ok(())
}
