//! A router before a real pyzmq publisher: what engines send on the wire is understood.

use std::path::Path;

use anyhow::{Context, Result};
use http::Method;
use pointsman_tests::publisher::Publisher;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::{Value, json};

/// Cargo's target folder.
fn target() -> Result<&'static Path> {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("a target folder")
}

/// Blocks of two tokens from `first` on, each named by its first token, as an array or as a map.
fn stored(first: u64, blocks: u64, as_map: bool) -> Value {
    let hashes: Vec<u64> = (0..blocks).map(|at| first + 2 * at).collect();
    let tokens: Vec<u64> = (first..first + 2 * blocks).collect();
    let parent = if first > 2 { json!(first - 2) } else { Value::Null };
    match as_map {
        true => json!({ "type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent,
            "token_ids": tokens, "block_size": 2, "lora_id": null, "medium": "GPU", "lora_name": null, "group_idx": 0 }),
        false => json!(["BlockStored", hashes, parent, tokens, 2, null, "GPU", null, null, 0]),
    }
}

async fn register(rig: &Rig, publisher: &Publisher, replays: bool) -> Result<()> {
    let mut worker = json!({ "worker_id": 7, "endpoint": "http://127.0.0.1:9", "model": MODEL,
        "routing_group": "published", "block_size": 2, "kv_event_source_mode": "zmq",
        "kv_events_endpoint": publisher.endpoint, "kv_events_topic": "kv-" });
    if replays {
        worker["replay_endpoint"] = json!(publisher.replay_endpoint);
    }
    let answer = rig.admin.send(Method::POST, "/v1/workers", &[], Some(&worker)).await?;
    anyhow::ensure!(answer.is_good(), "{}", answer.text());
    Ok(())
}

async fn feed(rig: &Rig) -> Result<Value> {
    Ok(rig.admin_json("/v1/workers/7").await?["cache_feeds"][0].take())
}

async fn until_held(rig: &Rig, blocks: u64) -> Result<()> {
    let wanted = format!("{blocks} blocks");
    let held = rig.wait_for(&wanted, async || Ok(feed(rig).await?["held"]["device"] == blocks));
    let held = held.await;
    let shown = feed(rig).await?;
    held.with_context(|| format!("{shown:#}"))
}

/// What the publisher sends before it knows of the subscription is lost on a PUB socket.
async fn until_subscribed(rig: &Rig, publisher: &mut Publisher) -> Result<()> {
    let count = async || Ok::<_, anyhow::Error>(feed(rig).await?["counts"]["batches"].as_u64());
    let before = count().await?;
    while count().await? <= before {
        publisher.publish(json!([])).await?;
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_pyzmq_publisher_is_followed_asked_for_gaps_and_seen_to_restart() -> Result<()> {
    let rig = Plan::new(1).start().await?;
    let mut publisher = Publisher::start(target()?, 100).await?;
    publisher.publish(json!([stored(1, 2, false)])).await?;
    register(&rig, &publisher, true).await?;
    until_held(&rig, 2).await?;
    until_subscribed(&rig, &mut publisher).await?;

    publisher.publish(json!([stored(5, 2, true), ["BlockRemoved", [1], "GPU", 0]])).await?;
    until_held(&rig, 3).await?;
    let gaps = feed(&rig).await?["counts"]["gaps"].clone();
    publisher.lose(json!([stored(9, 1, true)])).await?;
    publisher.lose(json!([stored(11, 1, true)])).await?;
    publisher.publish(json!([stored(13, 1, true)])).await?;
    until_held(&rig, 6).await?;
    let counts = feed(&rig).await?["counts"].clone();
    assert_eq!(counts["gaps"].as_u64(), gaps.as_u64().map(|gaps| gaps + 1), "{counts}");
    assert_eq!(counts["lost"], 0);

    let mut publisher = publisher.restart(target()?).await?;
    publisher.publish(json!([stored(1, 1, true)])).await?;
    until_held(&rig, 1).await?;
    assert_eq!(publisher.asked().await?.as_array().map(|asked| asked.is_empty()), Some(false));

    until_subscribed(&rig, &mut publisher).await?;
    publisher.publish(json!([["AllBlocksCleared"]])).await?;
    until_held(&rig, 0).await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_pyzmq_publisher_without_replays_is_seen_to_restart_by_its_numbers() -> Result<()> {
    let rig = Plan::new(1).start().await?;
    let mut publisher = Publisher::start(target()?, 100).await?;
    register(&rig, &publisher, false).await?;
    rig.wait_for("a live feed", async || Ok(feed(&rig).await?["state"] == "live")).await?;
    until_subscribed(&rig, &mut publisher).await?;
    for batch in 0..20 {
        publisher.publish(json!([stored(1 + 2 * batch, 1, batch % 2 == 0)])).await?;
    }
    until_held(&rig, 20).await?;
    let connected = feed(&rig).await?["counts"]["connections"].clone();
    let mut publisher = publisher.restart(target()?).await?;
    rig.wait_for("another connection", async || {
        Ok(feed(&rig).await?["counts"]["connections"] != connected)
    })
    .await?;
    until_subscribed(&rig, &mut publisher).await?;
    publisher.publish(json!([stored(1, 1, true)])).await?;
    until_held(&rig, 1).await?;
    assert_eq!(feed(&rig).await?["counts"]["restarts"], 1);
    rig.stop().await;
    Ok(())
}
