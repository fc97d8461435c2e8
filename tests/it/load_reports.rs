//! Engines that are asked for their load: what others give them to do, the router heeds.

use anyhow::{Context, Result};
use pointsman::load_client::{Ask, LoadClient};
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Engines of eight blocks, of which four may be in use.
fn plan(engines: usize, more: &str) -> Plan {
    let mut plan = Plan::new(engines);
    for engine in &mut plan.engines {
        engine.total_kv_blocks = 8;
        engine.prefill_ms = Some(600_000.0);
    }
    plan.more += &format!(
        "load_reports: {{ interval: 100ms, timeout: 100ms }}
router: {{ active_decode_blocks_threshold: 0.5{more} }}
"
    );
    plan
}

/// Somebody else has an engine compute 100 tokens, which fill seven of its blocks, for as long as
/// this is kept.
fn keeps_busy(rig: &Rig, engine: usize) -> JoinSet<()> {
    let client = LoadClient::new(rig.engines[engine].addr());
    let prompt: Vec<u32> = (0..100).collect();
    let body = json!({ "model": MODEL, "prompt": prompt, "stream": true });
    JoinSet::from_iter([async move { drop(client.post("/v1/completions", &body).await) }])
}

async fn thresholds(rig: &Rig) -> Result<Value> {
    Ok(rig.admin_json("/v1/busy_threshold").await?["partitions"][0].take())
}

async fn wait_for_overloaded(rig: &Rig, workers: &[u64]) -> Result<()> {
    let reached = rig
        .wait_for(&format!("{workers:?} to be overloaded"), async || {
            Ok(thresholds(rig).await?["overloaded"] == json!(workers))
        })
        .await;
    match reached {
        Ok(()) => Ok(()),
        // Who is, and by what.
        Err(error) => Err(error.context(thresholds(rig).await?.to_string())),
    }
}

#[tokio::test]
async fn what_others_give_an_engine_to_do_keeps_requests_away_until_it_is_over() -> Result<()> {
    let rig = plan(2, "").start().await?;
    for engine in &rig.engines {
        rig.wait_for("both to be asked", async || {
            Ok(engine.stats().paths.contains_key("/metrics"))
        })
        .await?;
    }
    let busy = keeps_busy(&rig, 0);
    wait_for_overloaded(&rig, &[1]).await?;
    let shown = thresholds(&rig).await?;
    let report = shown["reports"].as_array().and_then(|all| all.first()).context("a report")?;
    let usage = report["kv_cache_usage"].as_f64().context("it is a number")?;
    assert!((0.875..=1.0).contains(&usage), "{usage}");
    assert_eq!((&report["running_requests"], &report["waiting_requests"]), (&json!(1), &json!(0)));
    assert_eq!((&report["used_kv_blocks"], &report["stale"]), (&Value::Null, &json!(false)));
    let page = rig.admin.get("/metrics").await?.text();
    let row = format!(
        "{{dp_rank=\"0\",model=\"{MODEL}\",role=\"aggregated\",routing_group=\"default\",worker_id=\"1\"}}"
    );
    assert!(page.contains(&format!("pointsman_reported_kv_cache_usage{row} 0.875")), "{page}");
    assert!(page.contains(&format!("pointsman_reported_running_requests{row} 1")), "{page}");
    assert!(page.contains(&format!("pointsman_reported_load_age_seconds{row} ")), "{page}");
    assert!(page.contains("pointsman_load_scrapes_total{model="), "{page}");
    // All go to the other one.
    let mut asked = JoinSet::new();
    for _ in 0..3 {
        let (client, ask) = (rig.public.clone(), Ask::new(MODEL, "hi"));
        asked.spawn(async move { client.ask(&ask).await });
    }
    rig.wait_for("three requests", async || Ok(rig.engines[1].stats().running == 3)).await?;
    assert_eq!(rig.engines[0].stats().running, 1, "the one that isn't ours");
    drop(busy);
    // Three of ours are more than half of the other one's blocks, too.
    asked.shutdown().await;
    wait_for_overloaded(&rig, &[]).await?;
    rig.wait_for_idle().await?;
    // On a busy machine an answer may come too late now and then.
    rig.wait_for("no problem", async || {
        Ok(rig.admin_json("/v1/workers/1").await?["load_report_problem"].is_null())
    })
    .await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn who_waits_goes_when_an_engine_says_that_it_is_no_longer_busy() -> Result<()> {
    let mut plan = plan(2, ", router_queue_threshold: 0.01");
    // More than ten tokens to compute make a worker busy, in the router's own count.
    for keys in &mut plan.worker_keys {
        *keys += ", max_num_batched_tokens: 1000";
    }
    let rig = plan.start().await?;
    let busy = keeps_busy(&rig, 1);
    wait_for_overloaded(&rig, &[2]).await?;
    let ask = || {
        let body = json!({ "model": MODEL, "prompt": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] });
        let client = rig.public.clone();
        async move { drop(client.post("/v1/completions", &body).await) }
    };
    let mut asked = JoinSet::new();
    asked.spawn(ask());
    rig.wait_for("the first", async || Ok(rig.engines[0].stats().running == 1)).await?;
    asked.spawn(ask());
    let waiting = async || -> Result<Value> {
        let loads = rig.admin_json("/v1/loads").await?;
        Ok(loads["partitions"][0]["pending"][0]["requests"].clone())
    };
    rig.wait_for("the second to wait", async || Ok(waiting().await? == 1)).await?;
    assert_eq!(rig.engines[1].stats().running, 1);
    drop(busy);
    rig.wait_for("the second", async || Ok(waiting().await? == 0)).await?;
    rig.wait_for("it to be sent", async || Ok(rig.engines[1].stats().received == 2)).await?;
    assert_eq!(rig.engines[0].stats().running, 1, "the first goes on");
    asked.shutdown().await;
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn an_engine_that_tells_nothing_is_named_and_served_as_ever() -> Result<()> {
    let mut plan = plan(1, "");
    plan.engines[0].prefill_ms = None;
    plan.more = plan.more.replace("timeout: 100ms }", "timeout: 100ms, path: /version }");
    let rig = plan.start().await?;
    rig.wait_for("a problem", async || {
        let worker = rig.admin_json("/v1/workers/1").await?;
        Ok(worker["load_report_problem"].as_str().is_some_and(|it| it.contains("GET /version")))
    })
    .await?;
    let page = rig.admin.get("/metrics").await?.text();
    let counted = page.lines().find(|line| {
        line.starts_with("pointsman_load_scrapes_total") && line.contains("outcome=\"useless\"")
    });
    assert!(counted.is_some_and(|line| !line.ends_with(" 0")), "{counted:?}");
    assert_eq!(thresholds(&rig).await?["reports"], json!([]));
    assert!(rig.public.ask(&Ask::new(MODEL, "hi")).await?.is_good());
    rig.stop().await;
    Ok(())
}
