//! Events reach the index in the life that they are of, and in no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use pointsman_core::fleet::{CacheFeed, CacheFeedMode};
use pointsman_core::index::{CacheEvent, Content, Stored, Tier};
use serde_json::json;

use super::rig::{Front, NOBODY, Rig, at, engine, forgetful, rank};
use crate::discovery::cache::CacheLife;
use crate::discovery::cache::gate::Gate;
use crate::feeds::CacheSink;
use crate::feeds::subscriber::tests::engine::{removed, stored};
use crate::serve::testing::{MODEL, partition};

#[tokio::test]
async fn events_of_a_registered_worker_reach_the_index_and_its_feed_is_shown() {
    let rig = Rig::start().await;
    let mut engine = engine().await;
    engine.publish(&[stored(1, 3)]).await;
    let shown = rig.register(at(&engine, true)).await;
    assert_eq!(shown["kv_event_source_mode"], "auto");
    assert_eq!(shown["kv_events_endpoints"]["0"], engine.source(true).endpoint.to_string());
    rig.until_held(3).await;
    rig.reached(&mut engine).await;
    engine.publish(&[stored(7, 2), removed(&[1])]).await;
    rig.until_held(4).await;
    let feed = rig.feed().await;
    assert_eq!((&feed["rank"], &feed["state"]), (&json!(0), &json!("live")), "{feed}");
    assert_eq!(feed["held"], json!({ "device": 4, "host": 0, "disk": 0, "external": 0 }));
    assert_eq!((&feed["counts"]["batches"], &feed["orphans"]), (&json!(2), &json!(0)));
    let metrics = rig.metrics().await;
    let labels =
        format!("dp_rank=\"0\",model=\"{MODEL}\",role=\"aggregated\",routing_group=\"default\"");
    for line in [
        format!("pointsman_cache_batches_total{{{labels},worker_id=\"1\"}} 2"),
        format!("pointsman_cache_feed_state{{{labels},state=\"live\",worker_id=\"1\"}} 1"),
        format!("pointsman_cache_rank_blocks{{{labels},tier=\"device\",worker_id=\"1\"}} 4"),
    ] {
        assert!(metrics.contains(&line), "{line}\nin\n{metrics}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_deleted_worker_leaves_nothing_in_the_index_and_its_feed_ends() {
    let rig = Rig::start().await;
    let mut engine = engine().await;
    engine.publish(&[stored(1, 3)]).await;
    rig.register(at(&engine, true)).await;
    rig.until_held(3).await;
    rig.delete().await;
    assert_eq!(rig.held(), None);
    engine.publish(&[stored(7, 3)]).await;
    let metrics = rig.metrics().await;
    assert!(!metrics.contains("pointsman_cache_batches_total{"), "{metrics}");
    assert_eq!(rig.held(), None);
    rig.stop().await;
}

#[tokio::test]
async fn another_engine_under_the_same_id_begins_with_an_empty_cache() {
    let rig = Rig::start().await;
    let (mut before, mut after) = (engine().await, engine().await);
    before.publish(&[stored(1, 3)]).await;
    let first = rig.register(at(&before, true)).await;
    rig.until_held(3).await;
    // Where its HTTP is makes it another engine, where its events are another source of the same.
    let mut elsewhere = at(&after, true);
    elsewhere["endpoint"] = json!("http://127.0.0.1:10");
    let second = rig.register(elsewhere).await;
    assert!(second["epoch"].as_u64() > first["epoch"].as_u64());
    assert!(rig.held().is_none_or(|held| held == 0));
    after.publish(&[stored(1, 1)]).await;
    rig.until_held(1).await;
    before.publish(&[stored(7, 3)]).await;
    after.publish(&[stored(3, 1)]).await;
    rig.until_held(2).await;
    rig.stop().await;
}

#[tokio::test]
async fn events_from_elsewhere_replace_what_was_known() {
    let rig = Rig::start().await;
    let (mut before, mut after) = (engine().await, engine().await);
    before.publish(&[stored(1, 3)]).await;
    after.publish(&[stored(1, 2)]).await;
    let first = rig.register(at(&before, true)).await;
    rig.until_held(3).await;
    let second = rig.register(at(&after, true)).await;
    assert_eq!(second["epoch"], first["epoch"], "the same engine");
    rig.until_held(2).await;
    let none = json!({ "kv_event_source_mode": "none", "kv_events_endpoint": null,
        "replay_endpoint": null });
    let answer = rig.send(Method::PATCH, "/v1/workers/1", &none).await;
    assert!(answer.is_good(), "{}", answer.text());
    assert_eq!(rig.held(), None);
    assert_eq!(answer.json()["cache_feeds"], json!([]));
    rig.stop().await;
}

#[tokio::test]
async fn a_worker_that_was_out_of_reach_is_asked_for_all_that_it_holds_anew() {
    let rig = Rig::probing("/health").await;
    let front = Arc::new(Front::default());
    let endpoint = front.serve().await;
    let mut engine = engine().await;
    engine.publish(&[stored(1, 3)]).await;
    let mut worker = at(&engine, true);
    worker["endpoint"] = json!(endpoint);
    rig.register(worker).await;
    rig.until_held(3).await;
    let connections = async || rig.feed().await["counts"]["connections"].as_u64().unwrap();
    assert_eq!(connections().await, 1);
    let available = async |wanted: &str| {
        rig.until(wanted, async || {
            let worker = rig.admin.get("/v1/workers/1").await.unwrap().json();
            worker["availability"] == wanted
        })
        .await;
    };
    front.ill.store(true, Ordering::SeqCst);
    available("unhealthy").await;
    front.ill.store(false, Ordering::SeqCst);
    available("ready").await;
    rig.until("asked anew", async || connections().await == 2).await;
    rig.until_held(3).await;
    rig.stop().await;
}

/// Without replays there is nothing to fill the gap with, so what may be stale is given up.
#[tokio::test]
async fn a_worker_that_was_out_of_reach_and_can_not_be_asked_is_believed_from_then_on() {
    let rig = Rig::probing("/health").await;
    let front = Arc::new(Front::default());
    let endpoint = front.serve().await;
    let mut engine = forgetful().await;
    let mut worker = at(&engine, false);
    worker["endpoint"] = json!(endpoint);
    rig.register(worker).await;
    rig.reached(&mut engine).await;
    engine.publish(&[stored(1, 3)]).await;
    rig.until_held(3).await;
    front.ill.store(true, Ordering::SeqCst);
    let connections = async || rig.feed().await["counts"]["connections"].as_u64();
    rig.until("unhealthy", async || {
        let worker = rig.admin.get("/v1/workers/1").await.unwrap().json();
        worker["availability"] == "unhealthy"
    })
    .await;
    front.ill.store(false, Ordering::SeqCst);
    rig.until("cleared", async || connections().await == Some(2)).await;
    assert!(rig.held().is_none_or(|held| held == 0));
    rig.reached(&mut engine).await;
    engine.publish(&[stored(11, 1), stored(1, 1)]).await;
    rig.until_held(1).await;
    rig.stop().await;
}

/// A feed may be in the middle of a batch when its life ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_an_earlier_life_reaches_the_index_however_close_it_comes() {
    let rig = Rig::start().await;
    for round in 0..100_u64 {
        rig.register(json!({ "kv_event_source_mode": "none" })).await;
        let router = rig.server.app().dispatcher.router().clone();
        let worker = router.worker(rank(1, 0).worker_id).unwrap();
        let found = router.partition(&partition()).unwrap();
        let gate = Gate::new(found.clone(), worker.epoch);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut block = round << 32;
                while !stop.load(Ordering::Relaxed) {
                    block += 1;
                    let event = CacheEvent::Stored(Stored {
                        parent: None,
                        engines: &[block],
                        content: Content::Blocks(&[block]),
                        tier: Tier::Device,
                    });
                    gate.apply(rank(1, 0), event);
                    gate.live(rank(1, 0));
                }
            });
            while rig.held().is_none_or(|held| held == 0) {
                std::thread::yield_now();
            }
            match round % 2 {
                // The worker goes.
                0 => {
                    gate.close();
                    router.remove_worker(rank(1, 0).worker_id).unwrap();
                }
                // Events are to come from elsewhere.
                _ => {
                    gate.close();
                    found.cache().remove_rank(rank(1, 0));
                }
            }
            assert_eq!(rig.held(), None);
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(rig.held(), None);
        if round % 2 == 1 {
            rig.delete().await;
        }
    }
    rig.stop().await;
}

/// The same through a life, whose feeds are real: a batch is always under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lives_that_follow_each_other_quickly_never_see_each_others_blocks() {
    let rig = Rig::start().await;
    let mut engine = engine().await;
    for at in 0..50 {
        engine.publish(&[stored(1 + 2 * at, 1)]).await;
    }
    let feed = CacheFeed {
        kv_event_source_mode: CacheFeedMode::Zmq,
        kv_events_endpoints: [(0, engine.source(true).endpoint.to_string())].into(),
        replay_endpoints: [(0, engine.source(true).replay_endpoint.unwrap().to_string())].into(),
        ..CacheFeed::default()
    };
    for round in 0..30_u16 {
        let endpoint = format!("http://127.0.0.1:{}", 10 + round % 2);
        let more = json!({ "endpoint": endpoint, "kv_event_source_mode": feed.kv_event_source_mode,
            "kv_events_endpoints": feed.kv_events_endpoints, "replay_endpoints": feed.replay_endpoints });
        rig.register(more).await;
        rig.until("told", async || rig.held().is_some_and(|held| held > 0)).await;
        rig.register(json!({ "endpoint": NOBODY, "kv_event_source_mode": "none" })).await;
        assert_eq!(rig.held(), None, "round {round}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_life_that_is_over_takes_and_forgets_nothing() {
    let rig = Rig::start().await;
    rig.register(json!({ "kv_event_source_mode": "push" })).await;
    let router = rig.server.app().dispatcher.router();
    let worker = router.worker(rank(1, 0).worker_id).unwrap();
    let found = router.partition(&partition()).unwrap();
    let life = CacheLife::begin(&worker.spec, worker.epoch, found.clone());
    life.end();
    found.cache().expect_events(rank(1, 0));
    life.recovered();
    life.fell_asleep();
    life.describe(&CacheFeed::default());
    assert!(life.pushed(None).is_err());
    assert!(life.view().0.is_empty());
    assert!(found.cache().tells(rank(1, 0)), "another's");
    rig.stop().await;
}
