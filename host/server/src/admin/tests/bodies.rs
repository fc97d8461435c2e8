//! Bodies that come slowly, and more of them than there is room for.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::response::IntoResponse;
use futures_util::stream::{self, StreamExt};
use http_body_util::BodyExt;

use super::*;
use crate::bodies::Room;
use crate::rest::JsonBytes;

fn push(body: Body) -> Request {
    let request = Request::post("/v1/workers/1/kv_events");
    request.header("content-type", "application/json").body(body).unwrap()
}

/// So much comes at once, and then nothing.
fn stalled(bytes: usize) -> Body {
    let first = stream::iter([Ok::<_, std::io::Error>(vec![b' '; bytes])]);
    Body::from_stream(first.chain(stream::pending()))
}

/// A front with room for so many bytes of pushed events.
async fn front(config: Config, events: usize) -> (Server, Front) {
    let server = Server::start(config, None).await.unwrap();
    let front = Front::new(server.app().clone());
    let events = Room::new(events, server.app().metrics.admin_body_bytes());
    (server, Front { events, ..front })
}

#[tokio::test]
async fn a_body_that_stands_still_is_late_on_this_listener_too() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut config = config(&["http://127.0.0.1:9"]);
    config.proxy.client_timeout = Duration::from_millis(100);
    let fixture = Fixture::with(config).await;
    for path in ["/v1/workers/1/kv_events", "/v1/workers", "/v1/overlap"] {
        let mut stream = tokio::net::TcpStream::connect(fixture.server.admin_addr()).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: 500000\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408"), "{path}: {answer}");
        assert!(answer.contains("send it faster"), "{path}: {answer}");
    }
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn pushed_bodies_together_have_a_budget_and_one_without_room_is_told_to_come_again() {
    let (server, front) = front(config(&["http://127.0.0.1:9"]), 100_000).await;
    let held = || server.app().metrics.admin_body_bytes().get();
    let mut first = Box::pin(JsonBytes::from_request(push(stalled(90_000)), &front));
    assert!(futures_util::poll!(&mut first).is_pending());
    assert!(held() >= 90_000);
    let refused = JsonBytes::from_request(push(Body::from(vec![b' '; 20_000])), &front).await;
    let answer = refused.unwrap_err().into_response();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["retry-after"], "1");
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("as many request bodies as it may"));
    // Who registers a worker doesn't wait for who pushes.
    let other = Request::post("/v1/workers").header("content-type", "application/json");
    let other = other.body(Body::from("{}")).unwrap();
    assert!(JsonBytes::from_request(other, &front).await.is_ok());
    drop(first);
    assert_eq!(held(), 0);
    let taken = JsonBytes::from_request(push(Body::from(vec![b' '; 20_000])), &front).await;
    let JsonBytes(bytes) = taken.unwrap();
    assert_eq!((bytes.len(), held()), (20_000, 20_000));
    drop(bytes);
    assert_eq!(held(), 0);
    server.shutdown().await;
}
