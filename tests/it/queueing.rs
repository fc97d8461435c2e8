//! Requests wait in the router while engines are busy, and nothing of them is left when they don't.

use std::time::Duration;

use anyhow::Result;
use http::{Method, StatusCode};
use pointsman::load_client::{Answer, Ask};
use pointsman_build::write_atomically;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const CLASSES: &str = "default_policy_family: chat
policy_classes:
  - { name: chat, prefill_busy_threshold: 0, quantum: 3_000 }
  - { name: batch, prefill_busy_threshold: 0, quantum: 1_000, request_queue_limit_per_worker: 2 }
";

/// A worker with any prompt to compute is busy.
fn plan(engines: usize) -> Plan {
    let mut plan = Plan::new(engines);
    // A frozen engine answers no probe either.
    plan.more = format!("health: {{ interval: 1h }}\n{CLASSES}");
    plan
}

fn question() -> Value {
    json!({ "model": MODEL, "max_tokens": 2, "stream": true, "messages": [
        { "role": "user", "content": "a question of some length" }
    ] })
}

/// A client of its own, which sends a question with these headers.
fn ask(
    rig: &Rig,
    headers: &'static [(&'static str, &'static str)],
    running: &mut JoinSet<Result<Answer>>,
) {
    let client = rig.public.clone();
    running.spawn(async move {
        let (path, body) = ("/v1/chat/completions", question());
        Ok(client.send(Method::POST, path, headers, Some(&body)).await?)
    });
}

/// Requests that wait, by class.
async fn pending(rig: &Rig) -> Result<Vec<(String, u64)>> {
    let loads = rig.admin_json("/v1/loads").await?;
    let classes = loads["partitions"][0]["pending"].as_array().cloned().unwrap_or_default();
    let name = |class: &Value| class["policy_class"].as_str().unwrap_or_default().to_owned();
    Ok(classes.iter().map(|class| (name(class), class["requests"].as_u64().unwrap())).collect())
}

async fn wait_for_pending(rig: &Rig, wanted: &[(&str, u64)]) -> Result<()> {
    rig.wait_for(&format!("{wanted:?} to wait"), async || {
        let pending = pending(rig).await?;
        Ok(pending.iter().map(|(name, n)| (&**name, *n)).eq(wanted.iter().copied()))
    })
    .await
}

/// Every engine is frozen with a prompt to compute.
async fn freeze(rig: &Rig, running: &mut JoinSet<Result<Answer>>) -> Result<()> {
    for engine in &rig.engines {
        engine.control().update(|control| control.frozen = true)?;
    }
    for busy in 1..=rig.engines.len() as u64 {
        ask(rig, &[], running);
        rig.wait_for("it to be booked", async || Ok(rig.active_requests().await? == busy)).await?;
    }
    Ok(())
}

fn thaw(rig: &Rig) -> Result<()> {
    for engine in &rig.engines {
        engine.control().update(|control| control.frozen = false)?;
    }
    Ok(())
}

async fn metric(rig: &Rig, begins: &str) -> Result<f64> {
    let text = rig.admin.get("/metrics").await?.text().to_owned();
    let line = text.lines().find(|line| line.starts_with(begins));
    Ok(line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(f64::NAN))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_requests_wait_in_the_router_and_all_are_answered() -> Result<()> {
    let mut plan = plan(2);
    for engine in &mut plan.engines {
        engine.prefill_ms = Some(10.0);
    }
    let rig = plan.start().await?;
    let mut running = JoinSet::new();
    for _ in 0..60 {
        ask(&rig, &[], &mut running);
    }
    while let Some(answer) = running.join_next().await {
        let answer = answer??;
        assert!(answer.is_good(), "{} {}", answer.status, answer.text());
    }
    let of = |name: &str| format!("{name}{{model=\"{MODEL}\",policy_class=\"chat\"");
    assert_eq!(metric(&rig, &of("pointsman_admission_received_total")).await?, 60.0);
    assert!(metric(&rig, &of("pointsman_queue_backpressure_total")).await? > 20.0);
    assert_eq!(metric(&rig, &of("pointsman_queue_pending_requests")).await?, 0.0);
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_is_out_of_the_queue_and_books_nothing() -> Result<()> {
    let rig = plan(1).start().await?;
    let (mut busy, mut waits) = (JoinSet::new(), JoinSet::new());
    freeze(&rig, &mut busy).await?;
    for _ in 0..10 {
        ask(&rig, &[], &mut waits);
    }
    wait_for_pending(&rig, &[("chat", 10), ("batch", 0)]).await?;
    waits.shutdown().await;
    wait_for_pending(&rig, &[("chat", 0), ("batch", 0)]).await?;
    assert_eq!(rig.active_requests().await?, 1);
    thaw(&rig)?;
    assert!(busy.join_next().await.unwrap()??.is_good());
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_wait_or_not_for_so_long_is_told_why() -> Result<()> {
    let rig = plan(1).start().await?;
    let mut busy = JoinSet::new();
    freeze(&rig, &mut busy).await?;
    let path = "/v1/chat/completions";
    let error = async |headers: &[(&str, &str)], body: Value| -> Result<_> {
        let answer = rig.public.send(Method::POST, path, headers, Some(&body)).await?;
        let kind = answer.json()["error"]["type"].as_str().unwrap_or_default().to_owned();
        Ok((answer.status, kind, answer.header("retry-after").to_owned()))
    };
    let late = error(&[("x-pointsman-due-ms", "30")], question()).await?;
    assert_eq!(late, (StatusCode::GATEWAY_TIMEOUT, "deadline_exceeded".to_owned(), String::new()));
    let mut unwilling = question();
    unwilling["nvext"] = json!({ "do_not_queue": true });
    let (many, soon) = (StatusCode::TOO_MANY_REQUESTS, "1".to_owned());
    let told = error(&[], unwilling).await?;
    assert_eq!(told, (many, "do_not_queue".to_owned(), soon.clone()));
    const BATCH: &[(&str, &str)] = &[("x-pointsman-policy-class", "batch")];
    ask(&rig, BATCH, &mut busy);
    ask(&rig, BATCH, &mut busy);
    wait_for_pending(&rig, &[("chat", 0), ("batch", 2)]).await?;
    assert_eq!(error(BATCH, question()).await?, (many, "queue_rejected".to_owned(), soon));
    let rejected = format!(
        "pointsman_admission_rejected_total{{model=\"{MODEL}\",policy_class=\"batch\",reason=\"requests\""
    );
    assert_eq!(metric(&rig, &rejected).await?, 1.0);
    thaw(&rig)?;
    while let Some(answer) = busy.join_next().await {
        assert!(answer??.is_good());
    }
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn classes_change_while_requests_wait_and_none_is_lost() -> Result<()> {
    let rig = plan(1).start().await?;
    let mut running = JoinSet::new();
    freeze(&rig, &mut running).await?;
    for _ in 0..3 {
        ask(&rig, &[], &mut running);
    }
    ask(&rig, &[("x-dynamo-meta-policy-class", "batch")], &mut running);
    wait_for_pending(&rig, &[("chat", 3), ("batch", 1)]).await?;
    let before = std::fs::read_to_string(rig.config_file())?;
    let reload = async |classes: &str| -> Result<Value> {
        write_atomically(&rig.config_file(), before.replace(CLASSES, classes).as_bytes())?;
        let answer = rig.admin.post("/v1/policies/reload", &json!({})).await?;
        assert!(answer.is_good(), "{}", answer.text());
        Ok(answer.json())
    };
    // batch goes, others come; whoever waits in it belongs to the default.
    reload(
        "policy_classes:
  - { name: default, prefill_busy_threshold: 0, quantum: 10 }
  - { name: chat, prefill_busy_threshold: 0, quantum: 20 }
",
    )
    .await?;
    wait_for_pending(&rig, &[("default", 4), ("chat", 0)]).await?;
    // Without queueing there is nothing to wait for, though the engine is as busy as ever.
    reload("").await?;
    wait_for_pending(&rig, &[("default", 0)]).await?;
    rig.wait_for("all to be sent", async || Ok(rig.active_requests().await? == 5)).await?;
    thaw(&rig)?;
    while let Some(answer) = running.join_next().await {
        assert!(answer??.is_good());
    }
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pinned_request_waits_for_its_own_worker() -> Result<()> {
    let rig = plan(2).start().await?;
    let mut busy = JoinSet::new();
    freeze(&rig, &mut busy).await?;
    let pinned: &[(&str, &str)] = &[("x-dynamo-worker-instance-id", "2")];
    let mut waits = JoinSet::new();
    ask(&rig, pinned, &mut waits);
    wait_for_pending(&rig, &[("chat", 1), ("batch", 0)]).await?;
    rig.engines[0].control().update(|control| control.frozen = false)?;
    // The first engine is free: whoever may go there does, at once.
    let mut free = Ask::new(MODEL, "hello");
    free.headers.push(("x-pointsman-due-ms", "20000".to_owned()));
    assert_eq!(rig.public.ask(&free).await?.worker(), "1");
    assert_eq!(pending(&rig).await?[0].1, 1);
    rig.engines[1].control().update(|control| control.frozen = false)?;
    let answer = tokio::time::timeout(Duration::from_secs(20), waits.join_next()).await?;
    assert_eq!(answer.unwrap()??.worker(), "2");
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_says_whether_a_request_would_have_to_wait() -> Result<()> {
    let rig = plan(1).start().await?;
    let queue = async |headers: &[(&str, &str)], change: Value| -> Result<Value> {
        let mut body = question();
        body.as_object_mut().unwrap().extend(change.as_object().cloned().unwrap());
        let answer = rig.admin.send(Method::POST, "/v1/route", headers, Some(&body)).await?;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        Ok(answer.json()["queue"].take())
    };
    let idle = json!({
        "policy_class": "chat", "outcome": "passes", "unknown_policy_class": null,
        "pending": { "requests": 0, "isl_tokens": 0, "cached_tokens": 0 },
    });
    assert_eq!(queue(&[], json!({})).await?, idle);
    let mut running = JoinSet::new();
    freeze(&rig, &mut running).await?;
    assert_eq!(queue(&[], json!({})).await?["outcome"], "waits");
    let unwilling = json!({ "nvext": { "do_not_queue": true, "due_ms": 60_000 } });
    assert_eq!(queue(&[], unwilling).await?["outcome"], "do_not_queue");
    ask(&rig, &[("x-pointsman-policy-class", "batch")], &mut running);
    ask(&rig, &[("x-pointsman-policy-class", "batch")], &mut running);
    wait_for_pending(&rig, &[("chat", 0), ("batch", 2)]).await?;
    let batch = queue(&[("x-pointsman-policy-class", "batch")], json!({})).await?;
    assert_eq!(
        (&batch["outcome"], &batch["policy_class"]),
        (&json!("queue_rejected"), &json!("batch"))
    );
    assert_eq!(batch["pending"]["requests"], 2);
    let misspelt = queue(&[("x-pointsman-policy-class", "bacth")], json!({})).await?;
    assert_eq!(
        (&misspelt["unknown_policy_class"], &misspelt["policy_class"]),
        (&json!("bacth"), &json!("chat"))
    );
    // Nobody came for all that.
    wait_for_pending(&rig, &[("chat", 0), ("batch", 2)]).await?;
    thaw(&rig)?;
    while let Some(answer) = running.join_next().await {
        assert!(answer??.is_good());
    }
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_that_there_is_not_is_counted_and_its_name_is_no_label() -> Result<()> {
    let rig = plan(1).start().await?;
    let mut running = JoinSet::new();
    for class in ["bacth", "chta", "batch", "chat"] {
        let client = rig.public.clone();
        running.spawn(async move {
            let headers = [("x-pointsman-policy-class", class)];
            let (path, body) = ("/v1/chat/completions", question());
            Ok::<_, anyhow::Error>(client.send(Method::POST, path, &headers, Some(&body)).await?)
        });
    }
    ask(&rig, &[], &mut running);
    while let Some(answer) = running.join_next().await {
        let answer = answer??;
        assert!(answer.is_good(), "{} {}", answer.status, answer.text());
    }
    let name = "pointsman_unknown_policy_class_requests_total";
    assert_eq!(metric(&rig, &format!("{name}{{model=\"{MODEL}\"}}")).await?, 2.0);
    assert!(!rig.admin.get("/metrics").await?.text().contains("bacth"));
    rig.stop().await;
    Ok(())
}
