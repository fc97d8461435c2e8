//! Connections to workers, over real sockets.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod framing;
mod idle;
mod wakes;

use axum::body::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::*;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A worker whose answers the test writes.
struct Worker {
    listener: TcpListener,
    spec: WorkerSpec,
}

impl Worker {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let partition = PartitionKey {
            model: "m".into(),
            routing_group: "default".into(),
            role: Role::Aggregated,
        };
        let spec = WorkerSpec::new(WorkerId(1), endpoint, partition);
        Self { listener, spec }
    }

    async fn accepts(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }
}

/// Reads until a request's body has come.
async fn reads(stream: &mut TcpStream) {
    let mut seen = Vec::new();
    while !seen.ends_with(b"{}") {
        assert!(stream.read_buf(&mut seen).await.unwrap() > 0, "{seen:?}");
    }
}

/// The router closes its side, or has: whatever is on its way is read first.
async fn is_closed(stream: &mut TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    let closed = async { while stream.read(&mut buffer).await.unwrap_or(0) > 0 {} };
    timeout(PATIENCE, closed).await.expect("it is closed");
}

/// Both at once, within the time that there is.
async fn both(serves: impl Future<Output = ()>, asks: impl Future<Output = ()>) {
    let both = async { tokio::join!(serves, asks) };
    timeout(PATIENCE, both).await.expect("nobody waits for ever");
}

/// What has come to this process's sockets is seen by its tasks.
async fn settles() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

async fn writes(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

fn outgoing() -> Outgoing {
    Outgoing {
        method: Method::POST,
        target: PathAndQuery::from_static("/v1/completions"),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{}"),
    }
}

async fn send(upstream: &Upstream, worker: &WorkerSpec) -> Result<Response<Reply>, Failure> {
    send_of(upstream, worker, &outgoing(), || {}).await
}

async fn send_of(
    upstream: &Upstream,
    worker: &WorkerSpec,
    outgoing: &Outgoing,
    again: impl FnOnce(),
) -> Result<Response<Reply>, Failure> {
    let rank = WorkerRank { worker_id: worker.worker_id, dp_rank: DpRank(0) };
    upstream.send(outgoing, worker, rank, &Sent::default(), again).await
}

/// A whole answer's body.
async fn asks(upstream: &Upstream, worker: &WorkerSpec) -> Bytes {
    body(send(upstream, worker).await.unwrap()).await
}

async fn body(answer: Response<Reply>) -> Bytes {
    answer.into_body().collect().await.unwrap().to_bytes()
}

fn upstream() -> Upstream {
    Upstream::new(Duration::from_secs(10))
}

const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const BEGUN: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n";
const END: &str = "0\r\n\r\n";

#[tokio::test]
async fn a_connection_is_used_again_once_its_answer_is_whole() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let serves = async {
        let mut stream = worker.accepts().await;
        for _ in 0..3 {
            reads(&mut stream).await;
            writes(&mut stream, WHOLE).await;
            reads(&mut stream).await;
            writes(&mut stream, BEGUN).await;
            writes(&mut stream, END).await;
        }
    };
    let asks = async {
        for _ in 0..6 {
            let answer = send(&upstream, &worker.spec).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
        }
    };
    // A second connection would wait for ever.
    both(serves, asks).await;
}

#[tokio::test]
async fn an_answer_that_nobody_reads_to_its_end_takes_its_connection_along() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let asked = Notify::new();
    let serves = async {
        let mut first = worker.accepts().await;
        reads(&mut first).await;
        writes(&mut first, BEGUN).await;
        assert_eq!(first.read(&mut [0; 8]).await.unwrap_or(0), 0, "it is closed");
        let mut second = worker.accepts().await;
        reads(&mut second).await;
        asked.notify_one();
        assert_eq!(second.read(&mut [0; 8]).await.unwrap_or(0), 0, "it is closed");
        let mut third = worker.accepts().await;
        reads(&mut third).await;
        writes(&mut third, WHOLE).await;
    };
    let asks = async {
        let mut answer = send(&upstream, &worker.spec).await.unwrap().into_body();
        let frame = answer.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "ok");
        assert!(!answer.is_end_stream());
        drop(answer);
        // As does one that nobody waits for any more.
        tokio::select! {
            answer = send(&upstream, &worker.spec) => panic!("{answer:?}"),
            () = asked.notified() => {}
        }
        let answer = send(&upstream, &worker.spec).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    };
    both(serves, asks).await;
}

#[tokio::test]
async fn a_connection_that_the_worker_has_closed_costs_no_request() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let serves = async {
        for _ in 0..20 {
            let mut stream = worker.accepts().await;
            reads(&mut stream).await;
            // Nothing says that it won't be kept.
            writes(&mut stream, WHOLE).await;
        }
    };
    let asks = async {
        for _ in 0..20 {
            let answer = send(&upstream, &worker.spec).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
        }
    };
    both(serves, asks).await;
}

#[tokio::test]
async fn what_ends_with_its_connection_is_whole_and_what_is_cut_off_is_not() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok";
    let serves = async {
        for text in
            ["HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok", cut, BEGUN, "", "nonsense\r\n\r\n"]
        {
            let mut stream = worker.accepts().await;
            reads(&mut stream).await;
            writes(&mut stream, text).await;
        }
    };
    let asks = async {
        let answer = send(&upstream, &worker.spec).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
        for _ in 0..2 {
            let answer = send(&upstream, &worker.spec).await.unwrap();
            assert!(answer.into_body().collect().await.is_err());
        }
        let failure = send(&upstream, &worker.spec).await.unwrap_err();
        assert!(matches!(failure, Failure::Closed { stale: false, .. }), "{failure:?}");
        let failure = send(&upstream, &worker.spec).await.unwrap_err();
        assert!(matches!(failure, Failure::Garbled(_)), "{failure:?}");
    };
    both(serves, asks).await;
}

#[tokio::test]
async fn long_bodies_go_both_ways_at_once() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let long = vec![b'x'; 8 << 20];
    let serves = async {
        let mut stream = worker.accepts().await;
        // It answers before it has read more than the head.
        stream.read_exact(&mut [0; 64]).await.unwrap();
        writes(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 8388608\r\n\r\n").await;
        let (mut from, mut to) = stream.split();
        let mut seen = 64;
        let reads = async {
            let mut buffer = vec![0; 64 << 10];
            while seen < long.len() {
                seen += from.read(&mut buffer).await.unwrap();
            }
        };
        tokio::join!(reads, async { to.write_all(&long).await.unwrap() });
    };
    let asks = async {
        let outgoing = Outgoing { body: long.clone().into(), ..outgoing() };
        let rank = WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) };
        let sent = Sent::default();
        let answer = upstream.send(&outgoing, &worker.spec, rank, &sent, || {}).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(body == long && sent.has_begun());
    };
    both(serves, asks).await;
}
