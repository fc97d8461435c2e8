//! One component that is a policy and a request classifier: used for both in one YAML, and reloaded
//! for both at once.

use anyhow::{Context, Result};
use pointsman::load_client::Ask;
use pointsman_tests::guests;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::Value;
use tokio::task::JoinSet;

/// All requests go to worker 2, and one at a time.
async fn start() -> Result<(Rig, Vec<u8>)> {
    let component = std::fs::read(guests::one_lane())?;
    let mut plan = Plan::new(3).with_policy("one-lane", component.clone(), "{ worker: 2 }");
    // A frozen engine answers no probe either.
    plan.more = "health: { interval: 1h }
request_classifier: { type: one-lane, parameters: { most_in_flight: 1 } }
"
    .to_owned();
    Ok((plan.start().await?, component))
}

async fn classifier(rig: &Rig) -> Result<Value> {
    let status = rig.admin_json("/v1/policies").await?;
    let partition = &status["request_classifier"]["partitions"][0];
    anyhow::ensure!(partition.is_object(), "{status:#}");
    Ok(partition.clone())
}

fn ask(rig: &Rig, prompt: &str, running: &mut JoinSet<Result<String>>) {
    let (client, prompt) = (rig.public.clone(), prompt.to_owned());
    running.spawn(async move {
        let answer = client.ask(&Ask::new(MODEL, &prompt)).await?;
        anyhow::ensure!(answer.is_good(), "{prompt}: {} {}", answer.status, answer.text());
        Ok(prompt)
    });
}

/// Requests that are under way, and those that are held.
async fn counts(rig: &Rig) -> Result<(u64, Value)> {
    Ok((rig.active_requests().await?, classifier(rig).await?["held_now"].take()))
}

#[tokio::test]
async fn one_component_selects_workers_and_classifies_and_a_new_version_takes_both_places()
-> Result<()> {
    let (rig, component) = start().await?;
    rig.engines[1].control().update(|control| control.frozen = true)?;
    let mut running = JoinSet::new();
    ask(&rig, "one", &mut running);
    rig.wait_for("the first to be under way", async || Ok(counts(&rig).await? == (1, 0.into())))
        .await?;
    for (held, prompt) in [(1_u64, "two"), (2, "three")] {
        ask(&rig, prompt, &mut running);
        rig.wait_for("it to be held", async || Ok(counts(&rig).await? == (1, held.into()))).await?;
    }
    let before = classifier(&rig).await?["instance"]["digest"].take();
    let deciding = rig.policy_type("one-lane").await?["active_digest"].take();
    assert_eq!(before, deciding, "one file is both");

    let mut newer = component;
    newer.extend_from_slice(b"\0\x05\x04newr");
    rig.write_policy("one-lane", &newer)?;
    rig.wait_for("both to be the new version", async || {
        let (classifies, decides) =
            (classifier(&rig).await?, rig.policy_type("one-lane").await?["active_digest"].take());
        let digest = &classifies["instance"]["digest"];
        // It has been asked about what is held.
        Ok(*digest != before && *digest == decides && classifies["classified"] == 5)
    })
    .await?;
    assert_eq!(counts(&rig).await?, (1, 2.into()), "it knows what is under way, and holds on");

    rig.engines[1].control().update(|control| control.frozen = false)?;
    let mut answered = Vec::new();
    while let Some(one) = running.join_next().await {
        answered.push(one??);
    }
    assert_eq!(answered.len(), 3);
    ask(&rig, "four", &mut running);
    assert_eq!(running.join_next().await.context("it was sent")???, "four");
    let receipts = rig.admin_json("/v1/receipts").await?;
    let receipts = receipts["receipts"].as_array().context("there are receipts")?.clone();
    assert!(
        receipts.len() == 4 && receipts.iter().all(|one| one["worker_id"] == 2),
        "{receipts:#?}"
    );
    assert!(receipts.iter().all(|one| one["policy"]["type"] == "one-lane"), "{receipts:#?}");
    let counts = classifier(&rig).await?;
    assert_eq!((&counts["lost"], &counts["unclassified"]), (&0.into(), &0.into()), "{counts:#}");
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn each_section_is_refused_for_its_own_parameters() -> Result<()> {
    let component = std::fs::read(guests::one_lane())?;
    let plan = |policys: &str, classifiers: &str| {
        let mut plan = Plan::new(1).with_policy("one-lane", component.clone(), policys);
        plan.more +=
            &format!("request_classifier: {{ type: one-lane, parameters: {classifiers} }}\n");
        plan.start()
    };
    for (policys, classifiers, section) in
        [("{ x: 1 }", "{}", "worker_selection"), ("{}", "{ x: 1 }", "request_classifier")]
    {
        let refused = plan(policys, classifiers).await.err().context("it is refused")?;
        let text = format!("{refused:#}");
        assert!(text.contains(section) && text.contains("unknown parameter"), "{text}");
    }
    plan("{}", "{}").await?.stop().await;
    Ok(())
}
