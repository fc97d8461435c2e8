//! Sessions that are bound to workers, with a component that moves them off busy ones.

use anyhow::{Context, Result};
use pointsman::load_client::{Answer, Ask};
use pointsman_tests::guests;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::Value;
use tokio::task::JoinSet;

fn ask(max_tokens: u32) -> Ask {
    let session = Some("s".to_owned());
    Ask { session, max_tokens, ..Ask::new(MODEL, "a question of a long conversation") }
}

fn worker(answer: &Answer) -> Result<u64> {
    assert!(answer.is_good(), "{} {}", answer.status, answer.text());
    assert!(answer.policy().starts_with("it@"), "another policy decided: {}", answer.policy());
    Ok(answer.worker().parse()?)
}

/// The one session there is; null before there is one.
async fn session(rig: &Rig) -> Result<Value> {
    let shown = rig.admin_json("/v1/sessions").await?;
    Ok(shown.pointer("/partitions/0/sessions/0").cloned().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_leaves_a_busy_worker_and_stays_where_it_went() -> Result<()> {
    let component = std::fs::read(guests::soft_pin_repin())?;
    let mut plan =
        Plan::new(2).with_policy("soft-pin-repin", component, "{ max_active_requests: 0 }");
    // An engine that stands still on purpose is to count as well.
    plan.more = "health: { interval: 1h }
router: { router_session_affinity_ttl_secs: 60, router_session_affinity_mode: soft }
"
    .to_owned();
    for engine in &mut plan.engines {
        engine.decode_ms = Some(50.0);
    }
    let rig = plan.start().await?;

    // A long answer has begun, so that its worker has the session.
    let mut long = JoinSet::new();
    let client = rig.public.clone();
    long.spawn(async move { client.ask(&ask(128)).await });
    rig.wait_for("the session to be bound", async || Ok(session(&rig).await?["state"] == "bound"))
        .await?;
    let first = session(&rig).await?;
    let a = first["worker_id"].as_u64().context("it is bound to a worker")?;
    let stands_still = |frozen| {
        let engine = &rig.engines[usize::try_from(a - 1)?];
        engine.control().update(|control| control.frozen = frozen)?;
        anyhow::Ok(())
    };
    stands_still(true)?;
    assert_eq!(first["active_requests"], 1, "the answer is on its way");

    // It is busy with that, so the next request goes elsewhere.
    let b = worker(&rig.public.ask(&ask(1)).await?)?;
    assert_ne!(b, a);
    let moved = session(&rig).await?;
    assert_eq!(moved["worker_id"], b, "the binding has followed");
    assert_eq!(rig.active_requests().await?, 1, "the long answer is still on its way");
    assert!(long.try_join_next().is_none());
    stands_still(false)?;

    // Both are idle now, and A comes first among equals: it stays with B all the same.
    let answer = long.join_next().await.context("it was asked")???;
    assert_eq!(worker(&answer)?, a);
    rig.wait_for_idle().await?;
    for _ in 0..3 {
        assert_eq!(worker(&rig.public.ask(&ask(1)).await?)?, b);
    }
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_outlast_a_reload_and_a_new_mode_counts_from_the_next_request() -> Result<()> {
    let mut plan = Plan::new(3).with_builtin("round-robin");
    plan.more +=
        "router: { router_session_affinity_ttl_secs: 60, router_session_affinity_mode: soft }\n";
    let rig = plan.start().await?;
    let a = worker(&rig.public.ask(&ask(1)).await?)?;
    let text = std::fs::read_to_string(rig.config_file())?;
    let text =
        text.replace("round-robin", "random").replace("affinity_mode: soft", "affinity_mode: hard");
    std::fs::write(rig.config_file(), text)?;
    let told = rig.admin.post("/v1/policies/reload", &serde_json::json!({})).await?;
    assert!(told.is_good(), "{}", told.text());
    let shown = rig.admin_json("/v1/sessions").await?;
    assert_eq!(shown["router_session_affinity_mode"], "hard");
    assert_eq!(shown["partitions"][0]["sessions"][0]["worker_id"], a);
    for _ in 0..8 {
        assert_eq!(worker(&rig.public.ask(&ask(1)).await?)?, a);
    }
    let other = if a == 1 { "2" } else { "1" };
    let headers = vec![("x-dynamo-worker-instance-id", other.to_owned())];
    let refused = rig.public.ask(&Ask { headers, ..ask(1) }).await?;
    assert_eq!(refused.status.as_u16(), 409, "{}", refused.text());
    rig.stop().await;
    Ok(())
}
