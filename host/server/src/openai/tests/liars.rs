//! Workers whose answers aren't what HTTP wants them to be.

use http::StatusCode;
use pointsman_core::fleet::Availability;
use pointsman_core::ids::WorkerId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::rig::*;
use crate::load_client::{Answer, LoadClient};
use crate::serve::Server;
use crate::serve::testing::config;

/// A worker that answers everything but probes with these bytes, and closes; it ends with the set.
async fn says(answer: &'static [u8], tasks: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(one(stream, answer));
        }
    });
    url
}

async fn one(mut stream: TcpStream, answer: &'static [u8]) {
    let mut request = [0; 16_384];
    let read = stream.read(&mut request).await.unwrap_or(0);
    let probe = request[..read].starts_with(b"GET /health");
    let well = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(if probe { well } else { answer }).await;
    let _ = stream.shutdown().await;
    let _ = stream.read(&mut request).await;
}

/// A router before workers that answer so; they end with the set.
pub(super) async fn before(answers: &[&'static [u8]]) -> (Rig, JoinSet<()>) {
    let (mut urls, mut tasks) = (Vec::new(), JoinSet::new());
    for answer in answers {
        urls.push(says(answer, &mut tasks).await);
    }
    let server = Server::start(config(&urls), None).await.unwrap();
    let client = LoadClient::new(server.public_addr());
    (Rig { engines: Vec::new(), server, client }, tasks)
}

async fn asked(answer: &'static [u8], stream: bool) -> Answer {
    let (rig, _workers) = before(&[answer]).await;
    let answer = rig.chat(&[], stream).await;
    rig.comes_to_rest().await;
    answer
}

#[tokio::test]
async fn chunks_count_and_a_length_beside_them_does_not() {
    let answer = asked(
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n\
          5\r\nhello\r\n0\r\n\r\n",
        false,
    )
    .await;
    assert!(answer.status == StatusCode::BAD_GATEWAY || answer.text() == "hello", "{answer:?}");
}

#[tokio::test]
async fn a_stream_that_its_length_cuts_short_ends_in_an_error() {
    let answer = asked(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 20\r\n\r\n\
          data: {\"choices\":[]}\n\ndata: [DONE]\n\n",
        true,
    )
    .await;
    assert!(answer.text().contains("\"error\""), "{answer:?}");
    assert_eq!(answer.header("content-length"), "");
}

#[tokio::test]
async fn another_protocol_that_nobody_asked_for_is_no_answer() {
    let answer = asked(
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        false,
    )
    .await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(kind_of(&answer), "upstream_garbled");
}

#[tokio::test]
async fn a_clients_own_mistake_in_a_stream_leaves_its_worker_alone() {
    for (code, spared) in [("400", true), ("500", false)] {
        let answer: &'static [u8] = match code {
            "400" => {
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
                      data: {\"error\":{\"message\":\"no\",\"code\":400}}\n\ndata: [DONE]\n\n"
            }
            _ => {
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
                   data: {\"error\":{\"message\":\"no\",\"code\":500}}\n\ndata: [DONE]\n\n"
            }
        };
        let (rig, _workers) = before(&[answer, answer]).await;
        for _ in 0..8 {
            rig.chat(&[("x-dynamo-worker-instance-id", "1")], true).await;
        }
        rig.comes_to_rest().await;
        let failures = rig.server.app().workers.worker(WorkerId(1)).unwrap().failures_in_a_row;
        assert_eq!(failures == 0, spared, "{code}: {failures}");
    }
}

#[tokio::test]
async fn a_client_that_asks_too_much_takes_no_worker_from_the_others() {
    let busy: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 60\r\ncontent-length: 0\r\n\
                        connection: close\r\n\r\n";
    let (rig, _workers) = before(&[busy; 4]).await;
    let left = || {
        let workers = rig.server.app().dispatcher.router().workers();
        workers.iter().filter(|worker| worker.availability == Availability::Ready).count()
    };
    // Two of them ask each worker once.
    for _ in 0..2 {
        assert_eq!(rig.chat(&[], false).await.status, BUSY);
    }
    assert_eq!(left(), 4);
    // Told so all the time, some are left alone, and never more than half.
    for _ in 0..60 {
        assert_eq!(rig.chat(&[], false).await.status, BUSY);
    }
    assert!((2..4).contains(&left()), "{} are left", left());
}
