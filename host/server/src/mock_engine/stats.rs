//! What a mock engine counts.
//!
//! Counters are atomic and read without a lock; a snapshot taken while requests move may be torn by one. At rest it balances:
//! `received = completed + failed + aborted`, and `running`, `waiting` and `kv_blocks` are zero.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;

/// The paths that are counted by name; all others are counted as `other`.
pub(super) const PATHS: [&str; 10] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/models",
    "/health",
    "/version",
    "/load",
    "/metrics",
    "/tokenize",
    "/detokenize",
];

/// The live counters of one engine.
#[derive(Debug, Default)]
pub(super) struct Stats {
    pub(super) connections: AtomicU64,
    pub(super) open_connections: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) running: AtomicU64,
    pub(super) peak_running: AtomicU64,
    pub(super) completed_length: AtomicU64,
    pub(super) completed_stop: AtomicU64,
    pub(super) aborted: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) prompt_tokens: AtomicU64,
    pub(super) generated_tokens: AtomicU64,
    pub(super) kv_blocks: AtomicU64,
    paths: [AtomicU64; PATHS.len()],
    other_paths: AtomicU64,
    last: Mutex<Option<LastRequest>>,
}

/// What an engine has counted, at one moment. An inference request is a `POST` below `/v1/`; one that a failure switch holds
/// back (frozen, hanging, delayed) has been received, but neither waits nor runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatsSnapshot {
    /// TCP connections accepted since the start; far fewer than requests when the client pools them.
    pub connections: u64,
    /// TCP connections open now.
    pub open_connections: u64,
    /// Inference requests whose head has been read.
    pub received: u64,
    /// Inference requests that wait for a free sequence now.
    pub waiting: u64,
    /// Inference requests that prefill or decode now.
    pub running: u64,
    /// The most that ran at the same time.
    pub peak_running: u64,
    /// Inference requests answered in full.
    pub completed: u64,
    /// Inference requests whose client went away before the end of the answer, and those cut by the engine's own shutdown.
    pub aborted: u64,
    /// Inference requests answered with an error, or broken by a failure switch.
    pub failed: u64,
    /// Prompt tokens of the requests that ran.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// KV blocks that running requests hold now.
    pub kv_blocks: u64,
    /// Prompts that are kept for another engine now.
    pub kept: u64,
    /// Prompts that other engines fetched here.
    pub handed_over: u64,
    /// Prompts that were fetched from other engines.
    pub fetched: u64,
    /// All requests (probes too, `/mock/*` not) by path; paths that are not the engine's are summed up as `other`.
    pub paths: BTreeMap<String, u64>,
}

/// The last request that was not a probe: probes are `GET` of `/health`, `/version`, `/load`, `/metrics`, `/v1/models` and
/// everything below `/mock/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastRequest {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Names (in lower case) and values in the order of arrival; the values of a name that comes more than once stand together.
    pub headers: Vec<(String, String)>,
    /// The length of the body in bytes.
    pub body_len: usize,
    /// The body itself; not shown at `/mock/last-request`.
    #[serde(skip)]
    pub body: Bytes,
}

impl LastRequest {
    /// All values of a header, by its name in lower case.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Stats {
    pub(super) fn count_path(&self, path: &str) {
        let known = PATHS.iter().position(|known| *known == path);
        known.map_or(&self.other_paths, |index| &self.paths[index]).fetch_add(1, Relaxed);
    }

    pub(super) fn remember(&self, request: LastRequest) {
        *self.last.lock() = Some(request);
    }

    pub(super) fn last_request(&self) -> Option<LastRequest> {
        self.last.lock().clone()
    }

    pub(super) fn snapshot(&self) -> StatsSnapshot {
        let mut paths: BTreeMap<String, u64> = PATHS
            .iter()
            .zip(&self.paths)
            .map(|(path, count)| ((*path).to_owned(), count.load(Relaxed)))
            .collect();
        paths.insert("other".to_owned(), self.other_paths.load(Relaxed));
        paths.retain(|_, count| *count > 0);
        StatsSnapshot {
            connections: self.connections.load(Relaxed),
            open_connections: self.open_connections.load(Relaxed),
            received: self.received.load(Relaxed),
            waiting: self.waiting.load(Relaxed),
            running: self.running.load(Relaxed),
            peak_running: self.peak_running.load(Relaxed),
            completed: self.completed_length.load(Relaxed) + self.completed_stop.load(Relaxed),
            aborted: self.aborted.load(Relaxed),
            failed: self.failed.load(Relaxed),
            prompt_tokens: self.prompt_tokens.load(Relaxed),
            generated_tokens: self.generated_tokens.load(Relaxed),
            kv_blocks: self.kv_blocks.load(Relaxed),
            kept: 0,
            handed_over: 0,
            fetched: 0,
            paths,
        }
    }
}
