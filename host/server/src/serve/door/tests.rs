//! Clients that say nothing, too little, or go away, over real sockets.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::serve::{Beyond, Counts};
use crate::telemetry::Metrics;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

/// Longer than anything here takes on a busy machine.
const MOST: Duration = Duration::from_secs(10);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// `GET /` of host `x`, as the only HEADERS of stream 1.
const HANGS_2: &[u8] = b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01x";
const HANGS: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const ANSWERED: &[u8] = b"GET /answered HTTP/1.1\r\nhost: x\r\n\r\n";

/// What a client can send without having a request in flight.
fn beginnings() -> Vec<Vec<u8>> {
    let idle = [PREFACE, SETTINGS].concat();
    let texts = [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"\r\n", b"GET /v1/mod", PREFACE, &idle];
    let mut all: Vec<_> = texts.iter().map(|text| text.to_vec()).collect();
    all.push(ANSWERED.to_vec());
    all
}

/// A listener with a path that answers, and one that doesn't.
struct Rig {
    address: SocketAddr,
    ends: Ends,
    served: TaskTracker,
    counts: Counts,
    /// Requests that hang.
    hanging: Arc<AtomicUsize>,
}

struct Hangs(Arc<AtomicUsize>);

impl Drop for Hangs {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Rig {
    fn new(most: usize, change: impl FnOnce(&mut Patience)) -> Self {
        let hanging = Arc::new(AtomicUsize::new(0));
        let seen = hanging.clone();
        let beyond = async |request: Request| match request.extensions().get::<Beyond>() {
            Some(_) => StatusCode::SERVICE_UNAVAILABLE,
            None => StatusCode::OK,
        };
        let router = Router::new().route("/beyond", get(beyond));
        let router = router.route("/answered", get(async || "yes")).route(
            "/",
            get(async move || {
                seen.fetch_add(1, Ordering::SeqCst);
                let _hangs = Hangs(seen);
                std::future::pending::<()>().await
            }),
        );
        let mut patience = Patience { farewell: SHORT, ..Patience::with_writes(LONG) };
        change(&mut patience);
        let counts = Metrics::new().connections("public");
        let crowd = Crowd::new("public", most, counts.clone());
        let config = Listener::on(([127, 0, 0, 1], 0).into());
        let door = Door::open(&config, patience, crowd.clone()).unwrap();
        let ends = Ends { draining: CancellationToken::new(), cut: CancellationToken::new() };
        let (address, served) = (door.address(), TaskTracker::new());
        TaskTracker::new().spawn(door.serve(
            router,
            ends.clone(),
            [served.clone(), TaskTracker::new()],
            crowd,
        ));
        Self { address, ends, served, counts, hanging }
    }

    async fn sends(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// Waits until so many requests hang.
    async fn has_hanging(&self, wanted: usize) {
        eventually(|| self.hanging.load(Ordering::SeqCst) == wanted).await;
    }

    async fn has_open(&self, wanted: i64) {
        eventually(|| self.counts.open.get() == wanted).await;
    }
}

async fn eventually(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(MOST, wait).await.unwrap();
}

/// Reads until the other end closes.
async fn closed(mut stream: TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    // Closed or reset.
    let _ = timeout(MOST, stream.read_to_end(&mut read)).await.unwrap();
    read
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_in_time_whatever_it_has_sent() {
    let rig = Rig::new(100, |patience| patience.idle = SHORT);
    let began = Instant::now();
    let mut silent = Vec::new();
    for text in beginnings() {
        silent.push(rig.sends(&text).await);
    }
    let waits = rig.sends(HANGS).await;
    for stream in silent {
        closed(stream).await;
    }
    assert!(began.elapsed() >= SHORT);
    rig.has_open(1).await;
    rig.has_hanging(1).await;
    drop(waits);
    rig.has_open(0).await;
}

#[tokio::test]
async fn a_client_that_says_a_byte_now_and_then_is_closed_in_time_too() {
    let rig = Rig::new(100, |patience| patience.idle = 5 * SHORT);
    let mut drips = rig.sends(b"GET / HT").await;
    let sends = async {
        while drips.write_all(b"x").await.is_ok() {
            sleep(SHORT / 10).await;
        }
    };
    timeout(MOST, sends).await.unwrap();
    rig.has_open(0).await;
}

#[tokio::test]
async fn a_client_that_is_gone_without_a_word_loses_its_streams() {
    let rig = Rig::new(100, |patience| patience.ping = SHORT);
    let stream = rig.sends(&[PREFACE, SETTINGS, HANGS_2].concat()).await;
    rig.has_hanging(1).await;
    // It reads, and answers no ping.
    closed(stream).await;
    rig.has_hanging(0).await;
}

#[tokio::test]
async fn a_full_listener_closes_who_is_idle_and_refuses_newcomers_when_nobody_is() {
    let rig = Rig::new(4, |_| {});
    let mut silent = Vec::new();
    for nth in 0..20 {
        silent.push(rig.sends(b"").await);
        rig.has_open(silent.len().min(4) as i64).await;
        if nth >= 4 {
            closed(silent.remove(0)).await;
        }
    }
    let mut busy = Vec::new();
    for nth in 0..4 {
        busy.push(rig.sends(HANGS).await);
        rig.has_hanging(nth + 1).await;
    }
    for stream in silent {
        closed(stream).await;
    }
    rig.has_open(4).await;
    let refused = TcpStream::connect(rig.address).await.unwrap();
    assert!(closed(refused).await.is_empty());
    assert_eq!((rig.counts.gave_way.get(), rig.counts.refused.get()), (20, 1));
    drop(busy.pop());
    rig.has_open(3).await;
    let mut answered = rig.sends(ANSWERED).await;
    assert!(answered.read(&mut [0; 12]).await.unwrap() > 0);
}

#[tokio::test]
async fn requests_beyond_what_can_be_opened_for_them_are_marked() {
    let rig = Rig::new(2, |_| {});
    let second = [&HANGS_2[..8], &[3], &HANGS_2[9..]].concat();
    let mut many = rig.sends(&[PREFACE, SETTINGS, HANGS_2, &second].concat()).await;
    rig.has_hanging(2).await;
    let mut third = rig.sends(b"GET /beyond HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut answer = [0; 12];
    third.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
    many.shutdown().await.unwrap();
    rig.has_hanging(0).await;
    let mut fourth = rig.sends(b"GET /beyond HTTP/1.1\r\nhost: x\r\n\r\n").await;
    fourth.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[tokio::test]
async fn a_drain_waits_for_requests_and_for_nothing_else() {
    let rig = Rig::new(100, |_| {});
    let mut idle = Vec::new();
    for text in beginnings() {
        idle.push(rig.sends(&text).await);
    }
    let waits = [rig.sends(HANGS).await, rig.sends(&[PREFACE, SETTINGS, HANGS_2].concat()).await];
    rig.has_hanging(2).await;
    rig.has_open(idle.len() as i64 + 2).await;
    rig.served.close();
    rig.ends.draining.cancel();
    for stream in idle {
        closed(stream).await;
    }
    rig.has_open(2).await;
    rig.has_hanging(2).await;
    drop(waits);
    timeout(MOST, rig.served.wait()).await.unwrap();
}

#[tokio::test]
async fn a_client_that_hangs_up_is_noticed_though_it_has_sent_more_than_its_request() {
    let rig = Rig::new(100, |_| {});
    let more = vec![b'x'; 20_000];
    for more in [&b""[..], b"\r\n", b"x", ANSWERED, &more] {
        let mut stream = rig.sends(HANGS).await;
        rig.has_hanging(1).await;
        stream.write_all(more).await.unwrap();
        assert_eq!(rig.hanging.load(Ordering::SeqCst), 1, "it still waits");
        drop(stream);
        rig.has_hanging(0).await;
        rig.has_open(0).await;
    }
}

#[tokio::test]
async fn a_client_that_closes_its_side_gets_what_needs_no_waiting() {
    let rig = Rig::new(100, |_| {});
    let mut stream = rig.sends(ANSWERED).await;
    stream.shutdown().await.unwrap();
    assert!(closed(stream).await.starts_with(b"HTTP/1.1 200"));
    let mut stream = rig.sends(HANGS).await;
    stream.shutdown().await.unwrap();
    assert!(closed(stream).await.is_empty());
    rig.has_hanging(0).await;
}

#[tokio::test]
async fn requests_in_a_row_are_answered_in_their_order() {
    let rig = Rig::new(100, |_| {});
    let last = b"GET /answered HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let stream = rig.sends(&[ANSWERED, ANSWERED, last].concat()).await;
    let answers = String::from_utf8(closed(stream).await).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
}
