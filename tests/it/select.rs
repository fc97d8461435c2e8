//! The selection service as its users meet it: a real router, real components, real owners that die.

mod document;
mod examples;
mod hostile;
mod owners;

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};
use pointsman::load_client::{Answer, LoadClient};
use pointsman_tests::guests;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::{Value, json};

/// A router with the service, and a client of that.
async fn start(mut plan: Plan, keys: &str) -> Result<(Rig, LoadClient)> {
    plan.more.push_str(&format!("select: {{ address: 127.0.0.1:0{keys} }}\n"));
    let rig = plan.start().await?;
    let address = rig.server.select_addr().context("it is served")?;
    Ok((rig, LoadClient::new(address)))
}

async fn good(client: &LoadClient, path: &str, body: &Value) -> Result<Value> {
    let answer: Answer = client.post(path, body).await?;
    ensure!(answer.status.is_success(), "{path}: {} {}", answer.status, answer.text());
    Ok(answer.json())
}

async fn free(client: &LoadClient, id: &str) -> Result<StatusCode> {
    Ok(client.send(Method::DELETE, &format!("/reservations/{id}"), &[], None).await?.status)
}

fn ask(id: &str, more: Value) -> Value {
    let mut ask = json!({ "model_name": MODEL, "selection_id": id, "token_ids": [1, 2, 3] });
    if let (Some(ask), Value::Object(more)) = (ask.as_object_mut(), more) {
        ask.extend(more);
    }
    ask
}

#[tokio::test]
async fn a_component_selects_for_every_door_and_each_sees_what_the_others_booked() -> Result<()> {
    let (rig, client) = start(Plan::new(2).with_least_busy()?, "").await?;
    let wants = json!({ "receipt": true });
    let first = good(&client, "/select_and_reserve", &ask("a", wants)).await?;
    let component = std::fs::read(guests::least_busy())?;
    assert_eq!(first["receipt"]["policy"]["digest"], pointsman_build::digest(&component));
    // What is reserved is load to those who are served.
    let served = rig.public.ask(&pointsman::load_client::Ask::new(MODEL, "hello")).await?;
    let reserved_on = first["worker_id"].to_string();
    assert!(served.is_good() && served.worker() != reserved_on, "{}", served.worker());
    rig.wait_for("the answer to end", async || Ok(rig.active_requests().await? == 1)).await?;
    let second = good(&client, "/select_and_reserve", &ask("b", json!({}))).await?;
    assert_ne!(second["worker_id"], first["worker_id"]);
    let receipts = rig.admin_json("/v1/receipts").await?;
    let ids: Vec<&Value> = receipts["receipts"]
        .as_array()
        .context("a list")?
        .iter()
        .map(|one| &one["request_id"])
        .collect();
    assert!(ids.contains(&&json!("a")) && ids.contains(&&json!("b")), "{ids:?}");
    let metrics = rig.admin.get("/metrics").await?.text();
    assert!(metrics.contains("\npointsman_reservations 2\n"), "{metrics}");
    for id in ["a", "b"] {
        assert_eq!(free(&client, id).await?, StatusCode::OK);
    }
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_request_classifier_lets_a_sessions_requests_be_reserved_one_after_another() -> Result<()>
{
    let mut plan = Plan::new(1);
    plan.policies
        .push(("session-admission.wasm".to_owned(), std::fs::read(guests::session_admission())?));
    plan.more.push_str(
        "request_classifier: { type: session-admission, parameters: { most_in_flight: 100 } }\n",
    );
    let (rig, client) = start(plan, "").await?;
    let of = |id: &str| ask(id, json!({ "session_context": { "session_id": "s" } }));
    good(&client, "/select_and_reserve", &of("a")).await?;
    let (second, waits) = (client.clone(), of("b"));
    let second = async move { good(&second, "/select_and_reserve", &waits).await };
    let mut second = tokio::task::JoinSet::from_iter([second]);
    let held = async || {
        let policies = rig.admin_json("/v1/policies").await?;
        Ok(policies["request_classifier"]["partitions"][0]["held_now"] == 1)
    };
    rig.wait_for("the second to be held", held).await?;
    assert_eq!(rig.active_requests().await?, 1);
    // Advice is nobody's to hold.
    good(&client, "/select", &ask("c", json!({ "advisory": true, "session_id": "s" }))).await?;
    good(&client, "/reservations/a/prefill_complete", &json!({})).await?;
    assert_eq!(free(&client, "a").await?, StatusCode::OK);
    second.join_next().await.context("it was sent")???;
    assert_eq!(rig.active_requests().await?, 1);
    // A lease that ends is a request that was aborted: the session goes on.
    rig.server.app().selections.expire(u64::MAX);
    good(&client, "/select_and_reserve", &of("d")).await?;
    assert_eq!(free(&client, "d").await?, StatusCode::OK);
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_class_of_a_header_says_who_waits() -> Result<()> {
    let mut plan = Plan::new(1);
    plan.more.push_str(
        "policy_classes:
  - { name: patient, prefill_busy_threshold: 0 }
  - { name: urgent }
default_policy_family: patient
",
    );
    let (rig, client) = start(plan, "").await?;
    good(&client, "/select_and_reserve", &ask("a", json!({}))).await?;
    let refused =
        client.post("/select_and_reserve", &ask("b", json!({ "do_not_queue": true }))).await?;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{}", refused.text());
    assert_eq!(refused.json()["details"]["type"], "do_not_queue");
    let late = client.post("/select_and_reserve", &ask("b", json!({ "due_ms": 1 }))).await?;
    assert_eq!(late.status, StatusCode::TOO_MANY_REQUESTS, "{}", late.text());
    let header = [("x-dynamo-meta-policy-class", "urgent")];
    let body = ask("b", json!({ "do_not_queue": true }));
    let urgent = client.send(Method::POST, "/select_and_reserve", &header, Some(&body)).await?;
    assert_eq!(urgent.status, StatusCode::OK, "{}", urgent.text());
    for id in ["a", "b"] {
        assert_eq!(free(&client, id).await?, StatusCode::OK);
    }
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}
