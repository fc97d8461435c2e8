//! Guests that loop, trap and reject behind the selection service: what they cost, and what stays booked.

use anyhow::{Context, Result, ensure};
use pointsman_tests::rig::{MODEL, Plan};
use serde_json::{Value, json};

use super::{ask, free, good, start};
use crate::containment::{SCORE_LOAD, at_long_prompts};
use crate::guests::guest;

/// More tokens than those guests behave at.
fn long(id: &str) -> Value {
    let tokens: Vec<u32> = (0..50_000).collect();
    ask(id, json!({ "token_ids": tokens, "receipt": true }))
}

fn plan(component: Vec<u8>, on_failure: &str) -> Plan {
    let mut plan = Plan::new(2).with_policy("guest", component, "{}");
    let more = format!("parameters: {{}}, limits: {{ deadline: 20s }}{on_failure}");
    plan.selection = plan.selection.replace("parameters: {}", &more);
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_loops_or_traps_costs_no_selection_and_what_it_failed_at_is_booked_once()
-> Result<()> {
    for (what, cause) in [("(call $loop-for-ever)", "fuel"), ("unreachable", "trap")] {
        let component = at_long_prompts("score", SCORE_LOAD, what);
        let (rig, client) = start(plan(component, ""), "").await?;
        let all: Vec<Value> = (0..8).map(|n| long(&format!("b{n}"))).collect();
        let one = good(&client, "/select_and_reserve", &long("a")).await?;
        ensure!(one["receipt"]["fallback"]["cause"] == cause, "{what}: {}", one["receipt"]);
        let selected = good(&client, "/select", &long("s")).await?;
        ensure!(selected["worker_id"].is_number(), "{selected}");
        let batch = json!({ "requests": all });
        let batch = good(&client, "/select_and_reserve/batch", &batch).await?;
        for result in batch["results"].as_array().context("a list")? {
            ensure!(result["status"] == 200, "{what}: {result}");
        }
        assert_eq!(rig.active_requests().await?, 9, "{what}");
        for id in ["a", "b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"] {
            ensure!(free(&client, id).await?.is_success(), "{what}: {id}");
        }
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_failing_policy_is_to_be_an_error_nothing_is_booked() -> Result<()> {
    let component = at_long_prompts("score", SCORE_LOAD, "unreachable");
    let (rig, client) = start(plan(component, ", on_failure: reject"), "").await?;
    for path in ["/select_and_reserve", "/select"] {
        let refused = client.post(path, &long("a")).await?;
        let told = (refused.status.as_u16(), refused.json()["details"]["type"].clone());
        assert_eq!(told, (500, json!("worker_selection_policy")), "{path}");
    }
    rig.wait_for_idle().await?;
    // Others' are decided on, once there is another instance.
    let short = async || client.post("/select_and_reserve", &ask("short", json!({}))).await;
    rig.wait_for("another instance", async || Ok(short().await?.status.is_success())).await?;
    ensure!(free(&client, "short").await?.is_success());
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_classifier_that_rejects_or_fails_leaves_nothing_booked_and_no_selection_kept()
-> Result<()> {
    let section = "request_classifier: { type: gate, on_failure: reject }\n";
    for (component, status, kind) in [
        ("classifier-rejects", 503, "request_classifier_rejected"),
        ("classifier-loops-in-on-event", 500, "request_classifier_failed"),
    ] {
        let mut plan = Plan::new(1);
        plan.policies.push(("gate.wasm".to_owned(), guest(component)));
        plan.more.push_str(section);
        let (rig, client) = start(plan, "").await?;
        for path in ["/select", "/select_and_reserve"] {
            let refused = client.post(path, &long("a")).await?;
            let told = (refused.status.as_u16(), refused.json()["details"]["type"].clone());
            assert_eq!(told, (status, json!(kind)), "{component} {path}: {}", refused.text());
        }
        let booking = json!({ "model_name": MODEL, "selection_id": "a" });
        let missing = client.post("/reservations", &booking).await?;
        assert_eq!(missing.json()["details"]["type"], "no_such_selection", "{component}");
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}
