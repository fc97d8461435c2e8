//! The host's rules hold before any policy is asked, and a policy's mistakes book nothing.

use std::collections::BTreeSet;

use anyhow::Result;
use http::StatusCode;
use pointsman::load_client::Ask;
use pointsman_tests::rig::{MODEL, Plan};
use serde_json::json;

fn pinned(to: &str) -> Ask {
    let mut ask = Ask::new(MODEL, "hello");
    ask.headers.push(("x-worker-instance-id", to.to_owned()));
    ask
}

#[tokio::test]
async fn a_pin_holds_whatever_the_policy_would_choose() -> Result<()> {
    let rig = Plan::new(3).with_least_busy()?.start().await?;
    for worker in ["3", "2", "3"] {
        let answer = rig.public.ask(&pinned(worker)).await?;
        assert!(answer.is_good(), "{} {}", answer.status, answer.text());
        assert_eq!(answer.worker(), worker);
    }
    let stranger = rig.public.ask(&pinned("9")).await?;
    assert_eq!(stranger.status, StatusCode::BAD_REQUEST, "{}", stranger.text());
    assert_eq!(stranger.json()["error"]["type"], "pinned_worker_unavailable");
    let nonsense = rig.public.ask(&pinned("nine")).await?;
    assert_eq!(nonsense.status, StatusCode::BAD_REQUEST, "{}", nonsense.text());
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn required_taints_leave_only_workers_that_have_them() -> Result<()> {
    let mut plan = Plan::new(3).with_least_busy()?;
    plan.worker_keys[1] = ", taints: [fast, eu]".to_owned();
    let rig = plan.start().await?;
    let ask = |taints: &[&str]| {
        json!({ "model": MODEL, "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 2,
            "nvext": { "routing_constraints": { "required_taints": taints } } })
    };
    for _ in 0..5 {
        let answer = rig.public.post("/v1/chat/completions", &ask(&["fast", "eu"])).await?;
        assert!(answer.is_good(), "{}", answer.text());
        assert_eq!(answer.worker(), "2");
    }
    let nobody = rig.public.post("/v1/chat/completions", &ask(&["fast", "us"])).await?;
    assert_eq!(nobody.status, StatusCode::SERVICE_UNAVAILABLE, "{}", nobody.text());
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_filter_that_rejects_every_row_is_told_apart_from_no_worker() -> Result<()> {
    let component = std::fs::read(pointsman_tests::guests::least_busy())?;
    // Nobody's cache holds a block yet, so a threshold filters everybody out.
    let plan =
        Plan::new(2).with_policy("least-busy", component, "{ min_device_overlap_blocks: 1 }");
    let rig = plan.start().await?;
    let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text());
    assert_eq!(
        answer.json()["error"]["type"],
        "all_eligible_workers_filtered",
        "{}",
        answer.text()
    );
    assert_eq!(rig.active_requests().await?, 0);
    assert!(rig.engines.iter().all(|engine| engine.stats().received == 0));
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn workers_come_and_go_over_the_api() -> Result<()> {
    let rig = Plan::new(2).with_builtin("round-robin").start().await?;
    let third = pointsman::mock_engine::MockEngine::start(pointsman::mock_engine::MockConfig {
        models: vec![MODEL.to_owned()],
        ..Default::default()
    })?;
    let body = json!({ "worker_id": 3, "endpoint": third.url(), "model": MODEL });
    let added = rig.admin.post("/v1/workers", &body).await?;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.text());
    let again = rig.admin.post("/v1/workers", &body).await?;
    assert_eq!(again.status, StatusCode::OK, "{}", again.text());

    let mut seen = BTreeSet::new();
    for _ in 0..6 {
        let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
        assert!(answer.is_good(), "{}", answer.text());
        seen.insert(answer.worker().to_owned());
    }
    assert_eq!(seen.len(), 3, "round-robin reaches the new worker: {seen:?}");

    let gone = rig.admin.send(http::Method::DELETE, "/v1/workers/3", &[], None).await?;
    assert!(gone.status.is_success(), "{}", gone.text());
    for _ in 0..6 {
        assert_ne!(rig.public.ask(&Ask::new(MODEL, "hello")).await?.worker(), "3");
    }
    rig.wait_for("worker 3 to leave", async || {
        let status = rig.admin.get("/v1/workers/3").await?.status;
        Ok(status == StatusCode::NOT_FOUND)
    })
    .await?;

    let bad = rig
        .admin
        .post("/v1/workers", &json!({ "worker_id": 4, "endpoint": "ftp://x", "modell": "m" }))
        .await?;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    for word in ["endpoint", "modell"] {
        assert!(bad.text().contains(word), "all mistakes at once: {}", bad.text());
    }
    rig.stop().await;
    third.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_worker_whose_lease_is_not_renewed_leaves() -> Result<()> {
    let rig = Plan::new(1).start().await?;
    let body = json!({ "worker_id": 7, "endpoint": "http://127.0.0.1:9", "model": MODEL, "lease": "300ms" });
    let added = rig.admin.post("/v1/workers", &body).await?;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.text());
    let renewed = rig.admin.post("/v1/workers/7/heartbeat", &json!({})).await?;
    assert!(renewed.status.is_success(), "{}", renewed.text());
    rig.wait_for("worker 7 to leave", async || {
        Ok(rig.admin.get("/v1/workers/7").await?.status == StatusCode::NOT_FOUND)
    })
    .await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_policy_learns_what_caused_a_request_with_or_without_a_session() -> Result<()> {
    let rig = Plan::new(2).with_least_busy()?.start().await?;
    // On a tool's result least-busy takes the last of the rows with most overlap: worker 2 when
    // nothing is cached. Else the first of the least busy: worker 1.
    for (tool_result, session, worker) in [
        (false, None, "1"),
        (true, None, "2"),
        (true, Some("s".to_owned()), "2"),
        (false, Some("s".to_owned()), "1"),
    ] {
        let ask = Ask { tool_result, session, ..Ask::new(MODEL, "hello") };
        let answer = rig.public.ask(&ask).await?;
        assert!(answer.is_good(), "{}", answer.text());
        assert_eq!(answer.worker(), worker, "{ask:?}");
        rig.wait_for_idle().await?;
    }
    rig.stop().await;
    Ok(())
}
