//! What the overlap view shows of prompts.

use super::tokens::set;
use super::*;
use crate::housekeeping;
use crate::tokens::{Choice, TokenSettings};

#[tokio::test]
async fn what_overlap_shows_is_what_the_next_decision_begins_with() {
    let rig = Rig::new(2).await;
    let ids: Vec<u32> = (0..100).collect();
    let body = completion(ids.clone());
    let nothing = rig.overlap(&body).await;
    assert_eq!(nothing["rows"].as_array().unwrap().len(), 2);
    let first = rig.asks(COMPLETIONS, &[], &body).await;
    let by_body = rig.overlap(&body).await;
    // It books and predicts nothing.
    assert_eq!(rig.overlap(&body).await, by_body);
    assert_eq!(rig.bookings(), 0);
    let facts = json!({ "model": MODEL, "token_ids": ids });
    assert_eq!(rig.overlap(&facts).await, by_body);
    let admin = LoadClient::new(rig.server.admin_addr());
    let list: Vec<String> = ids.iter().map(u32::to_string).collect();
    let path = format!("/v1/overlap?model={MODEL}&token_ids={}", list.join(","));
    assert_eq!(admin.get(&path).await.unwrap().json(), by_body);
    assert_eq!(by_body["prompt_tokens"], 100);
    assert_eq!(by_body["prompt_tokens_exact"], true);
    assert_eq!(by_body["prompt_source"], "client");
    assert_eq!((&by_body["blocks"], &by_body["block_size"]), (&json!(6), &json!(16)));
    let chosen: u64 = first.worker().parse().unwrap();
    let row = |answer: &Value| {
        let rows = answer["rows"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["worker_id"] == chosen).unwrap()
    };
    let dry = admin.post("/v1/route", &body).await.unwrap().json();
    assert_eq!(row(&by_body)["device_blocks"], 6);
    assert_eq!(row(&by_body)["told"], false);
    assert_eq!(row(&by_body)["cached_tokens"], 96);
    assert_eq!(dry["predicted_cached_tokens"], 96);
    for tier in
        ["device_blocks", "host_blocks", "disk_blocks", "external_blocks", "effective_blocks"]
    {
        assert_eq!(row(&by_body)[tier], row(&dry)["overlap"][tier], "{tier}");
    }
    let again = rig.asks(COMPLETIONS, &[], &body).await;
    assert_eq!(again.worker(), first.worker());
    assert_eq!(rig.latest()["predicted_cached_tokens"], row(&by_body)["cached_tokens"]);
}

#[tokio::test]
async fn overlap_says_what_it_can_not_answer() {
    let rig = Rig::new(1).await;
    let admin = LoadClient::new(rig.server.admin_addr());
    for (path, status, reason) in [
        ("/v1/overlap?token_ids=1", 400, "model"),
        ("/v1/overlap?model=m&token_ids=1,x", 400, r#"has \"x\""#),
        ("/v1/overlap?model=m", 400, "the prompt isn't known"),
        ("/v1/overlap?model=m&colour=red", 400, "colour"),
        ("/v1/overlap?model=m&colour=red", 400, "and no others"),
        ("/v1/overlap?model=m&model=n&token_ids=1", 400, "give each parameter"),
        ("/v1/overlap?model=other&token_ids=1", 404, "no_such_model"),
    ] {
        let answer = admin.get(path).await.unwrap();
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.text().contains(reason), "{path}: {}", answer.text());
        assert!(!answer.text().contains("deserialize"), "{}", answer.text());
    }
    for (body, reason) in [
        (json!({ "model": MODEL, "prompt_tokens": 5 }), "the prompt isn't known"),
        (json!({ "model": MODEL, "prompt_tokens": 5, "token_ids": [1] }), "leave it out"),
        (json!({ "model": MODEL, "token_ids": [-1] }), "entry 0 is -1"),
        (json!({ "messages": [] }), "model"),
        (
            json!({ "model": MODEL, "token_ids": [18_446_744_073_709_551_616.0_f64] }),
            "less than 2^64",
        ),
    ] {
        let answer = admin.post("/v1/overlap", &body).await.unwrap();
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert!(answer.text().contains(reason), "{body}: {}", answer.text());
    }
    let text = rig.overlap(&completion(text("rain"))).await;
    assert_eq!(text["prompt_source"], "text");
    assert!(text["inexact"].as_str().unwrap().contains("no tokenizer"));
}

#[tokio::test]
async fn an_engine_that_answers_nonsense_is_named_as_the_reason_while_it_rests_too() {
    let rig = Rig::with(1, |_, config| {
        set(config, TokenSettings { source: Choice::Engine, ..TokenSettings::default() });
        if let Some(worker) = config.workers.first_mut() {
            worker.endpoint = "http://127.0.0.1:9".to_owned();
        }
    })
    .await;
    for _ in 0..2 {
        let answer = rig.overlap(&completion(text("rain"))).await;
        let reason = answer["inexact"].as_str().unwrap();
        assert!(reason.contains("/tokenize can't be reached"), "{reason}");
    }
}

#[tokio::test]
async fn a_prediction_lasts_for_its_time_and_no_longer() {
    let rig = Rig::new(1).await;
    let body = completion((0..100).collect::<Vec<u32>>());
    rig.asks(COMPLETIONS, &[], &body).await;
    let app = rig.server.app();
    let row = async || rig.overlap(&body).await["rows"][0]["device_blocks"].clone();
    let ttl = app.dispatcher.router().settings().router_ttl_secs;
    let now_ms = app.dispatcher.clock().now_ms();
    housekeeping::tidy(app, now_ms);
    assert_eq!(row().await, 6);
    housekeeping::tidy(app, now_ms + 1_000 * ttl as u64 + 1_000);
    assert_eq!(row().await, 0);
}
