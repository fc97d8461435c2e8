//! An engine as far as its events go: a publisher, and a replay socket with a buffer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use zeromq::prelude::*;
use zeromq::{PubSocket, RouterSocket, ZmqMessage};

use crate::feeds::Attach;
use crate::feeds::sources::Source;
use crate::feeds::testing::pack;

/// How replays are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frames {
    /// With the topic.
    New,
    /// Without.
    Old,
    /// Not at all.
    None,
}

#[derive(Debug, Default)]
struct Buffer {
    /// The last batches, by number.
    batches: VecDeque<(u64, Bytes)>,
    most: usize,
    /// Where replays were asked for from.
    asked: Vec<u64>,
}

pub(crate) struct Engine {
    publisher: PubSocket,
    port: u16,
    replay_port: u16,
    frames: Frames,
    next: u64,
    buffer: Arc<Mutex<Buffer>>,
    replays: JoinSet<()>,
}

/// Blocks of two tokens from `first` on, each named by its first token.
pub(crate) fn stored(first: u64, blocks: u64) -> Value {
    let hashes: Vec<u64> = (0..blocks).map(|at| first + 2 * at).collect();
    let tokens: Vec<u64> = (first..first + 2 * blocks).collect();
    let parent = if first > 2 { json!(first - 2) } else { Value::Null };
    json!(["BlockStored", hashes, parent, tokens, 2, null, "GPU"])
}

pub(crate) fn removed(hashes: &[u64]) -> Value {
    json!({"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU"})
}

pub(crate) fn cleared() -> Value {
    json!(["AllBlocksCleared"])
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

async fn bind(socket: &mut impl Socket, port: u16) -> u16 {
    // A port is free again a moment after its socket is gone.
    for _ in 0..400 {
        if let Ok(endpoint) = socket.bind(&format!("tcp://127.0.0.1:{port}")).await {
            let text = endpoint.to_string();
            return text.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("port {port} isn't free");
}

/// Answers replay requests as vLLM does.
async fn answer(mut router: RouterSocket, frames: Frames, buffer: Arc<Mutex<Buffer>>) {
    while let Ok(request) = router.recv().await {
        let request = request.into_vec();
        let [identity, empty, start] = &request[..] else { continue };
        assert!(empty.is_empty());
        let start = start.iter().fold(0, |start, &byte| start << 8 | u64::from(byte));
        let batches: Vec<_> = {
            let mut buffer = buffer.lock();
            buffer.asked.push(start);
            buffer.batches.iter().filter(|(seq, _)| *seq >= start).cloned().collect()
        };
        let topic = Bytes::from("kv-events");
        let end = (u64::MAX, Bytes::new(), Bytes::new());
        let answers = batches.into_iter().map(|(seq, payload)| (seq, topic.clone(), payload));
        for (seq, topic, payload) in answers.chain([end]) {
            let mut answer = vec![identity.clone(), Bytes::new()];
            match frames {
                Frames::New => answer.push(topic),
                Frames::Old => {}
                Frames::None => continue,
            }
            answer.extend([Bytes::copy_from_slice(&seq.to_be_bytes()), payload]);
            let Ok(answer) = ZmqMessage::try_from(answer) else { continue };
            let _ = router.send(answer).await;
        }
    }
}

impl Engine {
    /// Starts one that publishes at the first port and answers at the second, 0 for any, and keeps
    /// so many batches.
    pub(crate) async fn start(ports: (u16, u16), most: usize, frames: Frames) -> Self {
        let buffer = Arc::new(Mutex::new(Buffer { most, ..Buffer::default() }));
        Self::start_with(ports, frames, 0, buffer).await
    }

    async fn start_with(
        (port, replay_port): (u16, u16),
        frames: Frames,
        next: u64,
        buffer: Arc<Mutex<Buffer>>,
    ) -> Self {
        // Whoever connects for events asks for old ones next: the replays come up first.
        let mut router = RouterSocket::new();
        let replay_port = bind(&mut router, replay_port).await;
        let mut replays = JoinSet::new();
        replays.spawn(answer(router, frames, Arc::clone(&buffer)));
        let mut publisher = PubSocket::new();
        let port = bind(&mut publisher, port).await;
        Self { publisher, port, replay_port, frames, next, buffer, replays }
    }

    /// Starts one that connects to whoever waits at a port, and can't be asked.
    pub(crate) async fn connect(port: u16) -> Self {
        let mut publisher = PubSocket::new();
        publisher.connect(&format!("tcp://127.0.0.1:{port}")).await.expect("connected");
        Self {
            publisher,
            port,
            replay_port: 0,
            frames: Frames::None,
            next: 0,
            buffer: Arc::default(),
            replays: JoinSet::new(),
        }
    }

    pub(crate) fn source(&self, replay: bool) -> Source {
        let at = |port| format!("tcp://127.0.0.1:{port}").parse().expect("an endpoint");
        Source {
            rank: 0,
            attach: Attach::Connect,
            endpoint: at(self.port),
            replay_endpoint: replay.then(|| at(self.replay_port)),
            topic: String::new(),
            block_size: None,
        }
    }

    fn number(&mut self, payload: &Bytes) -> u64 {
        let seq = self.next;
        self.next += 1;
        let mut buffer = self.buffer.lock();
        buffer.batches.push_back((seq, payload.clone()));
        while buffer.batches.len() > buffer.most {
            buffer.batches.pop_front();
        }
        seq
    }

    fn payload(events: &[Value]) -> Bytes {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time").as_secs_f64();
        Bytes::from(pack(&json!([now, events, 0])))
    }

    /// Publishes a batch.
    pub(crate) async fn publish(&mut self, events: &[Value]) {
        self.publish_as("kv-events", events).await;
    }

    pub(crate) async fn publish_as(&mut self, topic: &str, events: &[Value]) {
        let payload = Self::payload(events);
        let seq = if topic == "kv-events" { self.number(&payload) } else { 0 };
        self.send(&[topic.as_bytes(), &seq.to_be_bytes(), &payload]).await;
    }

    pub(crate) async fn publish_raw(&mut self, payload: &[u8]) {
        let seq = self.number(&Bytes::copy_from_slice(payload));
        self.send(&[b"kv-events", &seq.to_be_bytes(), payload]).await;
    }

    /// Sends a message. `PubSocket` hands it to a task of its own, which misses that there is one if
    /// it comes in the very moment in which the task goes to rest after the one before, and then
    /// sends it with the next only: so the task gets the time to come to rest.
    pub(crate) async fn send(&mut self, frames: &[&[u8]]) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let frames: Vec<Bytes> = frames.iter().map(|frame| Bytes::copy_from_slice(frame)).collect();
        let message = ZmqMessage::try_from(frames).expect("frames");
        self.publisher.send(message).await.expect("sent");
    }

    /// Makes a batch that never arrives.
    pub(crate) fn lose(&mut self, events: &[Value]) {
        let payload = Self::payload(events);
        self.number(&payload);
    }

    /// Where replays were asked for from.
    pub(crate) fn asked(&self) -> Vec<u64> {
        self.buffer.lock().asked.clone()
    }

    /// Ends it, and returns its ports.
    pub(crate) async fn stop(mut self) -> (u16, u16) {
        self.replays.shutdown().await;
        self.publisher.close().await;
        (self.port, self.replay_port)
    }

    /// Another process in its place, which knows nothing.
    pub(crate) async fn restart(self) -> Self {
        self.restart_with(&[]).await
    }

    /// The same, with batches that it has published before anyone could connect.
    pub(crate) async fn restart_with(self, batches: &[&[Value]]) -> Self {
        let (frames, most) = (self.frames, self.buffer.lock().most);
        let ports = self.stop().await;
        let buffer = Arc::new(Mutex::new(Buffer { most, ..Buffer::default() }));
        for (seq, events) in batches.iter().enumerate() {
            buffer.lock().batches.push_back((seq as u64, Self::payload(events)));
        }
        Self::start_with(ports, frames, batches.len() as u64, buffer).await
    }

    /// The same process, after the network was away.
    pub(crate) async fn drop_connections(self) -> Self {
        let (frames, next) = (self.frames, self.next);
        let buffer = Arc::clone(&self.buffer);
        let ports = self.stop().await;
        Self::start_with(ports, frames, next, buffer).await
    }
}
