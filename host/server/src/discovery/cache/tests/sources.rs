//! Where events come from when nobody says: the engine is asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::rig::{Front, Rig, engine};
use crate::feeds::subscriber::tests::engine::{Engine, stored};

/// What vLLM says of a publisher.
fn vllm(engine: &Engine) -> serde_json::Value {
    let source = engine.source(true);
    // As the engine sees it: on all of its addresses.
    let here = |endpoint: String| endpoint.replace("127.0.0.1", "*");
    json!({ "0": {
        "enable_kv_cache_events": true, "publisher": "zmq", "topic": "kv-events",
        "endpoint": here(source.endpoint.to_string()),
        "replay_endpoint": here(source.replay_endpoint.map(|a| a.to_string()).unwrap_or_default()),
    } })
}

#[tokio::test]
async fn a_vllm_engine_is_asked_where_it_publishes() {
    let rig = Rig::start().await;
    let mut engine = engine().await;
    engine.publish(&[stored(1, 3)]).await;
    let front = Arc::new(Front::default());
    *front.vllm.lock() = Some(vllm(&engine));
    rig.register(json!({ "endpoint": front.serve().await })).await;
    rig.until_held(3).await;
    assert_eq!(rig.feed().await["endpoint"], engine.source(true).endpoint.to_string());
    rig.stop().await;
}

#[tokio::test]
async fn an_sglang_engine_is_asked_where_it_publishes_and_what_its_blocks_are() {
    let rig = Rig::start().await;
    let mut engine = engine().await;
    engine.publish(&[stored(1, 3)]).await;
    let source = engine.source(true);
    let port = |endpoint: String| endpoint.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let front = Arc::new(Front::default());
    *front.sglang.lock() = Some(json!({ "kv_events": {
        "publisher": "zmq", "endpoint_host": "*", "topic": "kv-events", "block_size": 16, "dp_size": 1,
        "endpoint_port_base": port(source.endpoint.to_string()),
        "replay_endpoint_port_base": port(source.replay_endpoint.unwrap().to_string()),
    } }));
    rig.register(json!({ "endpoint": front.serve().await })).await;
    rig.until_held(3).await;
    let worker = rig.admin.get("/v1/workers/1").await.unwrap().json();
    let problem = worker["cache_feed_problem"].as_str().unwrap();
    assert!(problem.contains("have 16 tokens, not 2"), "{problem}");
    rig.stop().await;
}

#[tokio::test]
async fn an_engine_that_names_nothing_says_why_and_is_asked_again_when_it_comes_back() {
    let rig = Rig::probing("/health").await;
    let front = Arc::new(Front::default());
    rig.register(json!({ "endpoint": front.serve().await })).await;
    let worker = async || rig.admin.get("/v1/workers/1").await.unwrap().json();
    rig.until("asked", async || !worker().await["cache_feed_problem"].is_null()).await;
    let shown = worker().await;
    let problem = shown["cache_feed_problem"].as_str().unwrap();
    assert!(problem.contains("/kv_event_sources answered 404"), "{problem}");
    assert_eq!(shown["cache_feeds"], json!([]));
    assert_eq!(front.asked.load(Ordering::SeqCst), 1);
    // It is started anew, with events.
    let mut engine = engine().await;
    engine.publish(&[stored(1, 3)]).await;
    front.ill.store(true, Ordering::SeqCst);
    rig.until("unhealthy", async || worker().await["availability"] == "unhealthy").await;
    *front.vllm.lock() = Some(vllm(&engine));
    front.ill.store(false, Ordering::SeqCst);
    rig.until_held(3).await;
    assert_eq!(worker().await["cache_feed_problem"], json!(null));
    rig.stop().await;
}

#[tokio::test]
async fn an_engine_that_names_what_is_of_no_use_is_not_said_to_name_nothing() {
    let rig = Rig::start().await;
    let front = Arc::new(Front::default());
    let ports = |rank: u16| {
        json!({ "enable_kv_cache_events": true, "publisher": "zmq", "topic": "",
            "endpoint": format!("tcp://*:{}", 5_557 + rank),
            "replay_endpoint": format!("tcp://*:{}", 5_558 + rank) })
    };
    *front.vllm.lock() = Some(json!({ "0": ports(0), "1": ports(1) }));
    let endpoint = front.serve().await;
    rig.register(json!({ "endpoint": endpoint, "data_parallel_size": 2 })).await;
    let problem = async || {
        let worker = rig.admin.get("/v1/workers/1").await.unwrap().json();
        worker["cache_feed_problem"].as_str().unwrap_or_default().to_owned()
    };
    rig.until("told", async || problem().await.contains("would share")).await;
    assert!(problem().await.starts_with("the engine's events can't be followed: "));
    // One that tells far too much says how much that is.
    *front.vllm.lock() = Some(json!({ "0": "x".repeat(5 << 20) }));
    rig.register(json!({ "endpoint": endpoint })).await;
    let told = async || {
        let problem = problem().await;
        problem.contains("more than 4194304 bytes") && problem.contains("event endpoint by hand")
    };
    rig.until("told", told).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_router_that_believes_no_events_asks_for_none() {
    let mut config = crate::serve::testing::config::<&str>(&[]);
    let settings =
        pointsman_core::policy::RouterSettings { use_kv_events: false, ..Default::default() };
    config.settings = settings.into();
    let rig = Rig::with(config).await;
    let front = Arc::new(Front::default());
    rig.register(json!({ "endpoint": front.serve().await })).await;
    let worker = async || rig.admin.get("/v1/workers/1").await.unwrap().json();
    rig.until("said so", async || !worker().await["cache_feed_problem"].is_null()).await;
    let shown = worker().await;
    assert!(shown["cache_feed_problem"].as_str().unwrap().contains("use_kv_events is false"));
    assert_eq!(front.asked.load(Ordering::SeqCst), 0);
    rig.stop().await;
}
