//! Answers that come to their end, and answers that don't.

use std::time::Duration;

use futures_util::future::join_all;
use http::{Method, StatusCode};
use serde_json::json;

use super::rig::*;
use crate::load_client::Answer;
use crate::mock_engine::{FaultKind, StreamFault};
use crate::serve::testing::MODEL;

#[tokio::test]
async fn a_stream_goes_through_and_its_load_is_gone_with_its_last_byte() {
    let rig = Rig::new(2).await;
    for _ in 0..20 {
        let answer = rig.chat(&[], true).await;
        // Nothing to wait for: who has the last byte finds the load gone.
        assert_eq!(rig.bookings(), 0);
        assert!(answer.is_good(), "{}", answer.text());
        assert_eq!(answer.header("content-type"), "text/event-stream; charset=utf-8");
        assert!(["1", "2"].contains(&answer.worker()));
        assert_eq!(answer.policy(), "default@builtin");
        assert!(!answer.header("x-request-id").is_empty());
        assert!(!answer.header("x-pointsman-decision-id").is_empty());
        assert!(!answer.text().contains("error"));
    }
    rig.comes_to_rest().await;
    assert!(rig.counted(r#"pointsman_answers_total{outcome="completed",shape="stream"} 20"#));
    assert_eq!(rig.server.app().metrics.receipts().recent(100).len(), 20);
}

#[tokio::test]
async fn many_streams_at_once_all_succeed_and_share_the_workers() {
    let rig = Rig::new(4).await;
    let answers = join_all((0..400).map(|_| rig.chat(&[], true))).await;
    assert!(answers.iter().all(Answer::is_good));
    for worker in ["1", "2", "3", "4"] {
        let share = answers.iter().filter(|answer| answer.worker() == worker).count();
        assert!((60..=140).contains(&share), "{worker}: {share}");
    }
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn every_route_answers_in_one_piece_and_balances() {
    let rig = Rig::new(1).await;
    let bodies = [
        ("/v1/chat/completions", chat(false)),
        ("/v1/completions", json!({ "model": MODEL, "prompt": [1, 2, 3], "max_tokens": 2 })),
        ("/v1/embeddings", json!({ "model": MODEL, "input": "some text" })),
    ];
    for (path, body) in &bodies {
        let answer = rig.client.post(path, body).await.unwrap();
        assert_eq!(rig.bookings(), 0, "{path}");
        assert!(answer.is_good(), "{path}: {}", answer.text());
        assert_eq!(answer.worker(), "1");
    }
    let receipts = rig.server.app().metrics.receipts().recent(3);
    let lengths: Vec<_> = receipts
        .iter()
        .rev()
        .map(|r| (r.receipt().prompt_tokens, r.receipt().prompt_tokens_exact))
        .collect();
    assert_eq!(lengths, [(7, false), (3, true), (3, false)]);
    // What the router doesn't know is the worker's to answer.
    let answer = rig.client.post("/v1/rerank?x=1", &json!({ "model": MODEL })).await.unwrap();
    assert_eq!((answer.status, answer.worker()), (StatusCode::NOT_FOUND, "1"));
    assert_eq!(rig.engines[0].last_request().unwrap().path, "/v1/rerank?x=1");
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn the_body_goes_on_as_it_came() {
    let rig = Rig::new(1).await;
    // Spaces, escapes, a large field that nobody reads, and numbers that a parser would change.
    let body = format!(
        "{{ \"model\" : \"{MODEL}\",\n \"messages\":[{{\"role\":\"user\",\"content\":\"\\u00e9\"}}], \
         \"x\":1.0000000000000000001, \"y\":\"{}\" }}",
        "z".repeat(220_000)
    );
    let path = "/v1/chat/completions";
    let answer = rig.client.send_bytes(Method::POST, path, &[], body.clone().into()).await.unwrap();
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(rig.engines[0].last_request().unwrap().body, body.as_bytes());
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error_event() {
    for kind in [FaultKind::Reset, FaultKind::Close, FaultKind::End, FaultKind::MalformedChunk] {
        let rig = Rig::new(2).await;
        for engine in 0..2 {
            rig.turn(engine, |control| control.stream = Some(StreamFault::new(kind, 3)));
        }
        let answer = rig.chat(&[], true).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(!answer.whole);
        let text = answer.text();
        let last = text.trim_end().rsplit("\n\n").next().unwrap();
        let event: serde_json::Value =
            serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(event.pointer("/error/type"), Some(&json!("upstream_error")), "{kind:?}");
        assert_eq!(event.pointer("/error/code"), Some(&json!(502)));
        rig.comes_to_rest().await;
        let engines: u64 = rig.engines.iter().map(|engine| engine.stats().received).sum();
        assert_eq!(engines, 1, "nothing is sent again after the first byte");
        let line = r#"pointsman_answers_total{outcome="truncated",shape="stream"} 1"#;
        assert!(rig.counted(line), "{kind:?}");
    }
}

#[tokio::test]
async fn a_stream_that_falls_silent_ends_with_an_error_event() {
    let idle = Duration::from_millis(100);
    let rig = Rig::with(1, |_, config| config.proxy.idle_timeout = idle).await;
    rig.turn(0, |control| control.stream = Some(StreamFault::new(FaultKind::Hang, 3)));
    let answer = rig.chat(&[], true).await;
    assert!(answer.took >= idle && !answer.whole);
    assert!(answer.text().contains(r#""type":"upstream_timeout""#), "{}", answer.text());
    rig.comes_to_rest().await;
    assert!(rig.counted(r#"pointsman_answers_total{outcome="timed_out",shape="stream"} 1"#));
    eventually(|| rig.engines[0].stats().open_connections == 0).await;
}

#[tokio::test]
async fn a_request_takes_no_longer_than_it_may() {
    let rig = Rig::with(1, |mock, config| {
        mock.decode_ms = Some(20.0);
        config.proxy.total_timeout = Duration::from_millis(100);
    })
    .await;
    let answer = rig.chat(&[], true).await;
    assert!(answer.text().contains(r#""type":"upstream_timeout""#), "{}", answer.text());
    assert!(answer.text().contains("longer than a request may"));
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn an_error_within_a_stream_is_no_success() {
    let rig = Rig::new(1).await;
    rig.turn(0, |control| control.stream = Some(StreamFault::new(FaultKind::ErrorEvent, 2)));
    let answer = rig.chat(&[], true).await;
    assert!(answer.whole, "the engine says it itself, and ends properly");
    rig.comes_to_rest().await;
    assert!(rig.counted(r#"pointsman_answers_total{outcome="worker_error",shape="stream"} 1"#));
}

#[tokio::test]
async fn an_answer_in_one_piece_that_breaks_breaks_for_the_client_too() {
    let rig = Rig::new(1).await;
    rig.turn(0, |control| control.stream = Some(StreamFault::new(FaultKind::Reset, 0)));
    let body = chat(false);
    let answer = RawClient::post(&rig, "/v1/chat/completions", &body).await.rest().await;
    let (head, rest) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let lower = head.to_ascii_lowercase();
    let promised = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    // Either it broke before the first byte, or fewer bytes came than were promised.
    let cut = promised.is_some_and(|length| length.parse::<usize>().unwrap() > rest.len());
    assert!(head.starts_with("HTTP/1.1 502") || cut, "{answer}");
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn headers_of_one_hop_end_and_the_others_go_on() {
    let rig = Rig::new(1).await;
    rig.turn(0, |control| {
        control.two_cookies = true;
        control.hop_headers = true;
    });
    let sent = [
        ("connection", "x-foo"),
        ("x-foo", "1"),
        ("te", "trailers"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("x-request-id", "mine"),
        ("authorization", "Bearer client"),
        ("x-data-parallel-rank", "4294967295"),
    ];
    let answer = rig.chat(&sent, true).await;
    assert!(answer.is_good(), "{}", answer.text());
    assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
    assert_eq!(answer.header("x-request-id"), "mine");
    for gone in ["x-hop", "keep-alive", "proxy-authenticate", "connection"] {
        assert!(!answer.headers.contains_key(gone), "{gone}");
    }
    let got = rig.engines[0].last_request().unwrap();
    let all = |name| got.values(name).collect::<Vec<_>>();
    for gone in ["x-foo", "te", "connection", "x-data-parallel-rank"] {
        assert!(all(gone).is_empty(), "{gone}");
    }
    assert_eq!(all("traceparent").len(), 1);
    assert_eq!(all("x-request-id"), ["mine"]);
    assert_eq!(all("authorization"), ["Bearer client"]);
    assert_eq!(all("host"), [rig.engines[0].addr().to_string()]);
}

#[tokio::test]
async fn the_rank_goes_to_a_worker_that_has_several() {
    let rig = Rig::with(1, |_, config| {
        for worker in &mut config.workers {
            worker.data_parallel_start_rank = 8;
            worker.data_parallel_size = std::num::NonZeroU32::new(8).unwrap();
        }
    })
    .await;
    let pinned = [("x-worker-instance-id", "1"), ("x-dp-rank", "9")];
    let answer = rig.chat(&pinned, true).await;
    assert_eq!(answer.worker(), "1/9", "{}", answer.text());
    let got = rig.engines[0].last_request().unwrap();
    assert_eq!(got.values("x-data-parallel-rank").collect::<Vec<_>>(), ["9"]);
    let no_such = [("x-worker-instance-id", "1"), ("x-dp-rank", "16")];
    let answer = rig.chat(&no_such, true).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(error_of(&answer).get("param"), Some(&json!("x-worker-instance-id")));
}
