//! A router, engines' publishers, and engines' HTTP as far as their events go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router as Routes;
use axum::extract::State;
use axum::routing::get;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use pointsman_core::index::{RankStats, Tier};
use pointsman_core::partition::{Decision, Mode};
use pointsman_core::request::RouteRequest;
use serde_json::{Value, json};

use crate::config::{Config, HealthConfig};
use crate::feeds::subscriber::tests::engine::{Engine, Frames};
use crate::load_client::{Answer, LoadClient};
use crate::serve::Server;
use crate::serve::testing::{MODEL, config, partition};

/// Nothing listens there.
pub(super) const NOBODY: &str = "http://127.0.0.1:9";

pub(super) struct Rig {
    pub(super) server: Server,
    pub(super) admin: LoadClient,
}

pub(super) fn rank(worker: u64, rank: u32) -> WorkerRank {
    WorkerRank { worker_id: WorkerId(worker), dp_rank: DpRank(rank) }
}

impl Rig {
    pub(super) async fn start() -> Self {
        Self::with(config::<&str>(&[])).await
    }

    /// A router that probes ten times a second, at this path.
    pub(super) async fn probing(path: &str) -> Self {
        let health = HealthConfig {
            interval: Duration::from_millis(100),
            unhealthy_after: 1,
            path: path.to_owned(),
            ..HealthConfig::default()
        };
        Self::with(Config { health, ..config::<&str>(&[]) }).await
    }

    pub(super) async fn with(config: Config) -> Self {
        let server = Server::start(config, None).await.unwrap();
        let admin = LoadClient::new(server.admin_addr());
        Self { server, admin }
    }

    pub(super) async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.admin.send(method, path, &[], Some(body)).await.unwrap()
    }

    /// Registers worker 1, with blocks of two tokens, and what else is given.
    pub(super) async fn register(&self, more: Value) -> Value {
        let mut worker =
            json!({ "worker_id": 1, "endpoint": NOBODY, "model": MODEL, "block_size": 2 });
        worker.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.send(Method::POST, "/v1/workers", &worker).await;
        assert!(answer.is_good(), "{}", answer.text());
        answer.json()
    }

    pub(super) async fn delete(&self) {
        let gone = self.admin.send(Method::DELETE, "/v1/workers/1?force=true", &[], None).await;
        assert_eq!(gone.unwrap().status, StatusCode::OK);
    }

    pub(super) async fn feed(&self) -> Value {
        let worker = self.admin.get("/v1/workers/1").await.unwrap().json();
        worker["cache_feeds"][0].clone()
    }

    pub(super) async fn metrics(&self) -> String {
        self.admin.get("/metrics").await.unwrap().text()
    }

    pub(super) fn stats(&self, of: WorkerRank) -> Option<RankStats> {
        let found = self.server.app().dispatcher.router().partition(&partition())?;
        found.cache().rank_stats(of)
    }

    /// Blocks on the device of worker 1's first rank; none if it tells nothing.
    pub(super) fn held(&self) -> Option<usize> {
        self.stats(rank(1, 0)).map(|stats| stats.held[Tier::Device as usize])
    }

    pub(super) async fn until(&self, what: &str, reached: impl AsyncFn() -> bool) {
        let wait = async {
            while !reached().await {
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), wait).await.is_err() {
            panic!("not {what}: held {:?}, {:#}", self.held(), self.feed().await);
        }
    }

    pub(super) async fn until_held(&self, blocks: usize) {
        self.until(&format!("{blocks} held"), async || self.held() == Some(blocks)).await;
    }

    pub(super) async fn until_live(&self) {
        self.until("live", async || self.feed().await["state"] == "live").await;
    }

    /// Waits until the publisher knows of the subscription: until something arrives. What is sent
    /// for that has no number, and counts as malformed.
    pub(super) async fn reached(&self, engine: &mut Engine) {
        self.until_live().await;
        let count = async || self.feed().await["counts"]["malformed"].as_u64();
        let before = count().await;
        let probe = async {
            while count().await <= before {
                engine.send(&[b"kv"]).await;
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), probe).await.unwrap();
    }

    /// A decision for a prompt of these tokens.
    pub(super) async fn decide(&self, tokens: &[u32]) -> Decision {
        let mut chain = Vec::new();
        sequence_hashes(tokens, 2, Scope::default(), &mut chain);
        let mut request = RouteRequest::new("r", partition(), tokens.len() as u64);
        request.chain = chain.into();
        self.server.app().dispatcher.decide(request.into(), Mode::Book).await.unwrap()
    }

    pub(super) async fn stop(self) {
        self.server.shutdown().await;
    }
}

/// A publisher that can't be asked for old batches.
pub(super) async fn forgetful() -> Engine {
    Engine::start((0, 0), 100, Frames::None).await
}

/// A publisher that keeps the last hundred batches.
pub(super) async fn engine() -> Engine {
    Engine::start((0, 0), 100, Frames::New).await
}

/// Where its events are, as a worker's fields.
pub(super) fn at(engine: &Engine, replay: bool) -> Value {
    let source = engine.source(replay);
    let mut fields = json!({ "kv_events_endpoint": source.endpoint.to_string() });
    if let Some(replay) = source.replay_endpoint {
        fields["replay_endpoint"] = json!(replay.to_string());
    }
    fields
}

/// An engine's HTTP.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// What `/kv_event_sources` says; 404 when none.
    pub(super) vllm: Mutex<Option<Value>>,
    /// What `/server_info` says; 404 when none.
    pub(super) sglang: Mutex<Option<Value>>,
    pub(super) asked: AtomicUsize,
    pub(super) ill: AtomicBool,
    pub(super) sleeping: AtomicBool,
}

impl Front {
    /// Serves it; the address is the worker's endpoint. It ends with the test.
    pub(super) async fn serve(self: &Arc<Self>) -> String {
        type Told = (StatusCode, String);
        let told = |answer: &Mutex<Option<Value>>| match &*answer.lock() {
            Some(answer) => (StatusCode::OK, answer.to_string()),
            None => (StatusCode::NOT_FOUND, String::new()),
        };
        let vllm = move |State(front): State<Arc<Self>>| async move {
            front.asked.fetch_add(1, Ordering::SeqCst);
            told(&front.vllm) as Told
        };
        let sglang = move |State(front): State<Arc<Self>>| async move { told(&front.sglang) };
        let health = |State(front): State<Arc<Self>>| async move {
            match front.ill.load(Ordering::SeqCst) {
                true => StatusCode::INTERNAL_SERVER_ERROR,
                false => StatusCode::OK,
            }
        };
        let sleeping = |State(front): State<Arc<Self>>| async move {
            axum::Json(json!({ "is_sleeping": front.sleeping.load(Ordering::SeqCst) }))
        };
        let routes = Routes::new()
            .route("/kv_event_sources", get(vllm))
            .route("/server_info", get(sglang))
            .route("/health", get(health))
            .route("/is_sleeping", get(sleeping))
            .with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
        tokio::spawn(async move { axum::serve(listener, routes).await });
        format!("http://{address}")
    }
}
