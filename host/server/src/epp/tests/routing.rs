//! Who is picked, and what the worker is told.

use serde_json::json;

use super::gateway::{DESTINATION, DUPLEX, Exchange, Gateway, chat, chat_head, chat_with, set};
use crate::config::Secret;
use crate::epp::metadata::tests::{metadata, text};

const HINT: (&str, &str) = ("envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset");

async fn hinted(gateway: &Gateway, hint: &str) -> Exchange {
    let mut exchange = gateway.begin(DUPLEX).await;
    exchange.head_with(&chat_head(), false, metadata(HINT.0, HINT.1, text(hint)));
    exchange.body(chat().to_string().as_bytes(), true);
    exchange
}

#[tokio::test]
async fn a_pick_is_among_those_that_the_gateway_names() {
    let gateway = Gateway::new().await;
    let mut open = Vec::new();
    for hint in ["127.0.0.2:9", "127.0.0.2", "10.0.0.1:80,127.0.0.2:9"] {
        for _ in 0..4 {
            let mut exchange = hinted(&gateway, hint).await;
            let head = exchange.changed_head().await;
            assert_eq!(set(&head, DESTINATION).unwrap(), "127.0.0.2:9", "{hint}");
            // The load stays, and still the other one isn't picked.
            open.push(exchange);
        }
    }
}

#[tokio::test]
async fn a_hint_that_names_no_worker_leaves_nobody_and_is_never_widened() {
    let gateway = Gateway::new().await;
    for hint in ["127.0.0.3:9", "127.0.0.1:10", "nonsense", ""] {
        let refused = hinted(&gateway, hint).await.refused().await;
        assert_eq!(refused.status.unwrap().code, 503, "{hint}");
    }
    // Nor for a request that has no body.
    let mut exchange = gateway.begin(DUPLEX).await;
    let nobody = metadata(HINT.0, HINT.1, text("127.0.0.3:9"));
    exchange.head_with(&[(":method", "GET"), (":path", "/v1/models")], true, nobody);
    assert_eq!(exchange.refused().await.status.unwrap().code, 503);
    drop(exchange);
    gateway.comes_to_rest().await;
}

#[tokio::test]
async fn what_clients_say_of_routing_goes_no_further_and_decides_nothing() {
    let gateway = Gateway::new().await;
    let mut exchange = gateway.begin(DUPLEX).await;
    let mut lines = chat_head();
    lines.extend([
        (HINT.1, "127.0.0.3:9"),
        (DESTINATION, "127.0.0.3:9"),
        ("x-gateway-destination-endpoint-served", "127.0.0.3:9"),
        ("x-prefiller-host-port", "127.0.0.3:9"),
    ]);
    exchange.head(&lines, false);
    exchange.body(chat().to_string().as_bytes(), true);
    let head = exchange.changed_head().await;
    assert_ne!(set(&head, DESTINATION).unwrap(), "127.0.0.3:9");
    let removed = head.header_mutation.unwrap().remove_headers;
    for name in [
        "x-gateway-destination-endpoint-subset",
        "x-gateway-destination-endpoint-served",
        "x-gateway-inference-fairness-id",
        "x-gateway-inference-objective",
        "x-gateway-model-name-rewrite",
        "x-prefiller-host-port",
    ] {
        assert!(removed.iter().any(|one| one == name), "{name}");
    }
}

#[tokio::test]
async fn the_worker_is_told_its_rank_and_the_configured_token_and_the_client_who_decided() {
    let gateway = Gateway::with(|config| {
        config.proxy.worker_token = Some(Secret("w".to_owned()));
        config.workers.truncate(1);
        config.workers[0].data_parallel_size = 2.try_into().unwrap();
    })
    .await;
    let body = chat_with(json!({ "nvext": { "backend_instance_id": 1, "dp_rank": 1 } }));
    let (mut exchange, head) = gateway.picked(DUPLEX, &body).await;
    assert_eq!(set(&head, "x-data-parallel-rank").unwrap(), "1");
    assert_eq!(set(&head, "authorization").unwrap(), "Bearer w");
    assert_eq!(set(&head, "x-request-id").unwrap(), "its-own");
    let told = exchange.answers("200", "application/json").await;
    assert_eq!(set(&told, "x-pointsman-worker").unwrap(), "1/1");
    assert_eq!(set(&told, "x-request-id").unwrap(), "its-own");
    assert!(set(&told, "x-pointsman-policy").is_some());
    assert!(set(&told, "x-pointsman-decision-id").is_some());
}
