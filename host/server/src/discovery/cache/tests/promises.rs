//! What goes wrong with caches in other routers, and doesn't here.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::json;

use super::rig::{Front, Rig, at, engine, forgetful};
use crate::feeds::subscriber::tests::engine::{Engine, Frames, cleared, stored};
use crate::housekeeping;
use crate::serve::testing::MODEL;

/// C9: restarted in place, same id and address, events from 0, an empty cache, no replays.
#[tokio::test]
async fn an_engine_that_restarts_in_place_is_no_longer_credited_with_what_it_held() {
    let rig = Rig::start().await;
    let mut engine = forgetful().await;
    rig.register(at(&engine, false)).await;
    rig.reached(&mut engine).await;
    engine.publish(&[stored(1, 3)]).await;
    engine.publish(&[stored(7, 1)]).await;
    rig.until_held(4).await;
    let mut engine = engine.restart().await;
    rig.until("connected again", async || rig.feed().await["counts"]["connections"] == 2).await;
    rig.reached(&mut engine).await;
    engine.publish(&[stored(1, 1)]).await;
    rig.until_held(1).await;
    assert_eq!(rig.feed().await["counts"]["restarts"], 1);
    rig.stop().await;
}

/// C10, the event.
#[tokio::test]
async fn all_cleared_is_all_cleared() {
    let rig = Rig::start().await;
    let mut engine = engine().await;
    engine.publish(&[stored(1, 3)]).await;
    rig.register(at(&engine, true)).await;
    rig.until_held(3).await;
    rig.reached(&mut engine).await;
    engine.publish(&[cleared()]).await;
    rig.until_held(0).await;
    rig.stop().await;
}

/// C10, without the event: the next health sample says that the engine sleeps.
#[tokio::test]
async fn an_engine_that_sleeps_holds_nothing_even_if_its_event_is_lost() {
    let rig = Rig::probing("/is_sleeping").await;
    let front = Arc::new(Front::default());
    let mut engine = engine().await;
    engine.publish(&[stored(1, 3)]).await;
    let mut worker = at(&engine, true);
    worker["endpoint"] = json!(front.serve().await);
    rig.register(worker).await;
    rig.until_held(3).await;
    let shown = async || rig.admin.get("/v1/workers/1").await.unwrap().json();
    assert_eq!(shown().await["availability"], "ready");
    front.sleeping.store(true, Ordering::SeqCst);
    rig.until("asleep", async || shown().await["availability"] == "unhealthy").await;
    rig.until("forgotten", async || rig.held().is_none_or(|held| held == 0)).await;
    assert_eq!(shown().await["reason"], "the engine says that it sleeps");
    front.sleeping.store(false, Ordering::SeqCst);
    rig.until("awake", async || shown().await["availability"] == "ready").await;
    rig.stop().await;
}

/// C11: 0 to 9, 10 to 12 lost, 13 comes; recovery answers once.
#[tokio::test]
async fn a_gap_is_recovered_once_and_what_came_before_stays_in_use() {
    let rig = Rig::start().await;
    let mut engine = engine().await;
    rig.register(at(&engine, true)).await;
    rig.reached(&mut engine).await;
    for at in 0..10 {
        engine.publish(&[stored(1 + 2 * at, 1)]).await;
    }
    rig.until_held(10).await;
    for at in 10..13 {
        engine.lose(&[stored(1 + 2 * at, 1)]);
    }
    engine.publish(&[stored(1 + 2 * 13, 1)]).await;
    rig.until_held(14).await;
    engine.publish(&[stored(1 + 2 * 14, 1)]).await;
    rig.until_held(15).await;
    let counts = rig.feed().await["counts"].clone();
    assert_eq!((&counts["gaps"], &counts["lost"]), (&json!(1), &json!(0)), "{counts}");
    assert_eq!(counts["orphans"], 0, "nothing was applied before its turn");
    // From the last known batch on, which tells whether it is the same engine still.
    assert_eq!(engine.asked().iter().filter(|&&from| from == 9).count(), 1);
    rig.stop().await;
}

/// C11: the first event has number 5.
#[tokio::test]
async fn a_gap_before_the_first_event_is_seen() {
    let rig = Rig::start().await;
    let mut engine = Engine::start((0, 0), 100, Frames::None).await;
    for at in 0..5 {
        engine.lose(&[stored(1 + 2 * at, 1)]);
    }
    rig.register(at(&engine, false)).await;
    rig.reached(&mut engine).await;
    engine.publish(&[stored(1, 2)]).await;
    rig.until_held(2).await;
    let counts = rig.feed().await["counts"].clone();
    assert_eq!((&counts["gaps"], &counts["lost"]), (&json!(1), &json!(5)), "{counts}");
    rig.stop().await;
}

/// C13: 16 and 32 in one partition; and a worker whose engine has another block size than it says.
#[tokio::test]
async fn block_sizes_that_do_not_fit_are_refused_or_shown_and_never_silent() {
    let rig = Rig::start().await;
    let mut engine = engine().await;
    engine.publish(&[stored(1, 3)]).await;
    let mut sixteen = at(&engine, true);
    sixteen["block_size"] = json!(16);
    rig.register(sixteen).await;
    let other = json!({ "worker_id": 2, "endpoint": "http://127.0.0.1:10", "model": MODEL,
        "block_size": 32 });
    let refused = rig.send(Method::POST, "/v1/workers", &other).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());

    rig.until("noticed", async || rig.feed().await["wrong_block_size"] == 2).await;
    let feed = rig.feed().await;
    let error = feed["last_error"].as_str().unwrap();
    assert!(error.contains("have 2 tokens, not 16"), "{error}");
    let metrics = rig.metrics().await;
    let line = metrics.lines().find(|line| line.starts_with("pointsman_cache_wrong_block_size{"));
    assert!(line.is_some_and(|line| line.ends_with(" 2")), "{line:?}");
    assert!(rig.held().is_none_or(|held| held == 0));
    rig.stop().await;
}

/// C13: events flow, prompts come, and nothing ever matches.
#[tokio::test]
async fn an_alarm_rings_within_a_minute_when_events_flow_and_nothing_ever_matches() {
    let rig = Rig::start().await;
    let mut engine = engine().await;
    engine.publish(&[stored(1, 3)]).await;
    rig.register(at(&engine, true)).await;
    rig.until_held(3).await;
    let app = rig.server.app();
    // The server looks too, when it comes to it: what counts is what happens after the first look.
    housekeeping::look(app, Duration::ZERO).await;
    engine.publish(&[stored(7, 3)]).await;
    rig.until_held(6).await;
    let rings = async || {
        let metrics = rig.metrics().await;
        let line = metrics.lines().find(|line| line.starts_with("pointsman_cache_never_matches{"));
        line.unwrap().ends_with(" 1")
    };
    assert!(!rings().await);
    // The router's tokens aren't the engine's.
    for nth in 0..20 {
        rig.decide(&[1_000 + nth, 7, 8, 9]).await;
    }
    housekeeping::look(app, Duration::from_secs(10)).await;
    assert!(rings().await);
    assert!(rig.decide(&[1, 2, 3, 4]).await.receipt.overlap.device_blocks > 0);
    housekeeping::look(app, Duration::from_secs(20)).await;
    assert!(!rings().await);
    rig.stop().await;
}
