//! Policies on their way in, as an operator sees them: shadows that are only watched, and canaries
//! that are rolled back.

use anyhow::Result;
use http::Method;
use pointsman::load_client::Ask;
use pointsman_tests::guests;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::{Value, json};

use crate::containment::{LONG, SCORE_LOAD, at_long_prompts, last_receipt};

async fn ask(rig: &Rig, prompt: &str) -> Result<()> {
    let answer = rig.public.ask(&Ask::new(MODEL, prompt.to_owned())).await?;
    assert!(answer.is_good(), "{}", answer.text());
    Ok(())
}

async fn partition(rig: &Rig) -> Result<Value> {
    Ok(rig.admin_json("/v1/policies").await?["instances"][0]["partitions"][0].take())
}

fn selection(live: &str, rollout: &str, other: &str) -> String {
    format!(
        "  aggregated: live\n  instances:\n    - {{ name: live, type: {live}, {rollout} }}\n    \
         - {{ name: next, type: {other} }}\n"
    )
}

#[tokio::test]
async fn a_shadow_that_is_the_same_policy_as_a_component_agrees_always() -> Result<()> {
    let mut plan = Plan::new(4);
    plan.policies.push(("default-cost.wasm".to_owned(), std::fs::read(guests::default_cost())?));
    plan.selection =
        selection("default", "shadow: [{ instance: next, budget_percent: 100 }]", "default-cost");
    let rig = plan.start().await?;
    for n in 0..60 {
        ask(&rig, &format!("{} {n}", "a word ".repeat(n % 7 * 40))).await?;
    }
    rig.wait_for("the shadow to have seen all", async || {
        Ok(partition(&rig).await?["shadows"][0]["decisions"] == 60)
    })
    .await?;
    let shadow = partition(&rig).await?["shadows"][0].take();
    assert_eq!((&shadow["agreed"], &shadow["failed"]), (&json!(60), &json!(0)), "{shadow}");
    assert_eq!(shadow["type"], "default-cost");
    assert_eq!(shadow["percent"], 100.0, "{shadow}");
    assert!(shadow["fuel"].as_f64().is_some_and(|fuel| fuel > 0.0), "{shadow}");
    let metrics = rig.admin.get("/metrics").await?.text();
    let agreed = metrics.lines().find(|line| {
        line.starts_with("pointsman_shadow_decisions_total{")
            && line.contains("shadow=\"next\"")
            && line.contains("outcome=\"agreed\"")
    });
    assert!(agreed.is_some_and(|line| line.ends_with(" 60")), "{agreed:?}");
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_shadow_that_differs_is_told_apart_and_changes_nothing() -> Result<()> {
    let mut plan = Plan::new(2);
    // It says no to long prompts, and takes the first row of others.
    let guest = at_long_prompts("score", SCORE_LOAD, "(return (call $refuse))");
    plan.policies.push(("guest.wasm".to_owned(), guest));
    plan.selection = selection("round-robin", "shadow: [next]", "guest");
    let rig = plan.start().await?;
    for _ in 0..10 {
        ask(&rig, "short").await?;
        ask(&rig, "short").await?;
        ask(&rig, &"x".repeat(LONG)).await?;
    }
    rig.wait_for("the shadow to have seen all", async || {
        Ok(partition(&rig).await?["shadows"][0]["decisions"] == 30)
    })
    .await?;
    let at = partition(&rig).await?;
    let shadow = &at["shadows"][0];
    assert_eq!(shadow["failed"], 10, "{shadow}");
    // Every other goes to the first row.
    assert_eq!(shadow["agreed"], 10, "{shadow}");
    assert!(shadow["last_error"].as_str().is_some_and(|e| e.contains("refused")), "{shadow}");
    assert_eq!((&at["fallbacks"], &at["failures"]["refused"]), (&json!(0), &json!(0)));
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_canary_that_fails_is_rolled_back_and_tried_again_when_an_operator_says_so() -> Result<()>
{
    let mut plan = Plan::new(2);
    let guest = at_long_prompts("score", SCORE_LOAD, "(return (call $refuse))");
    plan.policies.push(("guest.wasm".to_owned(), guest));
    plan.selection = selection(
        "round-robin",
        "canary: { instance: next, percent: 100, judged_by: 200 }",
        "guest",
    );
    let rig = plan.start().await?;
    let policy = async |prompt: &str| -> Result<String> {
        ask(&rig, prompt).await?;
        Ok(last_receipt(&rig).await?["policy"]["name"].as_str().unwrap().to_owned())
    };
    let long = "x".repeat(LONG);
    assert_eq!(policy("short").await?, "next");
    // Two of two hundred are one of a hundred; the third is too much.
    for _ in 0..3 {
        assert_eq!(policy(&long).await?, "live");
    }
    assert_eq!(policy("short").await?, "live");
    let canary = partition(&rig).await?["canary"].take();
    assert_eq!((&canary["state"], &canary["failures"]), (&json!("rolled-back"), &json!(3)));
    let why = "`max_failures_percent` is 1";
    assert!(canary["reason"].as_str().is_some_and(|r| r.ends_with(why)), "{canary}");
    assert_eq!(canary["percent"], 100.0, "{canary}");
    // The instance is shown as the YAML has it.
    let shown = rig.admin_json("/v1/policies").await?;
    let live = &shown["instances"][0];
    let rule = json!({ "instance": "next", "percent": 100.0, "by": "request", "max_failures_percent": 1.0,
        "max_p99_us": null, "judged_by": 200 });
    assert_eq!((&live["canary"], &live["shadow"]), (&rule, &json!([])), "{live}");
    let breaker = json!({ "failures": 5, "wait": "100ms", "longest_wait": "30s" });
    assert_eq!((&live["type"], &live["breaker"]), (&json!("round-robin"), &breaker), "{live}");
    // A component's limits are those of its size, in numbers; a built-in has none.
    let limits = json!({
        "fuel": 5_000_000, "memory": 33_554_432, "deadline": "100ms", "recycle_at": 25_165_824,
        "table_elements": 20_000, "reply_bytes": 4_194_304, "log_lines": 20, "log_line_bytes": 1_024,
    });
    assert_eq!((&live["limits"], &shown["instances"][1]["limits"]), (&Value::Null, &limits));
    let guest = &shown["types"][0];
    assert_eq!((&guest["type"], &guest["contract"]), (&json!("guest"), &json!("0.1.0")), "{guest}");
    let metrics = rig.admin.get("/metrics").await?.text();
    assert!(metrics.lines().any(|line| line.starts_with("pointsman_canary_state{")
        && line.contains("state=\"rolled-back\"")
        && line.ends_with(" 1")));
    // A reload that changes nothing doesn't bring it back.
    rig.admin.send(Method::POST, "/v1/policies/reload", &[], Some(&json!({}))).await?;
    assert_eq!(policy("short").await?, "live");

    let on = rig.admin.send(Method::POST, "/v1/policies/next/enable", &[], None).await?;
    let expected = json!({
        "instance": "next", "disabled": false, "partitions": 1,
        "decides_in": 0, "shadow_in": 0, "canary_in": 1, "resumed_in": 1,
    });
    assert_eq!(on.json(), expected);
    assert_eq!(policy("short").await?, "next");
    let off = rig.admin.send(Method::POST, "/v1/policies/next/disable", &[], None).await?;
    assert_eq!(off.json()["partitions"], 1, "{}", off.text());
    assert_eq!(policy("short").await?, "live");
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_new_version_of_a_shadow_takes_the_place_of_the_old_one() -> Result<()> {
    let mut plan = Plan::new(2);
    plan.policies.push(("next.wasm".to_owned(), std::fs::read(guests::default_cost())?));
    plan.selection = selection("default", "shadow: [next]", "next");
    let rig = plan.start().await?;
    let digest =
        async || -> Result<Value> { Ok(partition(&rig).await?["shadows"][0]["digest"].take()) };
    let before = digest().await?;
    rig.write_policy("next", &std::fs::read(guests::least_prefill())?)?;
    rig.wait_for("the new version to be shown decisions", async || Ok(digest().await? != before))
        .await?;
    ask(&rig, "short").await?;
    rig.stop().await;
    Ok(())
}
