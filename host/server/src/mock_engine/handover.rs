//! Prompts that one engine computes and another answers: what a prefill engine keeps, and how a decode engine gets it.
//!
//! No blocks move, but everything else is as between real engines, and strictly checked: a decode engine asks the prefill
//! engine that it was told of, over HTTP, for exactly that prompt, and gets it once. A vLLM prefill keeps blocks under its
//! request's id; an SGLang prefill waits at a number (a room) until its decode has come, and gives up when its client does.

mod task;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::engine::Engine;
use super::error::ApiError;
use super::request::Job;

pub(super) use task::Task;

/// Prompts that are kept at most; the oldest goes first. A real engine forgets by time.
const MOST_KEPT: usize = 4_096;

/// How long two engines wait for each other.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an engine has for others.
#[derive(Debug)]
pub(super) struct Handovers {
    /// The engine's name among those that hand over.
    engine_id: String,
    kept: Mutex<BTreeMap<String, Kept>>,
    rooms: Mutex<BTreeMap<u64, Room>>,
    /// A room has changed.
    moved: Notify,
    next_block: AtomicU64,
    client: Client<HttpConnector, Full<bytes::Bytes>>,
    /// Prompts that others fetched here.
    pub(super) given: AtomicU64,
    /// Prompts that were fetched from others.
    pub(super) fetched: AtomicU64,
}

#[derive(Debug)]
struct Kept {
    since: u64,
    blocks: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// The prompt is being computed.
    Open,
    /// It is there to be fetched.
    Ready,
    /// It was.
    Taken,
}

/// What an engine asks another.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Fetch {
    engine_id: String,
    request_id: String,
    blocks: Vec<u64>,
}

/// Rooms that are open for as long as this is held.
#[derive(Debug)]
pub(super) struct Rooms {
    engine: Arc<Engine>,
    rooms: Vec<u64>,
}

impl Handovers {
    pub(super) fn new(name: &str) -> Self {
        Self {
            engine_id: format!("{name}-{}", uuid::Uuid::new_v4().simple()),
            kept: Mutex::default(),
            rooms: Mutex::default(),
            moved: Notify::new(),
            next_block: AtomicU64::new(1),
            client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
            given: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
        }
    }

    /// Prompts that are kept, or waited with.
    pub(super) fn waiting(&self) -> u64 {
        let open = self.rooms.lock().values().filter(|room| **room != Room::Taken).count();
        (self.kept.lock().len() + open) as u64
    }

    /// Gives a prompt away that was kept; whether it was.
    pub(super) fn give(&self, fetch: &Fetch) -> bool {
        let mut kept = self.kept.lock();
        let found = kept.get(&fetch.request_id).is_some_and(|kept| kept.blocks == fetch.blocks);
        let given = found && fetch.engine_id == self.engine_id;
        if given {
            kept.remove(&fetch.request_id);
            self.given.fetch_add(1, Relaxed);
        }
        given
    }

    /// Gives the prompts in rooms away as soon as they are computed; whether they were.
    pub(super) async fn give_in(&self, rooms: &[u64]) -> bool {
        let known = || rooms.iter().any(|room| self.rooms.lock().contains_key(room));
        let mut was_known = false;
        let wait = async {
            loop {
                let moved = self.moved.notified();
                tokio::pin!(moved);
                // From here on, nothing that moves is missed.
                moved.as_mut().enable();
                let all = |wanted| {
                    let held = self.rooms.lock();
                    rooms.iter().all(|room| held.get(room) == Some(&wanted))
                };
                if all(Room::Ready) {
                    let mut held = self.rooms.lock();
                    held.extend(rooms.iter().map(|room| (*room, Room::Taken)));
                    return true;
                }
                if was_known && !known() {
                    return false;
                }
                was_known |= known();
                moved.await;
            }
        };
        let given = timeout(PATIENCE, wait).await.unwrap_or(false);
        if given {
            self.given.fetch_add(1, Relaxed);
        }
        self.moved.notify_waiters();
        given
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        let handovers = &self.engine.handovers;
        let mut held = handovers.rooms.lock();
        held.retain(|room, _| !self.rooms.contains(room));
        drop(held);
        handovers.moved.notify_waiters();
    }
}

impl Rooms {
    /// The prompt is computed: waits until it was fetched.
    pub(super) async fn taken(&self) -> Result<(), ApiError> {
        let handovers = &self.engine.handovers;
        {
            let mut held = handovers.rooms.lock();
            held.extend(self.rooms.iter().map(|room| (*room, Room::Ready)));
        }
        handovers.moved.notify_waiters();
        let wait = async {
            loop {
                let moved = handovers.moved.notified();
                tokio::pin!(moved);
                moved.as_mut().enable();
                let taken = {
                    let held = handovers.rooms.lock();
                    self.rooms.iter().all(|room| held.get(room) == Some(&Room::Taken))
                };
                if taken {
                    return;
                }
                moved.await;
            }
        };
        let late = |_| failed("no decode engine came for the prompt");
        timeout(PATIENCE, wait).await.map_err(late)
    }
}

impl Engine {
    /// Keeps a computed prompt for another. Returns what the answer says of that, as JSON.
    pub(super) fn keep(&self, job: &Job, answer_id: &str) -> String {
        let handovers = &self.handovers;
        let count = self.blocks(job.prompt_tokens());
        let first = handovers.next_block.fetch_add(count, Relaxed);
        let blocks: Vec<u64> = (first..first + count).collect();
        let params = json!({
            "do_remote_prefill": true,
            "do_remote_decode": false,
            "remote_block_ids": blocks,
            "remote_engine_id": handovers.engine_id,
            "remote_request_id": answer_id,
            "remote_host": self.addr.ip().to_string(),
            "remote_port": self.addr.port(),
            "tp_size": 1,
        });
        let mut kept = handovers.kept.lock();
        if kept.len() >= MOST_KEPT
            && let Some(oldest) =
                kept.iter().min_by_key(|(_, kept)| kept.since).map(|(id, _)| id.clone())
        {
            kept.remove(&oldest);
        }
        kept.insert(answer_id.to_owned(), Kept { since: first, blocks });
        params.to_string()
    }

    async fn ask(
        &self,
        host: &str,
        port: u16,
        path: &str,
        body: &impl Serialize,
    ) -> Result<(), ApiError> {
        let bytes = serde_json::to_vec(body).unwrap_or_default();
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{host}:{port}{path}"))
            .body(Full::new(bytes.into()))
            .map_err(|error| refused(&format!("the prefill engine's address: {error}")))?;
        match self.handovers.client.request(request).await {
            Ok(answer) if answer.status() == StatusCode::OK => {
                self.handovers.fetched.fetch_add(1, Relaxed);
                Ok(())
            }
            Ok(answer) => Err(failed(&format!("the prefill engine answered {}", answer.status()))),
            Err(error) => Err(failed(&format!("the prefill engine can't be asked: {error}"))),
        }
    }
}

fn refused(why: &str) -> ApiError {
    ApiError::bad_request(format!("not a handover as this engine does it: {why}"), None)
}

fn failed(why: &str) -> ApiError {
    ApiError::broken_handover(why)
}
