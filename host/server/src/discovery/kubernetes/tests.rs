//! A pool that is followed at a small API server over HTTP.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod manifest;
mod server;

use std::collections::BTreeSet;

use serde_json::json;

use super::super::testing::{self, becomes, endpoints, until};
use crate::config::{DiscoveryConfig, KubernetesConfig};
use crate::serve::Server;
use crate::serve::testing::like;
use server::{ApiServer, Mood, pod};

async fn following(api: &ApiServer) -> Server {
    let kubernetes = KubernetesConfig {
        pool: "models".to_owned(),
        namespace: Some("serving".to_owned()),
        api_version: "inference.networking.k8s.io/v1".to_owned(),
        server: Some(api.url()),
        like: like(),
    };
    let discovery = DiscoveryConfig { kubernetes: Some(kubernetes), ..DiscoveryConfig::default() };
    testing::following(discovery).await
}

#[tokio::test]
async fn a_pools_ready_pods_are_workers_as_they_come_and_go() {
    let api = ApiServer::start().await;
    api.pool(Some(json!({ "selector": { "matchLabels": { "app": "engine" } }, "targetPorts": [{ "number": 8000 }] })));
    api.pod("a", Some(pod("10.0.0.1", true)));
    api.pod("b", Some(pod("10.0.0.2", false)));
    let mut other = pod("10.0.0.9", true);
    other["metadata"]["labels"]["app"] = json!("other");
    api.pod("other", Some(other));
    let server = following(&api).await;
    becomes(&server, &["http://10.0.0.1:8000"]).await;
    // One gets ready, one comes.
    api.pod("b", Some(pod("10.0.0.2", true)));
    api.pod("c", Some(pod("10.0.0.3", true)));
    becomes(&server, &["http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000"])
        .await;
    // One isn't ready any more, one is being deleted, one is gone.
    api.pod("a", Some(pod("10.0.0.1", false)));
    let mut leaving = pod("10.0.0.2", true);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.pod("b", Some(leaving));
    becomes(&server, &["http://10.0.0.3:8000"]).await;
    // One that gets ready again is who it was; another pod of the same name is another worker.
    let its_id = || server.app().dispatcher.router().workers().last().unwrap().spec.worker_id;
    let before = its_id();
    api.pod("c", Some(pod("10.0.0.3", false)));
    becomes(&server, &[]).await;
    api.pod("c", Some(pod("10.0.0.3", true)));
    becomes(&server, &["http://10.0.0.3:8000"]).await;
    assert_eq!(its_id(), before);
    api.pod("c", None);
    becomes(&server, &[]).await;
    api.pod("c", Some(pod("10.0.0.3", true)));
    becomes(&server, &["http://10.0.0.3:8000"]).await;
    assert_ne!(its_id(), before);
    server.shutdown().await;
}

#[tokio::test]
async fn a_watch_that_breaks_or_is_too_old_is_begun_anew_and_misses_nothing() {
    let api = ApiServer::start().await;
    api.pool(Some(json!({ "selector": { "matchLabels": { "app": "engine" } }, "targetPorts": [{ "number": 8000 }] })));
    api.pod("a", Some(pod("10.0.0.1", true)));
    let server = following(&api).await;
    becomes(&server, &["http://10.0.0.1:8000"]).await;
    // Nobody can be asked: the workers stay.
    api.is(Mood::Fails);
    api.cut();
    api.pod("a", None);
    api.pod("b", Some(pod("10.0.0.2", true)));
    api.asked_again().await;
    assert_eq!(endpoints(&server), BTreeSet::from(["http://10.0.0.1:8000".to_owned()]));
    // What has happened meanwhile is forgotten there, so that all is listed again.
    api.forget_events();
    api.is(Mood::Well);
    becomes(&server, &["http://10.0.0.2:8000"]).await;
    server.shutdown().await;
}

#[tokio::test]
async fn another_selector_or_port_and_a_pool_that_is_gone_are_heeded() {
    let api = ApiServer::start().await;
    api.pod("a", Some(pod("10.0.0.1", true)));
    let mut other = pod("10.0.0.2", true);
    other["metadata"]["labels"]["app"] = json!("other");
    api.pod("b", Some(other));
    let server = following(&api).await;
    api.pool(Some(json!({ "selector": { "matchLabels": { "app": "engine" } }, "targetPorts": [{ "number": 8000 }, { "number": 8001 }] })));
    becomes(&server, &["http://10.0.0.1:8000", "http://10.0.0.1:8001"]).await;
    // The shape of earlier versions.
    api.pool(Some(json!({ "selector": { "app": "other" }, "targetPortNumber": 9000 })));
    becomes(&server, &["http://10.0.0.2:9000"]).await;
    // It would select everybody.
    api.pool(Some(
        json!({ "selector": { "matchLabels": {} }, "targetPorts": [{ "number": 8000 }] }),
    ));
    becomes(&server, &[]).await;
    api.pool(Some(json!({ "selector": { "app": "other" }, "targetPortNumber": 9000 })));
    becomes(&server, &["http://10.0.0.2:9000"]).await;
    api.pool(None);
    becomes(&server, &[]).await;
    server.shutdown().await;
}

#[tokio::test]
async fn the_way_to_an_api_server_over_tls_finds_its_cryptography() {
    let config = KubernetesConfig {
        pool: "models".to_owned(),
        namespace: None,
        api_version: "inference.networking.k8s.io/v1".to_owned(),
        server: Some("https://127.0.0.1:6443".to_owned()),
        like: like(),
    };
    // It panics where there are two sorts, or none; a system without roots of trust is another matter.
    match super::try_client(&config).await {
        Ok((_, namespace)) => assert_eq!(namespace, "default"),
        Err(error) => assert!(error.to_string().contains("root"), "{error}"),
    }
}

#[tokio::test]
async fn a_pool_that_is_missing_is_told_to_who_asks_whether_the_router_is_ready() {
    let api = ApiServer::start().await;
    let server = following(&api).await;
    let told = || format!("{:?}", server.app().workers.unheard());
    until(|| told().contains("no such pool"), || format!("no pool: {}", told())).await;
    api.pod("a", Some(pod("10.0.0.1", true)));
    api.pool(Some(
        json!({ "selector": { "matchLabels": { "app": "engine" } }, "targetPorts": [{ "number": 8000 }] }),
    ));
    becomes(&server, &["http://10.0.0.1:8000"]).await;
    until(|| told() == "{}", told).await;
    server.shutdown().await;
}

/// An API server with a pool and a pod of it, and a router that follows.
async fn followed() -> (ApiServer, Server) {
    let api = ApiServer::start().await;
    api.pool(Some(
        json!({ "selector": { "matchLabels": { "app": "engine" } }, "targetPorts": [{ "number": 8000 }] }),
    ));
    api.pod("a", Some(pod("10.0.0.1", true)));
    let server = following(&api).await;
    becomes(&server, &["http://10.0.0.1:8000"]).await;
    until(|| told(&server) == "{}", || told(&server)).await;
    (api, server)
}

/// Who can't be heard.
fn told(server: &Server) -> String {
    format!("{:?}", server.app().workers.unheard())
}

#[tokio::test]
async fn an_api_server_that_fails_is_told_until_it_answers_again_though_nothing_has_happened() {
    for mood in [Mood::Fails, Mood::Forbids, Mood::EndsWatches] {
        let (api, server) = followed().await;
        api.is(mood);
        api.cut();
        let tells = |what: &str| told(&server).contains(what);
        until(
            || tells("doesn't tell of its pool") && tells("doesn't tell of its pods"),
            || format!("{mood:?}: {}", told(&server)),
        )
        .await;
        // Whoever asks needs no token, so the server's own words are for the log.
        assert!(!tells("serviceaccount"), "{mood:?}: {}", told(&server));
        assert!(api.asked() < 20, "{mood:?}: it is asked without a pause, {} times", api.asked());
        api.is(Mood::Well);
        until(|| told(&server) == "{}", || format!("{mood:?}: {}", told(&server))).await;
        assert_eq!(endpoints(&server), BTreeSet::from(["http://10.0.0.1:8000".to_owned()]));
        server.shutdown().await;
    }
}

#[tokio::test]
async fn a_version_that_is_too_old_is_listed_anew_whichever_way_the_server_says_it() {
    let (api, server) = followed().await;
    api.is(Mood::Gone);
    api.cut();
    api.pod("a", None);
    api.pod("b", Some(pod("10.0.0.2", true)));
    // It lists, so that is known, whatever it says of watches.
    becomes(&server, &["http://10.0.0.2:8000"]).await;
    server.shutdown().await;
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_at_all_is_told_from_the_start() {
    let api = ApiServer::start().await;
    api.is(Mood::Hangs);
    let server = following(&api).await;
    let told = || told(&server);
    until(|| told().contains("hasn't told of its pool yet"), told).await;
    server.shutdown().await;
}
