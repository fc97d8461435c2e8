//! The routes over a real socket, with a router without engines.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use bytes::Bytes;
use http::StatusCode;
use pointsman_core::partition::Mode;
use pointsman_core::request::RouteRequest;
use serde_json::{Value, json};

use crate::config::{Config, Secret};
use crate::load_client::{Answer, LoadClient};
use crate::serve::Server;
use crate::serve::testing::{MODEL, config, partition};

use super::*;

mod bodies;
mod busy_threshold;
mod readiness;
mod views;
mod words;

struct Fixture {
    server: Server,
    admin: LoadClient,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(config(&["http://127.0.0.1:9", "http://127.0.0.1:9"])).await
    }

    async fn with(config: Config) -> Self {
        let server = Server::start(config, None).await.unwrap();
        let admin = LoadClient::new(server.admin_addr());
        Self { server, admin }
    }

    async fn get(&self, path: &str) -> Answer {
        self.admin.get(path).await.unwrap()
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.admin.send(method, path, &[], Some(body)).await.unwrap()
    }

    async fn book(&self) -> pointsman_core::partition::Decision {
        let request = RouteRequest::new("r", partition(), 100);
        self.server.app().dispatcher.decide(request.into(), Mode::Book).await.unwrap()
    }
}

#[tokio::test]
async fn every_error_is_json_with_a_reason() {
    let fixture = Fixture::new().await;
    let cases = [
        (Method::GET, "/nowhere", Value::Null, 404, "nothing is at /nowhere"),
        (Method::PUT, "/v1/workers", json!({}), 405, "doesn't take PUT"),
        (Method::GET, "/v1/workers/9", Value::Null, 404, "no worker 9"),
        (Method::GET, "/v1/workers/nine", Value::Null, 400, "not a worker's id"),
        (Method::GET, "/v1/workers/+1", Value::Null, 400, "not a worker's id"),
        (Method::GET, "/v1/workers/%ff", Value::Null, 400, "not a worker's id"),
        (Method::PATCH, "/v1/workers/%ff", json!({}), 400, "not a worker's id"),
        (Method::DELETE, "/v1/workers/%2B1", json!({}), 400, "not a worker's id"),
        (Method::POST, "/v1/workers/%ff/heartbeat", json!({}), 400, "not a worker's id"),
        (Method::GET, "/v1/workers?colour=red", Value::Null, 400, "colour"),
        (Method::POST, "/v1/workers", json!([]), 400, "description"),
        (Method::POST, "/v1/workers/1/heartbeat", json!({}), 409, "no lease"),
        (Method::PATCH, "/v1/workers/9", json!({}), 404, "no worker 9"),
        (Method::PATCH, "/v1/workers/1", json!({ "worker_id": 2 }), 400, "description"),
        (Method::DELETE, "/v1/workers/9", json!({}), 404, "no worker 9"),
        (Method::DELETE, "/v1/workers/1?force=maybe", json!({}), 400, "force"),
        (Method::POST, "/v1/route", json!({ "prompt_tokens": 1 }), 400, "model"),
    ];
    for (method, path, body, status, reason) in cases {
        let answer = if body.is_null() {
            fixture.get(path).await
        } else {
            fixture.send(method.clone(), path, &body).await
        };
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {}", answer.text());
        let error = answer.json()["error"].clone();
        let text = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        assert!(text.contains(reason), "{method} {path}: {}", answer.text());
    }
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn a_body_must_be_json_say_so_and_be_of_bounded_size() {
    let fixture = Fixture::new().await;
    let send = async |bytes: Vec<u8>| {
        let sent = fixture.admin.send_bytes(Method::POST, "/v1/workers", &[], Bytes::from(bytes));
        sent.await.unwrap().status
    };
    assert_eq!(send(b"{".to_vec()).await, StatusCode::BAD_REQUEST);
    assert_eq!(send(vec![b' '; MOST_BODY]).await, StatusCode::BAD_REQUEST);
    // A client that sends far more reads why, too.
    for (path, bytes) in [("/v1/workers", MOST_BODY + 1), ("/v1/overlap", 20 * MOST_BODY)] {
        let body = Bytes::from(vec![b' '; bytes]);
        let sent = fixture.admin.send_bytes(Method::POST, path, &[], body).await.unwrap();
        assert_eq!(sent.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(sent.text().contains("more than the 1048576 bytes"), "{}", sent.text());
    }
    // Without a body, the client names no type.
    assert_eq!(send(Vec::new()).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn a_strangers_host_is_refused_without_tokens_and_a_token_is_asked_for_with() {
    let fixture = Fixture::new().await;
    let path = "/v1/loads";
    let stranger = fixture.admin.send(Method::GET, path, &[("host", "evil.example")], None);
    assert_eq!(stranger.await.unwrap().status, StatusCode::FORBIDDEN);
    fixture.server.shutdown().await;

    let mut guarded = config(&["http://127.0.0.1:9"]);
    guarded.admin.tokens = vec![Secret("t0ken".to_owned())];
    let fixture = Fixture::with(guarded).await;
    for path in ["/health", "/ready"] {
        assert_eq!(fixture.get(path).await.status, StatusCode::OK, "{path}");
    }
    for path in ["/metrics", "/v1/workers", path, "/v1/policies", "/v1/receipts"] {
        assert_eq!(fixture.get(path).await.status, StatusCode::UNAUTHORIZED, "{path}");
        let headers = [("authorization", "Bearer t0ken"), ("host", "pointsman.internal")];
        let answer = fixture.admin.send(Method::GET, path, &headers, None).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{path}");
    }
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn workers_are_listed_shown_changed_and_let_go() {
    let fixture = Fixture::new().await;
    let described = json!({ "worker_id": 3, "endpoint": "http://127.0.0.1:10", "model": "other", "lease": "1h" });
    let created = fixture.send(Method::POST, "/v1/workers", &described).await;
    assert_eq!(created.status, StatusCode::CREATED);
    assert_eq!(created.json()["lease_ms"], 3_600_000);
    let again = fixture.send(Method::POST, "/v1/workers", &described).await;
    assert_eq!(again.status, StatusCode::OK);
    let list = async |query: &str| {
        let answer = fixture.get(&format!("/v1/workers{query}")).await.json();
        answer["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|w| w["worker_id"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(list("").await, [1, 2, 3]);
    assert_eq!(list("?model=other").await, [3]);
    assert_eq!(list("?model_name=m&routing_group=default").await, [1, 2]);
    assert_eq!(list("?routing_group=none").await, [0; 0]);

    let changed = fixture
        .send(Method::PATCH, "/v1/workers/3", &json!({ "taints": ["fast"], "lease": null }))
        .await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.text());
    let shown = fixture.get("/v1/workers/3").await.json();
    assert_eq!((&shown["taints"], &shown["lease_ms"]), (&json!(["fast"]), &Value::Null));
    assert_eq!((&shown["origin"], &shown["availability"]), (&json!("api"), &json!("ready")));

    let conflicting = json!({ "worker_id": 4, "endpoint": "http://127.0.0.1:10", "model": MODEL, "block_size": 99 });
    let refused = fixture.send(Method::POST, "/v1/workers", &conflicting).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());

    let gone = fixture.send(Method::DELETE, "/v1/workers/3", &json!({})).await;
    assert_eq!(gone.json(), json!({ "worker_id": 3, "removed": true }));
    let busy = fixture.book().await;
    let id = busy.worker.worker_id;
    let leaving = fixture.send(Method::DELETE, &format!("/v1/workers/{id}"), &json!({})).await;
    assert_eq!(leaving.status, StatusCode::ACCEPTED);
    assert_eq!(leaving.json()["availability"], "draining");
    let forced =
        fixture.send(Method::DELETE, &format!("/v1/workers/{id}?force=true"), &json!({})).await;
    assert_eq!(forced.status, StatusCode::OK);
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn loads_and_metrics_show_what_is_booked() {
    let fixture = Fixture::new().await;
    let decision = fixture.book().await;
    let loads = fixture.get("/v1/loads").await.json();
    let partition = &loads["partitions"][0];
    assert_eq!((&partition["model"], &partition["live_leases"]), (&json!(MODEL), &json!(1)));
    let nobody =
        json!([{ "policy_class": "default", "requests": 0, "isl_tokens": 0, "cached_tokens": 0 }]);
    assert_eq!(partition["pending"], nobody);
    let active: u64 = partition["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["active_requests"].as_u64().unwrap())
        .sum();
    assert_eq!(active, 1);
    let id = decision.worker.worker_id;
    let metrics = fixture.get("/metrics").await.text();
    for line in [
        format!("pointsman_worker_active_requests{{dp_rank=\"0\",model=\"m\",role=\"aggregated\",routing_group=\"default\",worker_id=\"{id}\"}} 1"),
        "pointsman_workers{availability=\"ready\",model=\"m\",role=\"aggregated\",routing_group=\"default\"} 2".to_owned(),
        "pointsman_queue_pending_requests{model=\"m\",policy_class=\"default\",role=\"aggregated\",routing_group=\"default\"} 0".to_owned(),
        "pointsman_policy_decisions_total{model=\"m\",role=\"aggregated\",routing_group=\"default\"} 1".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line}\nin\n{metrics}");
    }
    drop(decision);
    let loads = fixture.get("/v1/loads").await.json();
    assert_eq!(loads["partitions"][0]["live_leases"], 0);
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn a_dry_run_tells_every_row_and_books_nothing() {
    let fixture = Fixture::new().await;
    let facts = json!({ "model": MODEL, "prompt_tokens": 1_000 });
    let answer = fixture.send(Method::POST, "/v1/route", &facts).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let receipt = answer.json();
    assert_eq!(receipt["rows"].as_array().unwrap().len(), 2);
    let body =
        json!({ "model": MODEL, "messages": [{ "role": "user", "content": "hello there" }] });
    let headers = [("x-session-id", "s1"), ("x-worker-instance-id", "2")];
    let sent = fixture.admin.send(Method::POST, "/v1/route", &headers, Some(&body));
    let pinned = sent.await.unwrap().json();
    assert_eq!((&pinned["worker_id"], &pinned["eligible"]), (&json!(2), &json!(1)), "{pinned}");
    assert_eq!(receipt["policy"]["name"], "default");
    assert_eq!(fixture.get("/v1/loads").await.json()["partitions"][0]["live_leases"], 0);
    let stranger = json!({ "model": "nobody's", "prompt_tokens": 1 });
    let answer = fixture.send(Method::POST, "/v1/route", &stranger).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND, "{}", answer.text());
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn a_router_without_a_ready_worker_is_not_ready() {
    let fixture = Fixture::with(config::<&str>(&[])).await;
    let answer = fixture.get("/ready").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.text().contains("no worker is registered"));
    assert_eq!(fixture.get("/health").await.status, StatusCode::OK);
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn policies_are_shown_and_reloaded() {
    let fixture = Fixture::new().await;
    let status = fixture.get("/v1/policies").await.json();
    assert_eq!(status["instances"][0]["name"], "default");
    assert_eq!(status["types"], json!([]));
    let reload = fixture.send(Method::POST, "/v1/policies/reload", &json!({})).await;
    assert_eq!(reload.status, StatusCode::OK, "{}", reload.text());
    assert_eq!(reload.json()["refused"], json!([]));
    fixture.server.shutdown().await;
}
