//! Each failure switch does what it says.

use std::io::ErrorKind;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::{Client, chat, chat_stream, raw_chat};
use super::{engine, engine_with, eventually, stays_silent};
use crate::mock_engine::{Control, Cut, FaultKind, Health, MockEngine, Refuse, StreamFault};

fn with(change: impl FnOnce(&mut Control)) -> MockEngine {
    let engine = engine();
    engine.control().update(change).unwrap();
    engine
}

fn breaking(kind: FaultKind, after_chunks: u32) -> MockEngine {
    with(|control| control.stream = Some(StreamFault::new(kind, after_chunks)))
}

#[tokio::test]
async fn refuse_answers_with_the_status_so_many_times() {
    let refuse = Refuse { status: 529, retry_after: Some(7), times: Some(2) };
    let engine = with(|control| control.refuse = Some(refuse));
    let mut client = Client::connect(engine.addr()).await;
    for left in [Some(1), None] {
        let answer = client.whole(chat(1)).await.unwrap();
        assert_eq!(answer.status.as_u16(), 529);
        assert_eq!(answer.header("retry-after"), Some("7"));
        assert_eq!(answer.json()["error"]["code"], 529);
        assert_eq!(engine.control().get().refuse.and_then(|refuse| refuse.times), left);
    }
    assert!(client.whole(chat(1)).await.unwrap().status.is_success());
    assert!(client.get("/health").await.status.is_success());
    let stats = engine.stats();
    assert_eq!((stats.failed, stats.completed), (2, 1));
}

#[tokio::test]
async fn refuse_without_a_count_holds_until_it_is_turned_off() {
    let engine = with(|control| control.refuse = Some(Refuse::status(503)));
    let mut client = Client::connect(engine.addr()).await;
    for _ in 0..3 {
        let answer = client.whole(chat_stream(1)).await.unwrap();
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.header("retry-after"), None);
    }
    engine.control().reset();
    assert!(client.whole(chat(1)).await.unwrap().status.is_success());
}

#[tokio::test]
async fn a_cut_before_the_headers_is_a_reset() {
    let engine = with(|control| control.cut_before_headers = Some(Cut { times: Some(1) }));
    let (text, ended) = raw_chat(engine.addr()).await;
    assert_eq!(text, "");
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut client = Client::connect(engine.addr()).await;
    assert!(client.whole(chat(1)).await.unwrap().status.is_success());
    assert_eq!(engine.stats().failed, 1);
}

#[tokio::test]
async fn headers_are_delayed() {
    let engine = with(|control| control.delay_headers_ms = 80);
    let mut client = Client::connect(engine.addr()).await;
    let begun = Instant::now();
    client.send(chat_stream(1)).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(80));
}

#[tokio::test]
async fn a_hung_request_is_never_answered_and_ends_with_its_client() {
    let engine = with(|control| control.hang_before_headers = true);
    let mut client = Client::connect(engine.addr()).await;
    let mut answer = Box::pin(client.whole(chat(1)));
    assert!(stays_silent(&mut answer).await);
    engine.control().reset();
    let mut other = Client::connect(engine.addr()).await;
    assert!(other.whole(chat(1)).await.unwrap().status.is_success());
    assert!(stays_silent(&mut answer).await);
    assert_eq!(engine.stats().aborted, 0);
    drop(answer);
    eventually(&engine, |stats| stats.aborted == 1).await;
}

#[tokio::test]
async fn a_frozen_engine_accepts_but_never_answers_until_it_thaws() {
    let engine = engine_with(|config| config.decode_ms = Some(5.0));
    let mut running = Client::connect(engine.addr()).await;
    let mut stream = running.send(chat_stream(100)).await.unwrap();
    stream.events(3).await;
    engine.control().update(|control| control.frozen = true).unwrap();
    // What was on its way when the engine froze still arrives.
    while !stays_silent(stream.piece()).await {}

    let (mut probe, mut asking) =
        (Client::connect(engine.addr()).await, Client::connect(engine.addr()).await);
    assert!(stays_silent(probe.get("/health")).await);
    let mut answer = Box::pin(asking.whole(chat(1)));
    assert!(stays_silent(&mut answer).await);
    assert_eq!(engine.stats().received, 2);

    let mut admin = Client::connect(engine.addr()).await;
    let thawed = admin.post("/mock/control", r#"{"frozen":false}"#).await;
    assert_eq!(thawed.json()["frozen"], false);
    assert!(answer.await.unwrap().status.is_success());
    assert!(stream.rest().await.0.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_hanging_stream_falls_silent_after_its_chunks() {
    let engine = breaking(FaultKind::Hang, 3);
    let mut client = Client::connect(engine.addr()).await;
    let mut stream = client.send(chat_stream(9)).await.unwrap();
    let text = stream.events(3).await;
    assert!(
        text.ends_with("\n\n") && text.matches("data: ").count() == 3 && text.contains(" two"),
        "{text}"
    );
    assert!(stays_silent(stream.piece()).await);
    assert_eq!(engine.stats().running, 1);
    drop((client, stream));
    eventually(&engine, |stats| stats.aborted == 1).await;
}

#[tokio::test]
async fn a_stream_can_hang_right_after_its_headers() {
    let engine = breaking(FaultKind::Hang, 0);
    let mut client = Client::connect(engine.addr()).await;
    let mut stream = client.send(chat_stream(9)).await.unwrap();
    assert_eq!(stream.headers.get("content-type").unwrap(), "text/event-stream; charset=utf-8");
    assert!(stays_silent(stream.piece()).await);
}

#[tokio::test]
async fn a_reset_stream_ends_in_a_reset_after_its_chunks() {
    let engine = breaking(FaultKind::Reset, 3);
    let (text, ended) = raw_chat(engine.addr()).await;
    assert_eq!(text.matches("data: ").count(), 3);
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
    eventually(&engine, |stats| stats.failed == 1 && stats.open_connections == 0).await;
}

#[tokio::test]
async fn a_closed_stream_ends_without_the_end_of_its_body() {
    let engine = breaking(FaultKind::Close, 3);
    let (text, ended) = raw_chat(engine.addr()).await;
    assert_eq!(text.matches("data: ").count(), 3);
    assert!(ended.is_ok() && !text.ends_with("0\r\n\r\n"));
    let mut client = Client::connect(engine.addr()).await;
    let (text, proper) = client.send(chat_stream(9)).await.unwrap().rest().await;
    assert!(!proper && text.matches("data: ").count() == 3);
}

#[tokio::test]
async fn an_ended_stream_is_proper_http_without_done() {
    let engine = breaking(FaultKind::End, 3);
    let mut client = Client::connect(engine.addr()).await;
    for _ in 0..2 {
        let (text, proper) = client.send(chat_stream(9)).await.unwrap().rest().await;
        assert!(
            proper
                && text.matches("data: ").count() == 3
                && !text.contains("[DONE]")
                && !text.contains("length")
        );
    }
    let stats = engine.stats();
    assert_eq!((stats.failed, stats.connections), (2, 1));
}

#[tokio::test]
async fn a_malformed_event_stands_in_a_stream_that_goes_on() {
    let engine = breaking(FaultKind::MalformedEvent, 2);
    let mut client = Client::connect(engine.addr()).await;
    let (text, proper) = client.send(chat_stream(4)).await.unwrap().rest().await;
    assert!(proper);
    let events: Vec<&str> =
        text.trim_end().split("\n\n").map(|event| &event["data: ".len()..]).collect();
    let broken: Vec<usize> = (0..events.len() - 1)
        .filter(|index| serde_json::from_str::<Value>(events[*index]).is_err())
        .collect();
    assert_eq!(
        (events.len(), broken, events[events.len() - 1]),
        (1 + 4 + 1 + 1, vec![2], "[DONE]")
    );
    assert_eq!(engine.stats().failed, 1);
}

#[tokio::test]
async fn a_malformed_chunk_breaks_http_itself() {
    let engine = breaking(FaultKind::MalformedChunk, 2);
    let (text, ended) = raw_chat(engine.addr()).await;
    assert!(ended.is_ok() && text.ends_with("\r\nno-size\r\nno chunk\r\n"), "{text}");
    let mut client = Client::connect(engine.addr()).await;
    let (text, proper) = client.send(chat_stream(9)).await.unwrap().rest().await;
    assert!(!proper && text.matches("data: ").count() == 2);
}

#[tokio::test]
async fn an_error_event_is_followed_by_done() {
    let engine = breaking(FaultKind::ErrorEvent, 2);
    let mut client = Client::connect(engine.addr()).await;
    let (text, proper) = client.send(chat_stream(9)).await.unwrap().rest().await;
    assert!(proper);
    let events: Vec<&str> = text.trim_end().split("\n\n").collect();
    assert_eq!(events.len(), 4);
    let error: Value = serde_json::from_str(&events[2]["data: ".len()..]).unwrap();
    assert_eq!(error["error"]["code"], 500);
    assert_eq!(events[3], "data: [DONE]");
    assert_eq!(engine.stats().failed, 1);
}

#[tokio::test]
async fn a_fault_holds_for_as_many_requests_as_it_says() {
    let fault = StreamFault { times: Some(1), ..StreamFault::new(FaultKind::End, 1) };
    let engine = with(|control| control.stream = Some(fault));
    let mut client = Client::connect(engine.addr()).await;
    assert!(!client.whole(chat_stream(2)).await.unwrap().text.contains("[DONE]"));
    assert!(client.whole(chat_stream(2)).await.unwrap().text.contains("[DONE]"));
}

#[tokio::test]
async fn a_whole_answer_breaks_in_its_middle() {
    for kind in [FaultKind::Reset, FaultKind::Close, FaultKind::MalformedChunk] {
        let engine = breaking(kind, 9);
        let mut client = Client::connect(engine.addr()).await;
        let mut answer = client.send(chat(20)).await.unwrap();
        let promised: usize =
            answer.headers.get("content-length").unwrap().to_str().unwrap().parse().unwrap();
        let (text, proper) = answer.rest().await;
        assert!(!proper && !text.is_empty() && text.len() < promised, "{kind:?}");
        eventually(&engine, |stats| stats.failed == 1).await;
    }
    let engine = breaking(FaultKind::End, 9);
    let mut client = Client::connect(engine.addr()).await;
    let answer = client.whole(chat(20)).await.unwrap();
    assert!(serde_json::from_str::<Value>(&answer.text).is_err());
    let engine = breaking(FaultKind::Hang, 9);
    let mut client = Client::connect(engine.addr()).await;
    let mut answer = client.send(chat(20)).await.unwrap();
    assert!(answer.piece().await.unwrap().is_ok());
    assert!(stays_silent(answer.piece()).await);
}

#[tokio::test]
async fn a_connection_is_closed_unannounced_after_its_answer() {
    let engine = with(|control| control.close_idle = true);
    for asked in [chat(1), chat_stream(2)] {
        let mut client = Client::connect(engine.addr()).await;
        let answer = client.whole(asked).await.unwrap();
        assert!(answer.status.is_success());
        assert_eq!(answer.header("connection"), None);
        eventually(&engine, |stats| stats.open_connections == 0).await;
        assert!(client.whole(chat(1)).await.is_err());
    }
    let mut client = Client::connect(engine.addr()).await;
    assert_eq!(client.get("/health").await.header("connection"), None);
    eventually(&engine, |stats| stats.open_connections == 0).await;
}

#[tokio::test]
async fn health_can_fail_or_hang() {
    let engine = with(|control| control.health = Health::Unhealthy);
    let mut client = Client::connect(engine.addr()).await;
    assert_eq!(client.get("/health").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(client.whole(chat(1)).await.unwrap().status.is_success());
    engine.control().update(|control| control.health = Health::Hang).unwrap();
    assert!(stays_silent(client.get("/health")).await);
}

#[tokio::test]
async fn answers_carry_two_cookies_and_hop_by_hop_headers_when_told() {
    let engine = with(|control| {
        control.two_cookies = true;
        control.hop_headers = true;
    });
    let mut client = Client::connect(engine.addr()).await;
    for _ in 0..2 {
        let answer = client.whole(chat(1)).await.unwrap();
        assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
        assert_eq!(answer.header("connection"), Some("x-hop"));
        assert!(answer.header("x-hop").is_some() && answer.header("keep-alive").is_some());
    }
    assert_eq!(engine.stats().connections, 1);
}

#[tokio::test]
async fn switches_are_turned_over_http_and_unknown_ones_are_refused() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    let before = client.get("/mock/control").await.json();
    assert_eq!(before, serde_json::to_value(Control::default()).unwrap());

    let change = json!({ "stream": { "kind": "hang", "after_chunks": 4 }, "health": "unhealthy", "delay_headers_ms": 5 });
    let after = client.post("/mock/control", &change.to_string()).await.json();
    assert_eq!(after["stream"], json!({ "kind": "hang", "after_chunks": 4, "times": null }));
    assert_eq!(engine.control().get().health, Health::Unhealthy);

    // What isn't named stays; null turns off.
    let after = client.post("/mock/control", r#"{"health":null}"#).await.json();
    assert_eq!((&after["health"], &after["delay_headers_ms"]), (&json!("ok"), &json!(5)));

    for wrong in [
        r#"{"frozzen":true}"#,
        r#"{"frozen":true,"refuse":{"status":503,"for":"ever"}}"#,
        r#"{"frozen":true,"refuse":{"status":200}}"#,
        r#"{"stream":{"kind":"explode","after_chunks":1}}"#,
        "[]",
        "{",
    ] {
        let answer = client.post("/mock/control", wrong).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
        assert_eq!(client.get("/mock/control").await.json(), after, "{wrong}");
    }
    let reset = client
        .whole(super::client::request(http::Method::DELETE, "/mock/control", ""))
        .await
        .unwrap();
    assert_eq!(reset.json(), before);
}

#[tokio::test]
async fn the_counters_are_shown_over_http_and_leave_themselves_out() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    client.whole(chat_stream(2)).await.unwrap();
    let stats = client.get("/mock/stats").await.json();
    assert_eq!(
        (&stats["received"], &stats["completed"], &stats["connections"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(stats["paths"], json!({ "/v1/chat/completions": 1 }));
}
