//! Clients that go away.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::rig::*;
use crate::serve::Server;
use crate::serve::testing::{MODEL, config};

/// Starts so many requests, waits until the engines have them, and hangs up.
async fn hangs_up(rig: &Rig, path: &str, body: &Value, read: Option<&str>) {
    hangs_up_with(rig, path, body, read, b"").await;
}

/// As [`hangs_up`], with so much more sent after each request.
async fn hangs_up_with(rig: &Rig, path: &str, body: &Value, read: Option<&str>, more: &[u8]) {
    let received = || rig.engines.iter().map(|engine| engine.stats().received).sum::<u64>();
    let before = received();
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(RawClient::post(rig, path, body).await);
    }
    eventually(|| received() == before + 20).await;
    assert_eq!(rig.bookings(), 20);
    if let Some(wanted) = read {
        for client in &mut clients {
            client.reads(wanted).await;
        }
    }
    for client in &mut clients {
        client.0.write_all(more).await.unwrap();
    }
    drop(clients);
    rig.comes_to_rest().await;
    // The engines have been told, too.
    eventually(|| rig.engines.iter().all(|engine| engine.stats().open_connections == 0)).await;
}

#[tokio::test]
async fn a_client_that_goes_before_the_answer_returns_its_load() {
    let rig = Rig::new(2).await;
    for engine in 0..2 {
        rig.turn(engine, |control| control.hang_before_headers = true);
    }
    let completion = json!({ "model": MODEL, "prompt": "x" });
    let embedding = json!({ "model": MODEL, "input": "x" });
    hangs_up(&rig, "/v1/chat/completions", &chat(true), None).await;
    hangs_up(&rig, "/v1/chat/completions", &chat(false), None).await;
    hangs_up(&rig, "/v1/completions", &completion, None).await;
    hangs_up(&rig, "/v1/embeddings", &embedding, None).await;
    hangs_up(&rig, "/v1/anything", &completion, None).await;
    let line = r#"pointsman_requests_total{model="m",route="other",status="499"} 20"#;
    assert!(rig.counted(line));
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_of_a_stream_returns_its_load() {
    let rig = Rig::with(2, |mock, _| mock.decode_ms = Some(1_000.0)).await;
    let mut long = chat(true);
    long["max_tokens"] = json!(1_000);
    hangs_up(&rig, "/v1/chat/completions", &long, Some("data: ")).await;
    assert!(rig.counted(r#"pointsman_answers_total{outcome="aborted",shape="stream"} 20"#));
    eventually(|| rig.engines.iter().map(|engine| engine.stats().aborted).sum::<u64>() == 20).await;
}

#[tokio::test]
async fn a_client_that_has_sent_more_than_its_request_returns_its_load_when_it_goes() {
    let next = b"GET /v1/models HTTP/1.1\r\nhost: router\r\n\r\n";
    let rig = Rig::with(2, |mock, _| mock.decode_ms = Some(1_000.0)).await;
    let mut long = chat(true);
    long["max_tokens"] = json!(1_000);
    for more in [&b"\r\n"[..], next] {
        hangs_up_with(&rig, "/v1/chat/completions", &long, Some("data: "), more).await;
    }
    for engine in 0..2 {
        rig.turn(engine, |control| control.hang_before_headers = true);
    }
    for more in [&b"\r\n"[..], next] {
        hangs_up_with(&rig, "/v1/chat/completions", &chat(false), None, more).await;
    }
}

#[tokio::test]
async fn prefill_is_done_at_the_first_token() {
    let rig = Rig::with(1, |mock, _| mock.decode_ms = Some(1_000.0)).await;
    let mut client = RawClient::post(&rig, "/v1/chat/completions", &chat(true)).await;
    client.reads("data: ").await;
    let router = rig.server.app().dispatcher.router().clone();
    let loads = router.partitions().iter().flat_map(|p| p.ledger().loads()).collect::<Vec<_>>();
    assert_eq!((loads[0].active_requests, loads[0].active_prefill_tokens), (1, 0));
    assert!(loads[0].active_decode_blocks > 0);
    drop(client);
    rig.comes_to_rest().await;
}

/// Blocks that are predicted to be cached, of all workers.
fn predicted(server: &Server) -> usize {
    let router = server.app().dispatcher.router();
    router.partitions().iter().map(|one| one.cache().predicted_stats().blocks).sum()
}

fn long() -> Value {
    json!({ "model": MODEL, "prompt": "some words ".repeat(400), "stream": true })
}

#[tokio::test]
async fn a_prompt_that_never_went_out_is_not_predicted_where_its_client_left_it() {
    // A worker that takes no connection: its backlog is full.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut full = JoinSet::new();
    for _ in 0..8 {
        full.spawn(TcpStream::connect(address));
    }
    let mut config = config(&[format!("http://{address}")]);
    config.proxy.connect_timeout = PATIENCE;
    let server = Server::start(config, None).await.unwrap();
    let leases = || {
        let router = server.app().dispatcher.router();
        router.partitions().iter().map(|one| one.ledger().live_leases()).sum::<u64>()
    };
    let body = long().to_string();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: router\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut client = TcpStream::connect(server.public_addr()).await.unwrap();
    client.write_all((head + &body).as_bytes()).await.unwrap();
    eventually(|| leases() == 1).await;
    assert!(predicted(&server) > 0, "it may be on its way");
    drop(client);
    eventually(|| leases() == 0).await;
    assert_eq!(predicted(&server), 0);
}

#[tokio::test]
async fn a_prompt_that_went_out_is_predicted_though_its_client_has_left() {
    let rig = Rig::new(1).await;
    rig.turn(0, |control| control.hang_before_headers = true);
    let client = RawClient::post(&rig, "/v1/completions", &long()).await;
    eventually(|| rig.engines[0].stats().received == 1).await;
    let blocks = predicted(&rig.server);
    assert!(blocks > 0);
    drop(client);
    rig.comes_to_rest().await;
    assert_eq!(predicted(&rig.server), blocks);
}
