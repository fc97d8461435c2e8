//! What an operator sees of a policy that keeps failing, and how he turns one off.

use anyhow::Result;
use http::{Method, StatusCode};
use pointsman::load_client::Ask;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::{Value, json};

use crate::containment::{LONG, SCORE_LOAD, at_long_prompts, last_receipt};

/// Says no to long prompts.
fn sulking() -> Vec<u8> {
    at_long_prompts("score", SCORE_LOAD, "(return (call $refuse))")
}

/// With a breaker that opens for `wait`.
async fn start(wait: &str) -> Result<Rig> {
    let mut plan = Plan::new(2).with_policy("guest", sulking(), "{}");
    let guarded = format!("parameters: {{}}, breaker: {{ wait: {wait}, longest_wait: 1h }}");
    plan.selection = plan.selection.replace("parameters: {}", &guarded);
    plan.start().await
}

/// Asks, and says why the policy didn't decide.
async fn cause(rig: &Rig, prompt: &str) -> Result<Value> {
    let answer = rig.public.ask(&Ask::new(MODEL, prompt.to_owned())).await?;
    assert!(answer.is_good(), "{}", answer.text());
    let cause = last_receipt(rig).await?["fallback"]["cause"].take();
    assert_eq!(answer.policy() == "default@builtin", !cause.is_null(), "{}", answer.policy());
    Ok(cause)
}

async fn instance(rig: &Rig) -> Result<Value> {
    Ok(rig.admin_json("/v1/policies").await?["instances"][0].take())
}

#[tokio::test]
async fn a_policy_that_keeps_failing_is_left_alone_and_then_tried() -> Result<()> {
    let rig = start("500ms").await?;
    let long = "x".repeat(LONG);
    for _ in 0..4 {
        assert_eq!(cause(&rig, &long).await?, "refused");
    }
    assert_eq!(cause(&rig, "short").await?, Value::Null, "a good one in between makes up for all");
    for _ in 0..5 {
        assert_eq!(cause(&rig, &long).await?, "refused");
    }
    let breaker = instance(&rig).await?["partitions"][0]["instances"][0].take();
    assert_eq!(breaker["failures_in_a_row"], 5, "{breaker}");
    assert_ne!(breaker["breaker"], "closed", "{breaker}");
    // However slow the machine is, in the end it is tried; it is well, and decides as before.
    rig.wait_for("the policy to decide again", async || {
        let cause = cause(&rig, "short").await?;
        assert!(cause.is_null() || cause == "unavailable", "{cause}");
        Ok(cause.is_null())
    })
    .await?;
    let breaker = instance(&rig).await?["partitions"][0]["instances"][0].take();
    assert_eq!((&breaker["breaker"], &breaker["failures_in_a_row"]), (&json!("closed"), &json!(0)));
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn while_it_is_left_alone_the_metrics_say_so() -> Result<()> {
    let rig = start("1h").await?;
    let long = "x".repeat(LONG);
    for _ in 0..5 {
        cause(&rig, &long).await?;
    }
    assert_eq!(cause(&rig, "short").await?, "unavailable");
    let metrics = rig.admin.send(Method::GET, "/metrics", &[], None).await?.text();
    let lines: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("pointsman_policy_breaker{")).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines.iter().all(|line| line.ends_with(" 1") == line.contains("state=\"open\"")));
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn an_operator_turns_a_policy_off_and_on() -> Result<()> {
    let rig = start("1h").await?;
    let switch = async |path: &str| rig.admin.send(Method::POST, path, &[], None).await;
    let off = switch("/v1/policies/it/disable").await?;
    let expected = json!({
        "instance": "it", "disabled": true, "partitions": 1,
        "decides_in": 1, "shadow_in": 0, "canary_in": 0, "resumed_in": 0,
    });
    assert_eq!(off.json(), expected);
    assert_eq!(cause(&rig, "short").await?, "disabled");
    assert_eq!(instance(&rig).await?["disabled"], true);
    // A reload changes nothing about it.
    let reload = rig.admin.send(Method::POST, "/v1/policies/reload", &[], Some(&json!({}))).await?;
    assert_eq!(reload.status, StatusCode::OK, "{}", reload.text());
    assert_eq!(cause(&rig, "short").await?, "disabled");
    let on = switch("/v1/policies/it/enable").await?;
    assert_eq!(on.json()["disabled"], false);
    assert_eq!(cause(&rig, "short").await?, Value::Null);

    let unknown = switch("/v1/policies/that/disable").await?;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert!(unknown.text().contains("known: it; name one as the YAML does"), "{}", unknown.text());
    let misspelled = switch("/v1/policies/itt/enable").await?;
    assert!(misspelled.text().contains("did you mean \\\"it\\\"? "), "{}", misspelled.text());
    let builtin = switch("/v1/policies/default/disable").await?;
    assert_eq!(builtin.status, StatusCode::BAD_REQUEST, "{}", builtin.text());
    assert!(builtin.text().contains("or change the roles in the YAML"), "{}", builtin.text());
    rig.stop().await;
    Ok(())
}
