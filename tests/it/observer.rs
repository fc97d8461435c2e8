//! Policies that learn, as a component in a folder: what became of decisions reaches them.

use anyhow::Result;
use pointsman::load_client::Ask;
use pointsman::mock_engine::Refuse;
use pointsman_tests::guests;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::Value;

const PARAMETERS: &str = "{ requests_per_failure: 100, half_life_seconds: 3600 }";

async fn partition(rig: &Rig) -> Result<Value> {
    Ok(rig.admin_json("/v1/policies").await?["instances"][0]["partitions"][0].take())
}

/// How many requests each engine has had.
fn received(rig: &Rig) -> Vec<u64> {
    rig.engines.iter().map(|engine| engine.stats().received).collect()
}

async fn ask(rig: &Rig) -> Result<bool> {
    Ok(rig.public.ask(&Ask::new(MODEL, "a question".to_owned())).await?.is_good())
}

#[tokio::test]
async fn a_component_that_learns_steers_around_a_worker_that_fails_and_knows_after_a_reload()
-> Result<()> {
    let component = std::fs::read(guests::avoid_failing())?;
    let rig =
        Plan::new(2).with_policy("avoid-failing", component.clone(), PARAMETERS).start().await?;
    // One failure, which isn't enough for the router itself to leave the worker out.
    rig.engines[0].control().update(|control| {
        control.refuse = Some(Refuse { times: Some(1), ..Refuse::status(500) });
    })?;
    let mut asked = 0;
    while ask(&rig).await? {
        asked += 1;
        assert!(asked < 100, "the first engine is never asked: {:?}", received(&rig));
    }
    rig.wait_for("the policy to have heard", async || {
        // Dispatched, first token and completed of each; dispatched and failed of the last.
        Ok(partition(&rig).await?["outcomes_told"] == 3 * asked + 2)
    })
    .await?;
    let before = received(&rig);
    for _ in 0..20 {
        assert!(ask(&rig).await?);
    }
    assert_eq!(received(&rig), [before[0], before[1] + 20]);
    let metrics = rig.admin.get("/metrics").await?.text();
    let batches = metrics.lines().find(|line| {
        line.starts_with("pointsman_outcome_batches_total{")
            && line.contains("outcome=\"good\"")
            && line.contains("policy=\"it\"")
    });
    assert!(batches.is_some_and(|line| !line.ends_with(" 0")), "{batches:?}");
    assert!(metrics.contains("stage=\"observe\""), "its fuel and time are metered");

    // The same again as another file: the new instance has the old one's memory.
    let mut newer = component;
    newer.extend(custom_section("marker", b"newer"));
    let older = rig.policy_type("avoid-failing").await?["active_digest"].take();
    rig.write_policy("avoid-failing", &newer)?;
    rig.wait_for("the newer one to decide", async || {
        Ok(rig.policy_type("avoid-failing").await?["active_digest"] != older)
    })
    .await?;
    for _ in 0..20 {
        assert!(ask(&rig).await?);
    }
    assert_eq!(received(&rig), [before[0], before[1] + 40]);
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

/// A custom section, which changes a component's digest and nothing else.
fn custom_section(name: &str, content: &[u8]) -> Vec<u8> {
    let mut section = vec![0, u8::try_from(1 + name.len() + content.len()).unwrap()];
    section.push(u8::try_from(name.len()).unwrap());
    section.extend_from_slice(name.as_bytes());
    section.extend_from_slice(content);
    section
}
