//! A cache that all workers share is asked, weighed as the formula says, and in nobody's way.

use std::time::Duration;

use anyhow::{Context, Result};
use http::{Method, StatusCode};
use pointsman::load_client::LoadClient;
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role, WorkerId, WorkerTarget};
use pointsman_core::partition::{Decision, Mode};
use pointsman_core::request::RouteRequest;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use pointsman_tests::shared_cache::SharedCacheServer;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Longer than a busy machine takes; the longest that can be set.
const LONG: Duration = Duration::from_secs(1);

/// Workers that tell nothing of their caches, and a router that asks the shared one.
fn plan(workers: usize, cache: &SharedCacheServer, timeout: Duration) -> Plan {
    let mut plan = Plan::new(workers);
    plan.worker_keys = vec![", kv_event_source_mode: none".to_owned(); workers];
    plan.more += &router(cache, timeout);
    plan
}

fn router(cache: &SharedCacheServer, timeout: Duration) -> String {
    let (address, timeout) = (cache.address(), timeout.as_millis());
    format!(
        "router: {{ shared_cache_type: hicache, shared_cache_url: \"http://{address}\", \
         shared_cache_timeout: {timeout}ms }}\n"
    )
}

fn completion(ids: &[u32]) -> Value {
    json!({ "model": MODEL, "prompt": ids, "max_tokens": 2 })
}

async fn latest(rig: &Rig) -> Result<Value> {
    Ok(rig.admin_json("/v1/receipts?limit=1").await?["receipts"][0].clone())
}

/// One series of `/metrics`.
async fn counted(rig: &Rig, series: &str) -> Result<f64> {
    let text = rig.admin.get("/metrics").await?.text();
    let name = format!("pointsman_shared_cache_{series} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name));
    Ok(value.with_context(|| format!("{name} is not in\n{text}"))?.parse()?)
}

/// What a dry run would decide: the worker, both rows' costs, and the whole answer.
async fn dry_run(rig: &Rig, ids: &[u32]) -> Result<(Value, [Value; 2], Value)> {
    let answer = rig.admin.post("/v1/route", &json!({ "model": MODEL, "token_ids": ids })).await?;
    assert!(answer.is_good(), "{}", answer.text());
    let run = answer.json();
    let costs = [0, 1].map(|row| run["rows"][row]["cost"].clone());
    Ok((run["worker_id"].clone(), costs, run))
}

/// Load of so many tokens on a worker, all of them computed, for as long as this is kept.
async fn load(rig: &Rig, worker: u64, tokens: u64) -> Result<Decision> {
    let partition = PartitionKey {
        model: MODEL.into(),
        routing_group: DEFAULT_GROUP.into(),
        role: Role::Aggregated,
    };
    let mut request = RouteRequest::new("load", partition, tokens);
    request.constraints.pinned = Some(WorkerTarget { worker_id: WorkerId(worker), dp_rank: None });
    request.track_prefill_tokens = Some(false);
    Ok(rig.server.app().dispatcher.decide(request.into(), Mode::Book).await?)
}

#[tokio::test]
async fn a_worker_that_lacks_the_blocks_is_chosen_for_what_the_shared_cache_has() -> Result<()> {
    let cache = SharedCacheServer::start().await?;
    let owner = LoadClient::new(cache.address());
    let rig = plan(2, &cache, LONG).start().await?;
    // 100 tokens: 6 whole blocks, 7 with the one that isn't. Worker 1 has 4 of them.
    let ids: Vec<u32> = (1_000..1_100).collect();
    let pin = [("x-worker-instance-id", "1")];
    let first = Some(completion(&ids[..64]));
    let warm = rig.public.send(Method::POST, "/v1/completions", &pin, first.as_ref()).await?;
    assert_eq!((warm.is_good(), warm.worker()), (true, "1"), "{}", warm.text());
    assert_eq!(latest(&rig).await?["shared_blocks"], 0, "it was asked, and has nothing");
    rig.wait_for_idle().await?;

    // Of 6.25 blocks to be computed worker 1 has 4; each carries the 7 blocks of the request.
    let (worker, costs, run) = dry_run(&rig, &ids).await?;
    assert_eq!((worker, costs), (json!(1), [json!(9.25), json!(13.25)]), "{run}");
    assert_eq!((&run["shared_hits"], &run["shared_blocks"]), (&json!([]), &json!(0)));

    let mut chain = Vec::new();
    sequence_hashes(&ids, 16, Scope::default(), &mut chain);
    let stored = owner.post("/store", &json!({ "block_hashes": chain })).await?;
    assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text());
    // A shared block is worth half a block, beyond the device: 2 for worker 1, 6 for worker 2.
    let (worker, costs, run) = dry_run(&rig, &ids).await?;
    assert_eq!((worker, costs), (json!(1), [json!(8.25), json!(10.25)]), "{run}");
    assert_eq!((&run["shared_hits"], &run["shared_blocks"]), (&json!([[0, 6]]), &json!(2)));

    let hole = [chain[1], chain[4]];
    owner.post("/remove", &json!({ "block_hashes": hole })).await?;
    // Blocks 0, 2, 3 and 5 are left: 1 for worker 1, 4 for worker 2.
    let (_, costs, run) = dry_run(&rig, &ids).await?;
    assert_eq!(costs, [json!(8.75), json!(11.25)], "{run}");
    let ranges = json!([[0, 1], [2, 4], [5, 6]]);
    assert_eq!(run["shared_hits"], ranges);
    let query: Vec<String> = ids.iter().map(u32::to_string).collect();
    let query = format!("/v1/overlap?model={MODEL}&token_ids={}", query.join(","));
    let overlap = rig.admin_json(&query).await?;
    assert_eq!(overlap["shared_hits"], ranges);
    let held = |row: usize| {
        [&overlap["rows"][row]["device_blocks"], &overlap["rows"][row]["shared_blocks"]]
    };
    assert_eq!([held(0), held(1)], [[4, 1], [0, 4]]);
    owner.post("/store", &json!({ "block_hashes": hole })).await?;

    // 3 blocks of load on worker 1: less than the 4 blocks that it has, more than the 2 that it has
    // beyond what it could fetch.
    let held = load(&rig, 1, 48).await?;
    let (_, costs, run) = dry_run(&rig, &ids).await?;
    assert_eq!(costs, [json!(11.25), json!(10.25)], "{run}");
    let answer = rig.public.post("/v1/completions", &completion(&ids)).await?;
    assert_eq!((answer.is_good(), answer.worker()), (true, "2"), "{}", answer.text());
    let receipt = latest(&rig).await?;
    assert_eq!((&receipt["cost"], &receipt["shared_blocks"]), (&json!(10.25), &json!(6)));
    assert_eq!(receipt["predicted_cached_tokens"], 0, "what it would fetch isn't its own");
    drop(held);

    assert_eq!(counted(&rig, "beyond_blocks_total").await?, 6.0);
    // The warm prompt's 4 blocks, then 6 for each of four dry runs, the overlap and the request.
    assert_eq!(counted(&rig, "asked_blocks_total").await?, 40.0);
    assert_eq!(counted(&rig, "hit_blocks_total").await?, 26.0);
    assert_eq!(counted(&rig, "query_seconds_count").await?, cache.asked() as f64);
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_shared_cache_that_never_answers_is_waited_for_and_then_left_alone() -> Result<()> {
    let cache = SharedCacheServer::start_silent().await?;
    let rig = plan(2, &cache, Duration::from_millis(20)).start().await?;
    let ids: Vec<u32> = (1_000..1_100).collect();
    for _ in 0..5 {
        let answer = rig.public.post("/v1/completions", &completion(&ids)).await?;
        assert!(answer.is_good(), "{}", answer.text());
        assert_eq!(latest(&rig).await?["shared_blocks"], Value::Null);
    }
    assert_eq!(counted(&rig, "resting").await?, 1.0);
    assert_eq!(counted(&rig, "errors_total{reason=\"timeout\"}").await?, 5.0);
    // Together, so that one at most can be the next that tries.
    let mut running = JoinSet::new();
    for _ in 0..20 {
        let (client, body) = (rig.public.clone(), completion(&ids));
        running.spawn(async move { client.post("/v1/completions", &body).await });
    }
    while let Some(answer) = running.join_next().await {
        let answer = answer??;
        assert!(answer.is_good(), "{}", answer.text());
    }
    let failed = counted(&rig, "errors_total{reason=\"timeout\"}").await?;
    let unasked = counted(&rig, "unasked_total{reason=\"resting\"}").await?;
    assert_eq!(failed + unasked, 25.0, "each request was either waited for or not asked about");
    assert_eq!((cache.asked() as f64, unasked > 10.0), (failed, true), "{unasked}");
    assert_eq!(counted(&rig, "resting").await?, 1.0);
    assert_eq!(counted(&rig, "hit_blocks_total").await?, 0.0);
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_changed_file_says_where_it_is_asked_and_a_policy_whether() -> Result<()> {
    let cache = SharedCacheServer::start().await?;
    let mut plan = Plan::new(1);
    plan.selection =
        "  aggregated: default\n  instances: [{ name: it, type: least-loaded }]\n".to_owned();
    let rig = plan.start().await?;
    let ask = async || {
        let answer = rig.public.post("/v1/completions", &completion(&[7; 40])).await?;
        assert!(answer.is_good(), "{}", answer.text());
        anyhow::Ok(latest(&rig).await?["shared_blocks"].clone())
    };
    let change = async |from: &str, to: &str| {
        let text = std::fs::read_to_string(rig.config_file())?;
        assert_eq!(text.matches(from).count(), 1, "{text}");
        std::fs::write(rig.config_file(), text.replace(from, to))?;
        let told = rig.admin.send(Method::POST, "/v1/policies/reload", &[], None).await?;
        assert!(told.is_good(), "{}", told.text());
        anyhow::Ok(())
    };
    assert_eq!((ask().await?, cache.asked()), (Value::Null, 0));
    change("health:", &(router(&cache, LONG) + "health:")).await?;
    assert_eq!((ask().await?, cache.asked()), (json!(0), 1));
    change("aggregated: default", "aggregated: it").await?;
    assert_eq!((ask().await?, cache.asked()), (Value::Null, 1));
    change("aggregated: it", "aggregated: default").await?;
    change("hicache,", "hicache, shared_cache_multiplier: 0,").await?;
    assert_eq!((ask().await?, cache.asked()), (Value::Null, 1));
    change("shared_cache_multiplier: 0,", "shared_cache_multiplier: 1,").await?;
    assert_eq!((ask().await?, cache.asked()), (json!(0), 2));
    rig.stop().await;
    Ok(())
}
