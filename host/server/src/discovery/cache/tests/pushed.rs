//! Events that are pushed over the admin API.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::rig::{Rig, at, engine, rank};

const PATH: &str = "/v1/workers/1/kv_events";

/// The example of the reference.
fn example() -> Value {
    let page = include_str!("../../../../ADMIN.md");
    let (_, section) = page.split_once("### Pushed events").unwrap();
    let (_, body) = section.split_once("-d '").unwrap();
    serde_json::from_str(body.split_once('\'').unwrap().0).unwrap()
}

async fn refused(rig: &Rig, path: &str, body: &Value, status: StatusCode, words: &str) {
    let answer = rig.send(Method::POST, path, body).await;
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(answer.text().contains(words), "{words}: {}", answer.text());
}

#[tokio::test]
async fn the_example_of_the_reference_is_taken() {
    let rig = Rig::start().await;
    let described = json!({ "kv_event_source_mode": "push", "block_size": 16 });
    let worker = rig.register(described).await;
    let answer = rig.send(Method::POST, PATH, &example()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let told = answer.json();
    assert_eq!((&told["worker_id"], &told["epoch"]), (&json!(1), &worker["epoch"]));
    assert_eq!(
        (&told["applied"], &told["stored"], &told["removed"]),
        (&json!(1), &json!(2), &json!(0))
    );
    assert_eq!(rig.held(), Some(2));
    let feed = rig.feed().await;
    assert_eq!((&feed["state"], &feed["endpoint"]), (&json!("live"), &Value::Null));
    assert_eq!(feed["held"]["device"], 2);
    rig.stop().await;
}

#[tokio::test]
async fn pushes_go_on_where_the_last_one_ended_and_nothing_outlives_the_worker() {
    let rig = Rig::start().await;
    rig.register(json!({})).await;
    let stored = |hash: u64, parent: Value| {
        json!({ "events": [{ "type": "stored", "block_hashes": [hash], "parent_hash": parent,
            "token_ids": [hash, hash], "block_size": 2 }] })
    };
    for (hash, parent) in [(1, json!(null)), (2, json!(1)), (3, json!(2))] {
        assert!(rig.send(Method::POST, PATH, &stored(hash, parent)).await.is_good());
    }
    assert_eq!(rig.held(), Some(3));
    let cleared = json!({ "events": [{ "type": "cleared" }] });
    assert!(rig.send(Method::POST, PATH, &cleared).await.is_good());
    assert_eq!(rig.held(), Some(0));
    assert!(rig.send(Method::POST, PATH, &stored(9, json!(null))).await.is_good());
    let before = rig.send(Method::POST, PATH, &cleared).await.json()["epoch"].clone();
    rig.register(json!({ "endpoint": "http://127.0.0.1:10" })).await;
    assert_eq!(rig.held(), None);
    let after = rig.send(Method::POST, PATH, &stored(9, json!(null))).await.json();
    assert_ne!(after["epoch"], before, "whoever pushes learns that it begins anew");
    assert_eq!(rig.held(), Some(1));
    rig.stop().await;
}

#[tokio::test]
async fn what_can_not_be_pushed_is_refused_with_its_reason_and_nothing_of_it_applied() {
    let rig = Rig::start().await;
    let empty = json!({ "events": [] });
    refused(&rig, PATH, &empty, StatusCode::NOT_FOUND, "no worker 1").await;
    refused(&rig, "/v1/workers/one/kv_events", &empty, StatusCode::BAD_REQUEST, "id").await;
    rig.register(json!({ "kv_event_source_mode": "push" })).await;
    let seventh = json!({ "dp_rank": 7, "events": [] });
    refused(&rig, PATH, &seventh, StatusCode::BAD_REQUEST, "worker 1 has rank 0 alone, not 7")
        .await;
    rig.register(json!({ "kv_event_source_mode": "none" })).await;
    refused(&rig, PATH, &empty, StatusCode::CONFLICT, "is none").await;
    let mut engine = engine().await;
    rig.register(at(&engine, true)).await;
    refused(&rig, PATH, &empty, StatusCode::CONFLICT, "publishes at tcp://").await;
    let mut zmq = at(&engine, true);
    zmq["kv_event_source_mode"] = json!("zmq");
    rig.register(zmq).await;
    refused(&rig, PATH, &empty, StatusCode::CONFLICT, "is zmq").await;
    engine.publish(&[]).await;

    let ranks = json!({ "endpoint": "http://127.0.0.1:10", "kv_event_source_mode": "push",
        "data_parallel_start_rank": 8, "data_parallel_size": 8 });
    rig.register(ranks).await;
    refused(&rig, PATH, &empty, StatusCode::BAD_REQUEST, "8 to 15, and none is named").await;
    let stranger = json!({ "dp_rank": 16, "events": [] });
    refused(&rig, PATH, &stranger, StatusCode::BAD_REQUEST, "has ranks 8 to 15, not 16").await;
    let good =
        json!({ "type": "stored", "block_hashes": [1], "token_ids": [1, 2], "block_size": 2 });
    let bad =
        json!({ "dp_rank": 9, "events": [good, { "type": "stored", "block_hashes": "all" }] });
    refused(&rig, PATH, &bad, StatusCode::BAD_REQUEST, "events[1].block_hashes").await;
    assert_eq!(rig.stats(rank(1, 9)), None);
    let sent = json!({ "dp_rank": 9, "events": [good] });
    assert!(rig.send(Method::POST, PATH, &sent).await.is_good());
    assert_eq!(rig.stats(rank(1, 9)).unwrap().held[0], 1);
    assert_eq!(rig.stats(rank(1, 8)), None);
    let hash = bytes::Bytes::from_static(
        br#"{"dp_rank": 9, "events": [{"type": "removed", "block_hashes": [18446744073709551616]}]}"#,
    );
    let json = [("content-type", "application/json")];
    let answer = rig.admin.send_bytes(Method::POST, PATH, &json, hash).await.unwrap();
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let told = "expected a hash: a number of 64 bits, or the same as text, found \
                1.8446744073709552e19, beyond 64 bits";
    assert!(answer.text().contains(told), "{}", answer.text());
    let large = bytes::Bytes::from(vec![b' '; crate::admin::MOST_EVENTS_BODY + 1]);
    let answer = rig.admin.send_bytes(Method::POST, PATH, &json, large).await.unwrap();
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(
        answer.text().contains("more than the 33554432 bytes that are taken"),
        "{}",
        answer.text()
    );
    let twice = bytes::Bytes::from_static(br#"{"dp_rank": 9, "dp_rank": 8, "events": []}"#);
    let answer = rig.admin.send_bytes(Method::POST, PATH, &json, twice).await.unwrap();
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(answer.text().contains("stands twice"), "{}", answer.text());
    rig.stop().await;
}

#[tokio::test]
async fn pushed_blocks_of_another_size_are_not_indexed_and_said_to_be_wrong() {
    let rig = Rig::start().await;
    rig.register(json!({ "kv_event_source_mode": "push" })).await;
    let wrong = json!({ "events": [{ "type": "stored", "block_hashes": [1],
        "token_ids": [1, 2, 3, 4], "block_size": 4 }] });
    let told = rig.send(Method::POST, PATH, &wrong).await.json();
    assert_eq!((&told["applied"], &told["stored"]), (&json!(0), &json!(0)));
    assert_eq!(rig.feed().await["wrong_block_size"], 4);
    rig.stop().await;
}
