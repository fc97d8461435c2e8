//! The routes over a real socket, with a router whose workers are sent nothing.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod aborted;
mod document;
mod fields;
mod inspected;
mod reserved;
mod selected;
mod words;
mod workers;

use std::collections::BTreeSet;
use std::sync::Arc;

use document::Document;
use http::StatusCode;
use parking_lot::Mutex;
use pointsman_core::policy::RouterSettings;
use serde_json::{Value, json};

use super::*;
use crate::config::Config;
use crate::config::{Listener, Secret};
use crate::load_client::{Answer, LoadClient};
use crate::serve::Server;
use crate::serve::testing::{MODEL, config};

struct Fixture {
    server: Server,
    client: LoadClient,
    /// Each answer is held to it.
    document: Document,
    /// The fields of all answers.
    seen: Mutex<BTreeSet<String>>,
}

fn settings() -> Config {
    let listener = Listener::on(([127, 0, 0, 1], 0).into());
    let select = SelectConfig { listener, ..SelectConfig::default() };
    Config { select: Some(select), ..config(&["http://127.0.0.1:9", "http://127.0.0.1:9"]) }
}

impl Fixture {
    async fn new() -> Self {
        Self::with(settings()).await
    }

    async fn routed(change: impl FnOnce(&mut RouterSettings)) -> Self {
        let mut config = settings();
        change(Arc::make_mut(&mut config.settings));
        Self::with(config).await
    }

    async fn with(config: Config) -> Self {
        let server = Server::start(config, None).await.unwrap();
        let client = LoadClient::new(server.select_addr().unwrap());
        Self { server, client, document: Document::read(), seen: Mutex::default() }
    }

    fn app(&self) -> &App {
        self.server.app()
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        let body = (!body.is_null()).then_some(body);
        let answer = self.client.send(method.clone(), path, &[], body).await.unwrap();
        self.seen.lock().extend(self.document.hold(&method, path, &answer));
        answer
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, body).await
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.send(Method::GET, path, &Value::Null).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text());
        answer.json()
    }

    async fn good(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body).await;
        assert!(answer.status.is_success(), "{path}: {} {}", answer.status, answer.text());
        answer.json()
    }

    /// The status, and the stable kind if there is one.
    async fn refused(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.post(path, body).await;
        (answer.status.as_u16(), answer.json()["details"]["type"].clone())
    }

    /// Every rank's (prefill tokens, blocks, requests).
    async fn loads(&self) -> Vec<(u64, u64, u64)> {
        let loads = self.get("/loads").await;
        let rows =
            loads.as_array().unwrap().iter().flat_map(|one| one["loads"].as_array().unwrap());
        let count = |row: &Value, field: &str| row[field].as_u64().unwrap();
        rows.map(|row| {
            (
                count(row, "potential_prefill_tokens"),
                count(row, "potential_decode_blocks"),
                count(row, "active_requests"),
            )
        })
        .collect()
    }

    async fn stop(self) {
        self.server.shutdown().await;
    }
}

const IDLE: [(u64, u64, u64); 2] = [(0, 0, 0); 2];

/// A prompt of four blocks and half a one.
fn ask() -> Value {
    json!({ "model_name": MODEL, "token_ids": (0..72).collect::<Vec<u32>>() })
}

fn asking(more: Value) -> Value {
    let (mut ask, Value::Object(more)) = (ask(), more) else { panic!("an object") };
    ask.as_object_mut().unwrap().extend(more);
    ask
}
