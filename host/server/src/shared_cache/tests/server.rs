//! A shared cache that behaves as a test says: well, badly, or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What it does with a question.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// Answers as it should: these are what it holds.
    Holds(BTreeSet<u64>),
    /// Says this, with this status.
    Body(u16, String),
    /// Writes these bytes, and hangs up.
    Raw(&'static str),
    /// Nothing, until it is told to do something else.
    Silent,
}

/// A question.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) connection: usize,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

#[derive(Clone)]
struct Shared {
    manner: watch::Receiver<Manner>,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
}

/// The server. Its tasks end with it.
pub(super) struct Server {
    port: u16,
    manner: watch::Sender<Manner>,
    shared: Shared,
    tasks: JoinSet<()>,
}

impl Server {
    pub(super) async fn start(manner: Manner) -> Self {
        Self::on(0, manner).await
    }

    pub(super) async fn on(port: u16, manner: Manner) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (manner, told) = watch::channel(manner);
        let shared = Shared { manner: told, seen: Arc::default(), connections: Arc::default() };
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, shared.clone()));
        Self { port, manner, shared, tasks }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From now on it does otherwise; those that wait in silence are answered.
    pub(super) fn turn(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().clone()
    }

    pub(super) fn connections(&self) -> usize {
        *self.shared.connections.lock()
    }

    pub(super) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn accept(listener: TcpListener, shared: Shared) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let number = {
            let mut count = shared.connections.lock();
            *count += 1;
            *count - 1
        };
        connections.spawn(serve(stream, number, shared.clone()));
    }
}

async fn serve(mut stream: TcpStream, connection: usize, mut shared: Shared) {
    let mut read = Vec::new();
    while let Some((head, body)) = question(&mut stream, &mut read).await {
        shared.seen.lock().push(Seen { connection, head, body: body.clone() });
        let told = shared.manner.wait_for(|manner| !matches!(manner, Manner::Silent)).await;
        let Ok(manner) = told.map(|manner| manner.clone()) else { return };
        let (status, answer) = match manner {
            Manner::Holds(held) => (200, answer(&held, &body)),
            Manner::Body(status, body) => (status, body),
            Manner::Raw(bytes) => {
                let _ = stream.write_all(bytes.as_bytes()).await;
                return;
            }
            Manner::Silent => return,
        };
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 {status} so\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        if stream.write_all((head + &answer).as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A request's head and body; what came of the next one stays in `read`.
async fn question(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let whole = end + 4 + length?.parse::<usize>().ok()?;
            if read.len() >= whole {
                let head = String::from_utf8_lossy(&read[..end]).into_owned();
                let body = read[end + 4..whole].to_vec();
                read.drain(..whole);
                return Some((head, body));
            }
        }
        if stream.read_buf(read).await.ok()? == 0 {
            return None;
        }
    }
}

/// As the server that is asked in earnest answers.
fn answer(held: &BTreeSet<u64>, body: &[u8]) -> String {
    let question: Value = serde_json::from_slice(body).unwrap();
    let hashes = question["block_hashes"].as_array().unwrap();
    let mut ranges: Vec<[usize; 2]> = Vec::new();
    for (at, hash) in hashes.iter().enumerate() {
        match ranges.last_mut() {
            _ if !held.contains(&hash.as_u64().unwrap()) => {}
            Some([_, end]) if *end == at => *end += 1,
            _ => ranges.push([at, at + 1]),
        }
    }
    json!({ "ranges": ranges }).to_string()
}

/// Waits for what must come.
pub(super) async fn eventually(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(60), wait).await.unwrap();
}
