//! Queue, seats, speed and connections.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Client, chat, chat_stream, request};
use super::{engine, engine_with, eventually, stays_silent};
use crate::mock_engine::{FaultKind, MockConfig, MockEngine, StreamFault};

/// An engine that stands still after the second event of every stream, so that what runs keeps running.
fn stuck(seats: u32) -> MockEngine {
    let engine = engine_with(|config| config.max_num_seqs = seats);
    engine
        .control()
        .update(|control| control.stream = Some(StreamFault::new(FaultKind::Hang, 2)))
        .unwrap();
    engine
}

#[tokio::test]
async fn what_is_beyond_max_num_seqs_waits_in_the_order_of_arrival() {
    let engine = stuck(2);
    let mut clients = Vec::new();
    let mut streams = Vec::new();
    for waiting in 0..5_u64 {
        let mut client = Client::connect(engine.addr()).await;
        // Headers come before the turn does, as in a vLLM.
        streams.push(client.send(chat_stream(9)).await.unwrap());
        clients.push(client);
        eventually(&engine, |stats| stats.running + stats.waiting == waiting + 1).await;
    }
    let stats = engine.stats();
    assert_eq!((stats.running, stats.waiting, stats.peak_running), (2, 3, 2));
    let mut probe = Client::connect(engine.addr()).await;
    assert_eq!(probe.get("/load").await.text, r#"{"server_load":5}"#);
    assert!(
        probe
            .get("/metrics")
            .await
            .text
            .contains("vllm:num_requests_waiting{engine=\"0\",model_name=\"tiny-llama\"} 3.0")
    );
    assert!(stays_silent(streams[2].piece()).await);

    drop(clients.remove(0));
    drop(streams.remove(0));
    // What was third is second now, and it runs; the one behind it does not.
    assert!(streams[1].events(2).await.contains("assistant"));
    assert!(stays_silent(streams[2].piece()).await);
    assert_eq!(engine.stats().peak_running, 2);
}

#[tokio::test]
async fn an_aborted_stream_frees_its_seat_at_once() {
    let engine = stuck(1);
    let mut first = Client::connect(engine.addr()).await;
    let mut stream = first.send(chat_stream(9)).await.unwrap();
    stream.events(2).await;
    assert!(engine.stats().kv_blocks > 0);
    let mut second = Client::connect(engine.addr()).await;
    let mut waiting = second.send(chat_stream(9)).await.unwrap();
    drop((first, stream));
    waiting.events(2).await;
    drop((second, waiting));
    let stats = eventually(&engine, |stats| stats.running == 0).await;
    assert_eq!(
        (stats.received, stats.aborted, stats.completed, stats.failed, stats.kv_blocks),
        (2, 2, 0, 0, 0)
    );
}

#[tokio::test]
async fn an_abort_before_the_headers_frees_its_seat_at_once() {
    let engine = engine_with(|config| {
        config.max_num_seqs = 1;
        config.decode_ms = Some(60_000.0);
    });
    let mut clients = JoinSet::new();
    for present in 1..=2 {
        let mut client = Client::connect(engine.addr()).await;
        clients.spawn(async move { client.whole(chat(100)).await.map(drop) });
        eventually(&engine, |stats| stats.running + stats.waiting == present).await;
    }
    // One runs, one waits; both go away.
    clients.shutdown().await;
    let stats = eventually(&engine, |stats| stats.running + stats.waiting == 0).await;
    assert_eq!((stats.aborted, stats.completed), (2, 0));
}

#[tokio::test]
async fn a_request_with_several_choices_takes_as_many_seats() {
    let engine = stuck(3);
    let mut first = Client::connect(engine.addr()).await;
    let two = r#"{"prompt":"x","n":2,"max_tokens":9,"stream":true}"#;
    let mut running =
        first.send(request(http::Method::POST, "/v1/completions", two)).await.unwrap();
    running.events(2).await;
    let mut second = Client::connect(engine.addr()).await;
    let mut waiting =
        second.send(request(http::Method::POST, "/v1/completions", two)).await.unwrap();
    assert!(stays_silent(waiting.piece()).await);
    drop((first, running));
    waiting.events(2).await;
    drop((second, waiting));

    // More than there are: it takes all, instead of waiting for ever.
    engine.control().reset();
    let mut third = Client::connect(engine.addr()).await;
    let many = r#"{"prompt":"x","n":50,"max_tokens":2}"#;
    assert!(third.post("/v1/completions", many).await.status.is_success());
}

#[tokio::test]
async fn prefill_and_decode_take_their_time() {
    let engine = engine_with(|config| {
        config.prefill_tokens_per_s = 100.0;
        config.decode_tokens_per_s = 100.0;
    });
    let mut client = Client::connect(engine.addr()).await;
    let begun = Instant::now();
    let body = r#"{"prompt":[1,2,3,4,5,6,7,8,9,10],"max_tokens":6,"stream":true}"#;
    let mut stream =
        client.send(request(http::Method::POST, "/v1/completions", body)).await.unwrap();
    stream.events(1).await;
    let first = begun.elapsed();
    assert!(stream.rest().await.1);
    let all = begun.elapsed();
    // Ten prompt tokens are 100 ms, and five intervals are 50 ms. Only the lower bounds hold on a busy machine.
    assert!(first >= Duration::from_millis(99), "{first:?}");
    assert!(all >= Duration::from_millis(149), "{all:?}");

    let begun = Instant::now();
    let body = r#"{"prompt":[1,2,3,4,5,6,7,8,9,10],"max_tokens":6}"#;
    client.post("/v1/completions", body).await;
    assert!(begun.elapsed() >= Duration::from_millis(149));
}

#[tokio::test]
async fn a_kept_alive_connection_is_used_again() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    for _ in 0..5 {
        client.whole(chat_stream(3)).await.unwrap();
    }
    let stats = engine.stats();
    assert_eq!(
        (stats.connections, stats.received, stats.completed, stats.open_connections),
        (1, 5, 5, 1)
    );
}

#[tokio::test]
async fn the_counters_balance_after_many_streams_at_once() {
    let engine = engine_with(|config| {
        config.max_num_seqs = 16;
        config.decode_ms = Some(1.0);
    });
    let addr = engine.addr();
    let mut tasks = JoinSet::new();
    for index in 0..200 {
        tasks.spawn(async move {
            let mut client = Client::connect(addr).await;
            if index % 4 == 0 {
                let mut stream = client.send(chat_stream(900)).await.unwrap();
                stream.events(2).await;
                return;
            }
            let answer = client.whole(chat_stream(20)).await.unwrap();
            assert!(answer.text.ends_with("data: [DONE]\n\n"));
        });
    }
    tasks.join_all().await;
    let stats = eventually(&engine, |stats| stats.running + stats.waiting == 0).await;
    assert_eq!((stats.received, stats.completed, stats.aborted, stats.failed), (200, 150, 50, 0));
    assert_eq!((stats.peak_running, stats.kv_blocks), (16, 0));
}

#[tokio::test]
async fn shutdown_cuts_streams_and_frees_the_address() {
    let engine = stuck(4);
    let addr = engine.addr();
    let mut client = Client::connect(addr).await;
    let mut stream = client.send(chat_stream(9)).await.unwrap();
    stream.events(2).await;
    engine.shutdown().await;
    assert!(!stream.rest().await.1);
    let again = MockEngine::start(MockConfig { addr, ..MockConfig::default() }).unwrap();
    let mut client = Client::connect(again.addr()).await;
    assert!(client.get("/health").await.status.is_success());
}

#[tokio::test]
async fn a_dropped_handle_stops_the_engine() {
    let engine = engine();
    let addr = engine.addr();
    let mut client = Client::connect(addr).await;
    client.get("/health").await;
    drop(engine);
    while tokio::net::TcpStream::connect(addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
