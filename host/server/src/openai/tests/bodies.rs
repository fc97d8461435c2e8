//! Many bodies at once, and clients that send them slowly.

use http::StatusCode;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::rig::*;
use crate::serve::testing::MODEL;

/// The head of a request, and a part of its body.
fn begun(length: Option<usize>, sent: usize) -> Vec<u8> {
    let mut request = b"POST /v1/completions HTTP/1.1\r\nhost: router\r\n".to_vec();
    let framing = match length {
        Some(length) => format!("content-length: {length}\r\n\r\n"),
        None => format!("transfer-encoding: chunked\r\n\r\n{sent:x}\r\n"),
    };
    request.extend_from_slice(framing.as_bytes());
    request.extend(std::iter::repeat_n(b' ', sent));
    request
}

fn held(rig: &Rig) -> usize {
    let metrics = rig.server.app().metrics.encode();
    let line = metrics.lines().find_map(|line| line.strip_prefix("pointsman_request_body_bytes "));
    line.and_then(|held| held.parse().ok()).unwrap()
}

/// A router with room for two bodies of 250 kB, and a little more.
async fn narrow() -> Rig {
    Rig::with(1, |_, config| {
        config.proxy.max_body = 300_000;
        config.proxy.body_budget = 600_000;
    })
    .await
}

fn large() -> serde_json::Value {
    json!({ "model": MODEL, "prompt": "x".repeat(200_000), "stream": true, "max_tokens": 2 })
}

#[tokio::test]
async fn bodies_that_have_no_room_are_refused_until_those_before_them_are_gone() {
    for length in [Some(250_000), None] {
        let rig = narrow().await;
        let first = RawClient::raw(&rig, &begun(length, 200_000)).await;
        let second = RawClient::raw(&rig, &begun(length, 200_000)).await;
        eventually(|| held(&rig) >= 400_000).await;
        assert!(held(&rig) <= 600_000);
        let answer = rig.client.post("/v1/completions", &large()).await.unwrap();
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text());
        assert_eq!(kind_of(&answer), "body_budget_exhausted");
        assert_eq!(answer.header("retry-after"), "1");
        // Small ones still find their place.
        assert!(rig.chat(&[], true).await.is_good());
        // Senders that go away, and senders that are told to.
        drop(first);
        eventually(|| held(&rig) <= 300_000).await;
        let answer = rig.client.post("/v1/completions", &large()).await.unwrap();
        assert!(answer.is_good(), "{}", answer.text());
        drop(second);
        rig.comes_to_rest().await;
        eventually(|| held(&rig) == 0).await;
    }
}

#[tokio::test]
async fn a_promise_of_a_large_body_takes_no_room_from_others() {
    let rig = narrow().await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(RawClient::raw(&rig, &begun(Some(300_000), 1)).await);
    }
    eventually(|| rig.counted("pointsman_requests_in_flight 20")).await;
    let answer = rig.client.post("/v1/completions", &large()).await.unwrap();
    assert!(answer.is_good(), "{}", answer.text());
    drop(silent);
    rig.comes_to_rest().await;
    assert_eq!(held(&rig), 0);
}

#[tokio::test]
async fn a_body_is_held_until_its_worker_has_answered_or_its_client_is_gone() {
    let rig = narrow().await;
    rig.turn(0, |control| control.hang_before_headers = true);
    let waiting = RawClient::post(&rig, "/v1/completions", &large()).await;
    eventually(|| rig.engines[0].stats().received == 1).await;
    assert!(held(&rig) >= 200_000);
    drop(waiting);
    rig.comes_to_rest().await;
    eventually(|| held(&rig) == 0).await;
    rig.turn(0, |control| control.hang_before_headers = false);
    for _ in 0..5 {
        assert!(rig.client.post("/v1/completions", &large()).await.unwrap().is_good());
    }
    rig.comes_to_rest().await;
    eventually(|| held(&rig) == 0).await;
}

#[tokio::test]
async fn what_is_refused_for_any_other_reason_gives_its_room_back() {
    let rig = narrow().await;
    let path = "/v1/completions";
    let no_json = "x".repeat(100_000);
    let no_model = json!({ "model": "nobody's", "prompt": "x".repeat(100_000) }).to_string();
    let too_large = "x".repeat(300_001);
    for (body, status) in [(no_json, 400), (no_model, 404), (too_large, 413)] {
        let sent = rig.client.send_bytes(http::Method::POST, path, &[], body.into()).await;
        assert_eq!(sent.unwrap().status.as_u16(), status);
    }
    // A chunked one that turns out to be too large.
    let mut client = RawClient::raw(&rig, &begun(None, 290_000)).await;
    client
        .0
        .write_all(format!("\r\n{:x}\r\n{}", 20_000, " ".repeat(20_000)).as_bytes())
        .await
        .unwrap();
    client.reads("HTTP/1.1 413").await;
    // And one that breaks off.
    let client = RawClient::raw(&rig, &begun(None, 100_000)).await;
    drop(client);
    rig.comes_to_rest().await;
    eventually(|| held(&rig) == 0).await;
}

#[tokio::test]
async fn a_sender_that_stands_still_loses_its_room() {
    let rig = Rig::with(1, |_, config| {
        config.proxy.client_timeout = std::time::Duration::from_millis(100);
    })
    .await;
    let mut client = RawClient::raw(&rig, &begun(Some(100_000), 50_000)).await;
    client.reads("request_timeout").await;
    rig.comes_to_rest().await;
    eventually(|| held(&rig) == 0).await;
}

#[tokio::test]
async fn a_sender_that_drips_loses_its_room() {
    let rig = Rig::with(1, |_, config| {
        config.proxy.client_timeout = std::time::Duration::from_millis(300);
    })
    .await;
    let client = RawClient::raw(&rig, &begun(Some(100_000), 50_000)).await;
    let (mut answers, mut drips) = client.0.into_split();
    let drips = async {
        while drips.write_all(b" ").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let mut answer = [0; 12];
    let reads = tokio::io::AsyncReadExt::read_exact(&mut answers, &mut answer);
    let both = tokio::time::timeout(PATIENCE, async { tokio::join!(reads, drips) });
    both.await.unwrap().0.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    rig.comes_to_rest().await;
    eventually(|| held(&rig) == 0).await;
}
