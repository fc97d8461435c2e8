//! A router that has met thousands of names is as small as one that has met none of them.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::Method;
use pointsman_core::ids::WorkerId;
use pointsman_core::router::Retention;
use serde_json::json;

use super::*;
use crate::load_client::{Ask, LoadClient};
use crate::mock_engine::{MockConfig, MockEngine};
use crate::serve::Server;
use crate::serve::testing::config;

/// Nothing listens there.
const NOBODY: &str = "http://127.0.0.1:9";

async fn start() -> (Server, LoadClient) {
    let server = Server::start(config(&[NOBODY]), None).await.unwrap();
    let admin = LoadClient::new(server.admin_addr());
    (server, admin)
}

/// What operators see, without what every scrape or probe changes.
async fn seen(admin: &LoadClient) -> Vec<String> {
    let mut seen = Vec::new();
    for path in ["/metrics", "/v1/loads", "/v1/policies"] {
        let answer = admin.get(path).await.unwrap();
        assert!(answer.status.is_success(), "{}", answer.text());
        // The connections are this client's own.
        let text = answer.text();
        let lasting = text.lines().filter(|line| !line.starts_with("pointsman_connections{"));
        seen.extend(lasting.map(str::to_owned));
    }
    seen
}

/// Lets a vacant partition's time pass.
async fn long_after(app: &App) {
    // The first look finds it, the second finds its time over.
    look(app, Duration::from_secs(1)).await;
    look(app, Duration::from_secs(1) + Retention::STANDARD.keep).await;
}

/// Registers worker n and lets it go, for each n, a few at a time.
async fn come_and_go(admin: &LoadClient, numbers: std::ops::Range<u64>, grouped: bool) {
    let all = numbers.map(|n| async move {
        let model = if grouped { "m".to_owned() } else { format!("model-{n}") };
        let worker = json!({ "worker_id": n, "endpoint": NOBODY, "model": model });
        let added = admin.post("/v1/workers", &worker).await?;
        assert!(added.is_good(), "{}", added.text());
        let path = format!("/v1/workers/{n}");
        let gone = admin.send(Method::DELETE, &path, &[], None).await?;
        assert!(gone.is_good(), "{}", gone.text());
        anyhow::Ok(())
    });
    stream::iter(all).buffer_unordered(8).try_collect::<()>().await.unwrap();
}

#[tokio::test]
async fn two_thousand_models_come_and_go_and_nothing_is_left_of_them() {
    let (server, admin) = start().await;
    let before = seen(&admin).await;
    come_and_go(&admin, 100..2_100, false).await;
    let app = server.app();
    let partitions = || app.dispatcher.router().partitions().len();
    assert!(partitions() > 1 && partitions() <= 2 + Retention::STANDARD.most + 8);
    long_after(app).await;
    assert_eq!(partitions(), 1);
    assert_eq!(seen(&admin).await, before);
    server.shutdown().await;
}

#[tokio::test]
async fn five_thousand_workers_come_and_go_and_nothing_is_left_of_them() {
    let (server, admin) = start().await;
    let before = seen(&admin).await;
    come_and_go(&admin, 100..5_100, true).await;
    // At once, and not in time: a worker that has left is nobody.
    assert_eq!(seen(&admin).await, before);
    let app = server.app();
    assert_eq!(app.workers.workers().len(), 1);
    assert_eq!(app.dispatcher.router().workers().len(), 1);
    server.shutdown().await;
}

#[tokio::test]
async fn a_forgotten_model_is_no_model_and_what_was_counted_for_it_is_gone() {
    let (server, admin) = start().await;
    let engine =
        MockEngine::start(MockConfig { models: vec!["brief".to_owned()], ..MockConfig::default() })
            .unwrap();
    let public = LoadClient::new(server.public_addr());
    let ask = async |model: &str| {
        let answer = public.ask(&Ask::new(model, "hello")).await.unwrap();
        (answer.status.as_u16(), answer.text().replace(model, "it"))
    };
    let never = ask("never").await;
    let worker = json!({ "worker_id": 2, "endpoint": engine.url(), "model": "brief" });
    assert!(admin.post("/v1/workers", &worker).await.unwrap().is_good());
    assert_eq!(ask("brief").await.0, 200);
    let counted = async || seen(&admin).await.iter().filter(|line| line.contains("brief")).count();
    assert!(counted().await > 10);
    assert!(
        admin.send(Method::DELETE, "/v1/workers/2?force=true", &[], None).await.unwrap().is_good()
    );
    // Kept for a while: its worker may be starting anew.
    look(server.app(), Duration::ZERO).await;
    assert!(counted().await > 10);
    assert_ne!(ask("brief").await, never);
    long_after(server.app()).await;
    assert_eq!(counted().await, 0);
    assert_eq!(ask("brief").await, never);
    assert_eq!(counted().await, 0);
    server.shutdown().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn the_task_looks_by_itself_until_it_is_stopped() {
    let (server, _) = start().await;
    let (app, stop) = (server.app(), CancellationToken::new());
    let router = app.dispatcher.router().clone();
    let looks = AtomicU32::new(0);
    // A minute of this clock is a millisecond of ours.
    let passed = || Duration::from_secs(60) * looks.fetch_add(1, Ordering::Relaxed);
    let looking = look_every(Duration::from_millis(1), passed, app, &stop);
    let watching = async {
        let until = async |enough: &dyn Fn() -> bool| {
            while !enough() {
                tokio::task::yield_now().await;
            }
        };
        until(&|| looks.load(Ordering::Relaxed) > 20).await;
        assert_eq!(router.partitions().len(), 1);
        router.remove_worker(WorkerId(1)).unwrap();
        until(&|| router.partitions().is_empty()).await;
        stop.cancel();
    };
    let both = async { tokio::join!(looking, watching) };
    assert!(tokio::time::timeout(Duration::from_secs(10), both).await.is_ok());
    // Which waits for the router's own.
    server.shutdown().await;
}
