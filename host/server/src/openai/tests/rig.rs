//! What every test here starts: engines, a router before them, a client before that.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use pointsman_core::ids::Role;
use pointsman_core::policy::Limits;
use pointsman_core::policy::selection::{InstanceSpec, OnFailure, Recipe, SelectionSpec, TypeUse};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::config::Config;
use crate::load_client::{Answer, LoadClient};
use crate::mock_engine::{Control, MockConfig, MockEngine};
use crate::serve::Server;
use crate::serve::testing::{MODEL, config};

/// Longer than anything here takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A built-in decides for all roles, with its defaults.
pub(super) fn by(config: &mut Config, policy: &str) {
    let policy: Arc<str> = policy.into();
    let whole = TypeUse {
        policy_type: policy.clone(),
        parameters: Arc::default(),
        limits: Limits::default(),
    };
    let instance = InstanceSpec::new(policy.clone(), Recipe::Whole(whole), OnFailure::default());
    let roles = Role::ALL.map(|role| (role, policy.clone())).into();
    config.selection = SelectionSpec { roles, instances: vec![instance] };
}

pub(super) struct Rig {
    pub(super) engines: Vec<MockEngine>,
    pub(super) server: Server,
    pub(super) client: LoadClient,
}

impl Rig {
    pub(super) async fn new(engines: usize) -> Self {
        Self::with(engines, |_, _| {}).await
    }

    /// With changes to the engines' configuration and the router's.
    pub(super) async fn with(
        engines: usize,
        change: impl Fn(&mut MockConfig, &mut Config),
    ) -> Self {
        let mut mock = MockConfig { models: vec![MODEL.to_owned()], ..MockConfig::default() };
        let mut unused = config::<&str>(&[]);
        change(&mut mock, &mut unused);
        let engines: Vec<_> =
            (0..engines).map(|_| MockEngine::start(mock.clone()).unwrap()).collect();
        let urls: Vec<_> = engines.iter().map(MockEngine::url).collect();
        let mut config = config(&urls);
        change(&mut mock, &mut config);
        let server = Server::start(config, None).await.unwrap();
        let client = LoadClient::new(server.public_addr());
        Self { engines, server, client }
    }

    pub(super) fn turn(&self, engine: usize, switch: impl FnOnce(&mut Control)) {
        self.engines[engine].control().update(switch).unwrap();
    }

    /// Bookings that have not been given back.
    pub(super) fn bookings(&self) -> u64 {
        let router = self.server.app().dispatcher.router();
        router.partitions().iter().map(|partition| partition.ledger().live_leases()).sum()
    }

    pub(super) async fn chat(&self, headers: &[(&str, &str)], stream: bool) -> Answer {
        let (path, body) = ("/v1/chat/completions", chat(stream));
        self.client.send(Method::POST, path, headers, Some(&body)).await.unwrap()
    }

    /// Every request, booking and exchange has ended.
    pub(super) async fn comes_to_rest(&self) {
        let at_rest = || {
            let metrics = self.server.app().metrics.encode();
            self.bookings() == 0 && metrics.contains("pointsman_requests_in_flight 0")
        };
        eventually(at_rest).await;
    }

    pub(super) fn counted(&self, line: &str) -> bool {
        self.server.app().metrics.encode().lines().any(|counted| counted == line)
    }
}

pub(super) fn chat(stream: bool) -> Value {
    json!({
        "model": MODEL,
        "messages": [{ "role": "user", "content": "a question of some length" }],
        "max_tokens": 8,
        "stream": stream,
    })
}

pub(super) async fn eventually(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap();
}

/// A client that can stop at any byte: it has sent a request, and reads what it likes.
pub(super) struct RawClient(pub(super) TcpStream);

impl RawClient {
    pub(super) async fn post(rig: &Rig, path: &str, body: &Value) -> Self {
        let body = body.to_string();
        let mut stream = TcpStream::connect(rig.server.public_addr()).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: router\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        Self(stream)
    }

    /// Sends these bytes, and nothing more.
    pub(super) async fn raw(rig: &Rig, bytes: &[u8]) -> Self {
        let mut stream = TcpStream::connect(rig.server.public_addr()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        Self(stream)
    }

    /// Reads until a text has come.
    pub(super) async fn reads(&mut self, wanted: &str) {
        let mut all = Vec::new();
        let read = async {
            while !String::from_utf8_lossy(&all).contains(wanted) {
                let mut piece = [0; 4_096];
                let length = self.0.read(&mut piece).await.unwrap();
                assert!(length > 0, "closed after {}", String::from_utf8_lossy(&all));
                all.extend_from_slice(&piece[..length]);
            }
        };
        timeout(PATIENCE, read).await.unwrap();
    }

    /// Reads to the end of the connection.
    pub(super) async fn rest(mut self) -> String {
        let mut all = Vec::new();
        // However it ends.
        let _ = timeout(PATIENCE, self.0.read_to_end(&mut all)).await.unwrap();
        String::from_utf8_lossy(&all).into_owned()
    }
}

pub(super) fn error_of(answer: &Answer) -> Value {
    let error = answer.json().get("error").cloned().unwrap();
    assert_eq!(error.get("code"), Some(&json!(answer.status.as_u16())), "{error}");
    error
}

pub(super) fn kind_of(answer: &Answer) -> String {
    error_of(answer).get("type").and_then(Value::as_str).unwrap().to_owned()
}

pub(super) const BUSY: StatusCode = StatusCode::TOO_MANY_REQUESTS;
