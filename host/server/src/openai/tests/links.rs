//! Connections to engines that are shared by all clients, and clients that leave in the middle: nobody
//! gets another's answer.

use std::net::SocketAddr;

use http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::rig::*;
use crate::serve::Server;
use crate::serve::testing::{MODEL, config};

/// What an engine does with the nth request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Whole,
    InPieces,
    /// And closes the connection, without a word of it.
    WholeAndLeaves,
    /// Closes the connection.
    Silent,
    /// Closes it in the middle of the answer.
    Half,
    /// Sends an answer to nobody's request behind it.
    AndMore,
    /// Begins, and waits for its client to go.
    ForEver,
}

impl Way {
    fn of(n: usize) -> Self {
        let all = [
            Self::Whole,
            Self::InPieces,
            Self::WholeAndLeaves,
            Self::Silent,
            Self::InPieces,
            Self::Half,
            Self::AndMore,
            Self::ForEver,
        ];
        all[n % all.len()]
    }

    /// Whether the client gets its answer.
    fn is_good(self) -> bool {
        !matches!(self, Self::Silent | Self::Half | Self::ForEver)
    }
}

/// Engines that answer each request with the name that it came with.
struct Echoes {
    urls: Vec<String>,
    _tasks: JoinSet<()>,
}

impl Echoes {
    async fn start(engines: usize) -> Self {
        let (mut urls, mut tasks) = (Vec::new(), JoinSet::new());
        for _ in 0..engines {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            urls.push(format!("http://{}", listener.local_addr().unwrap()));
            tasks.spawn(async move {
                let mut connections = JoinSet::new();
                loop {
                    connections.spawn(echoes(listener.accept().await.unwrap().0));
                }
            });
        }
        Self { urls, _tasks: tasks }
    }
}

/// Serves a connection until either side ends it.
async fn echoes(mut stream: TcpStream) {
    let mut seen = Vec::new();
    while let Some(n) = next(&mut stream, &mut seen).await {
        // Whoever has gone is told nothing.
        if answers(&mut stream, n).await.is_none() {
            return;
        }
    }
}

/// The connection that a client's request comes over; the router's own are closed.
async fn asked(listener: &TcpListener) -> TcpStream {
    let accepted = async {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut first = [0];
            if stream.peek(&mut first).await.unwrap_or(0) == 1 && first == *b"P" {
                return stream;
            }
        }
    };
    timeout(PATIENCE, accepted).await.expect("a request")
}

/// The number of the next request.
async fn next(stream: &mut TcpStream, seen: &mut Vec<u8>) -> Option<usize> {
    loop {
        let text = String::from_utf8_lossy(seen).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
            let length: usize = length.parse().unwrap();
            if body.len() >= length {
                let name = body.split_once("\"user\":\"name-")?.1.split_once('"')?.0;
                let n = name.parse().unwrap();
                seen.drain(..head.len() + 4 + length);
                return Some(n);
            }
        }
        if stream.read_buf(seen).await.ok()? == 0 {
            return None;
        }
    }
}

/// None when nothing more is to come over the connection.
async fn answers(stream: &mut TcpStream, n: usize) -> Option<()> {
    const KIND: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let (way, text) = (Way::of(n), answer(n));
    let whole = format!("{KIND}content-length: {}\r\n\r\n{text}", text.len());
    let stranger = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nstranger";
    match way {
        Way::Whole | Way::WholeAndLeaves => stream.write_all(whole.as_bytes()).await.ok()?,
        Way::AndMore => stream.write_all((whole + stranger).as_bytes()).await.ok()?,
        Way::Silent => return None,
        Way::Half => {
            stream.write_all(&whole.as_bytes()[..whole.len() - 2]).await.ok()?;
            return None;
        }
        Way::InPieces | Way::ForEver => {
            stream.write_all(KIND.as_bytes()).await.ok()?;
            stream.write_all(b"transfer-encoding: chunked\r\n\r\n").await.ok()?;
            for byte in text.as_bytes() {
                let chunk = format!("1\r\n{}\r\n", char::from(*byte));
                stream.write_all(chunk.as_bytes()).await.ok()?;
                tokio::task::yield_now().await;
            }
            if way == Way::ForEver {
                // A next request would be read, too.
                assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0, "it is in use");
                return None;
            }
            stream.write_all(b"0\r\n\r\n").await.ok()?;
        }
    }
    (way != Way::WholeAndLeaves).then_some(())
}

/// The nth request's own.
fn answer(n: usize) -> String {
    format!("{{\"for\":\"name-{n}\"}}")
}

/// A request as clients send it.
fn request(n: usize) -> String {
    let body = json!({ "model": MODEL, "prompt": "x", "user": format!("name-{n}") }).to_string();
    format!(
        "POST /v1/completions HTTP/1.1\r\nhost: router\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends the nth request. Some leave before they have their answer.
async fn asks(router: SocketAddr, n: usize) {
    let mut stream = TcpStream::connect(router).await.unwrap();
    stream.write_all(request(n).as_bytes()).await.unwrap();
    if n % 13 == 5 {
        return;
    }
    let mut got = Vec::new();
    loop {
        let read = timeout(PATIENCE, stream.read_buf(&mut got)).await.expect("it is served");
        let text = String::from_utf8_lossy(&got);
        let is_over = read.unwrap_or(0) == 0;
        // Whoever would wait for ever has seen enough.
        if is_over || (Way::of(n) == Way::ForEver && text.contains("\r\n\r\n")) {
            return judge(n, &text);
        }
    }
}

/// What a client may have got.
fn judge(n: usize, text: &str) {
    let (whole, way) = (answer(n), Way::of(n));
    let got = text.starts_with("HTTP/1.1 200 OK").then(|| body(text));
    match got {
        Some(got) if way.is_good() => assert_eq!(got, whole, "{n} {way:?}: {text}"),
        Some(got) => assert!(whole.starts_with(&got), "{n} {way:?}: {text}"),
        None => assert!(way == Way::Silent && text.contains(" 502 "), "{n} {way:?}: {text}"),
    }
}

/// The body of an answer, whichever way it came.
fn body(text: &str) -> String {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    if !head.contains("chunked") {
        return body.to_owned();
    }
    body.split("\r\n").skip(1).step_by(2).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn nobody_gets_another_clients_answer_whoever_leaves_and_whatever_engines_do() {
    const CLIENTS: usize = 12;
    const EACH: usize = 64;
    let engines = Echoes::start(2).await;
    let mut config = config(&engines.urls);
    config.health.eject_after = 0;
    by(&mut config, "round-robin");
    let server = Server::start(config, None).await.unwrap();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let router = server.public_addr();
        clients.spawn(async move {
            for nth in 0..EACH {
                asks(router, client * EACH + nth).await;
            }
        });
    }
    clients.join_all().await;
    let leases = || {
        let router = server.app().dispatcher.router();
        router.partitions().iter().map(|one| one.ledger().live_leases()).sum::<u64>()
    };
    eventually(|| leases() == 0).await;
}

#[tokio::test]
async fn a_client_that_goes_while_its_request_goes_out_returns_its_load() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::start(config(&[url]), None).await.unwrap();
    let leases = || {
        let router = server.app().dispatcher.router();
        router.partitions().iter().map(|one| one.ledger().live_leases()).sum::<u64>()
    };
    // More than sockets hold on their way to who doesn't read.
    let body = json!({ "model": MODEL, "prompt": "x".repeat(24 << 20) }).to_string();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: router\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut client = TcpStream::connect(server.public_addr()).await.unwrap();
    client.write_all((head + &body).as_bytes()).await.unwrap();
    let mut engine = asked(&listener).await;
    engine.read_exact(&mut [0; 64]).await.unwrap();
    assert_eq!(leases(), 1);
    drop(client);
    eventually(|| leases() == 0).await;
    let mut seen = vec![0; 64 << 10];
    let read = async { while engine.read(&mut seen).await.unwrap_or(0) > 0 {} };
    timeout(PATIENCE, read).await.expect("it is closed in the middle");
}

#[tokio::test]
async fn what_engines_send_that_is_no_answer_is_the_workers_fault() {
    let cases = [
        ("SSH-2.0-x\r\n\r\n", "garbled"),
        ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "garbled"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", "garbled"),
        (
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            "garbled",
        ),
        ("", "closed"),
        ("HTTP/1.1 200", "closed"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", "closed"),
    ];
    for (text, kind) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut config = config(&[url]);
        config.proxy.retries = 0;
        let server = Server::start(config, None).await.unwrap();
        let mut client = TcpStream::connect(server.public_addr()).await.unwrap();
        client.write_all(request(0).as_bytes()).await.unwrap();
        let mut engine = asked(&listener).await;
        let mut seen = Vec::new();
        assert_eq!(next(&mut engine, &mut seen).await, Some(0));
        engine.write_all(text.as_bytes()).await.unwrap();
        drop(engine);
        let mut got = String::new();
        timeout(PATIENCE, client.read_to_string(&mut got)).await.unwrap().unwrap();
        let status = StatusCode::BAD_GATEWAY.as_str();
        assert!(got.starts_with(&format!("HTTP/1.1 {status}")), "{text:?}: {got}");
        let line = format!(r#"pointsman_upstream_errors_total{{kind="{kind}"}} 1"#);
        let metrics = server.app().metrics.encode();
        assert!(metrics.lines().any(|counted| counted == line), "{text:?}: {metrics}");
    }
}
