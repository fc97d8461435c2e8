//! Requests that get no worker, and filters that can't be served.

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::ImmediateResponse;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Part;
use pointsman_core::fleet::Availability;
use serde_json::{Value, json};
use tonic::Code;

use super::gateway::{
    BUFFERED, DUPLEX, Exchange, Filter, Gateway, STREAMED, chat, chat_head, chat_with, headers,
    queue,
};
use crate::config::Secret;

fn header(refused: &ImmediateResponse, name: &str) -> Option<String> {
    let set = &refused.headers.as_ref()?.set_headers;
    let found = set.iter().filter_map(|one| one.header.as_ref()).find(|line| line.key == name)?;
    Some(String::from_utf8(found.raw_value.clone()).unwrap())
}

fn code(refused: &ImmediateResponse) -> i32 {
    refused.status.as_ref().unwrap().code
}

async fn asked(gateway: &Gateway, filter: Filter, body: &[u8]) -> Exchange {
    let mut exchange = gateway.begin(filter).await;
    exchange.head(&chat_head(), false);
    if filter.request == BodySendMode::Buffered {
        exchange.changed_head().await;
    }
    exchange.body(body, true);
    exchange
}

#[tokio::test]
async fn a_refusal_has_the_status_and_the_words_that_the_router_itself_would_answer() {
    let gateway = Gateway::with(|config| config.proxy.max_body = 100_000).await;
    let pinned = chat_with(json!({ "nvext": { "backend_instance_id": 7 } }));
    let large = json!({ "model": "m", "prompt": "x".repeat(100_001) });
    for filter in [DUPLEX, STREAMED, BUFFERED] {
        for (body, status, kind) in [
            ("[1]".to_owned(), 400, "invalid_request"),
            ("{\"model\":".to_owned(), 400, "invalid_request"),
            (json!({ "model": "other", "prompt": "x" }).to_string(), 404, "no_such_model"),
            (large.to_string(), 413, "request_too_large"),
            (pinned.to_string(), 400, "pinned_worker_unavailable"),
        ] {
            let refused = asked(&gateway, filter, body.as_bytes()).await.refused().await;
            let told: Value = serde_json::from_slice(&refused.body).unwrap();
            assert_eq!((code(&refused), &*refused.details), (status, kind), "{filter:?} {told}");
            assert_eq!(told["error"]["type"], kind);
            assert_eq!(header(&refused, "x-request-id").unwrap(), "its-own");
            assert_eq!(header(&refused, "content-type").unwrap(), "application/json");
            assert_eq!(header(&refused, "connection"), None);
        }
    }
    gateway.comes_to_rest().await;
    let refused = "pointsman_epp_refused_total{kind=\"no_such_model\"} 3\n";
    assert!(gateway.metrics().contains(refused), "{}", gateway.metrics());
}

#[tokio::test]
async fn a_body_for_a_model_that_nobody_serves_is_not_read_on() {
    let gateway = Gateway::new().await;
    for filter in [DUPLEX, STREAMED] {
        let mut exchange = gateway.begin(filter).await;
        exchange.head(&chat_head(), false);
        exchange.body(b"{\"model\": \"oth", false);
        exchange.body(b"er\", \"prompt\": \"and so on", false);
        let refused = exchange.refused().await;
        assert_eq!((code(&refused), &*refused.details), (404, "no_such_model"));
    }
    gateway.comes_to_rest().await;
}

#[tokio::test]
async fn where_nobody_can_take_it_the_client_is_told_when_to_come_again() {
    let gateway = Gateway::new().await;
    let router = gateway.server.app().dispatcher.router().clone();
    for worker in router.workers() {
        router.set_availability(worker.spec.worker_id, Availability::Overloaded).unwrap();
    }
    let refused = asked(&gateway, DUPLEX, chat().to_string().as_bytes()).await.refused().await;
    // 529 is a status that gateways don't know.
    assert_eq!(code(&refused), 429, "{}", refused.details);
    assert_eq!(header(&refused, "retry-after").unwrap(), "1");
}

#[tokio::test]
async fn a_request_that_would_have_to_wait_and_does_not_want_to_is_429() {
    let gateway = Gateway::with(queue).await;
    let held = [gateway.picked(DUPLEX, &chat()).await, gateway.picked(DUPLEX, &chat()).await];
    let body = chat_with(json!({ "nvext": { "do_not_queue": true } }));
    let refused = asked(&gateway, DUPLEX, body.to_string().as_bytes()).await.refused().await;
    assert_eq!(code(&refused), 429, "{}", refused.details);
    assert_eq!(header(&refused, "retry-after").unwrap(), "1");
    drop(held);
    gateway.comes_to_rest().await;
}

#[tokio::test]
async fn a_filter_that_leaves_no_way_to_pick_is_refused_with_what_to_set() {
    use BodySendMode::{BufferedPartial, FullDuplexStreamed, Grpc, None};
    let gateway = Gateway::new().await;
    let of = |request, answer| Filter { request, answer };
    for (filter, words) in [
        (of(BufferedPartial, FullDuplexStreamed), "request_body_mode is BUFFERED_PARTIAL"),
        (of(FullDuplexStreamed, None), "response_body_mode is NONE"),
        (of(Grpc, Grpc), "request_body_mode is GRPC"),
        (of(None, FullDuplexStreamed), "request_body_mode is NONE"),
    ] {
        let mut exchange = gateway.begin(filter).await;
        exchange.head(&chat_head(), false);
        let status = exchange.failed().await;
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains(words), "{}", status.message());
    }
    let head = headers(&chat_head(), false);
    let mut exchange = gateway.begin(STREAMED).await;
    exchange.part_with(Part::RequestHeaders(head.clone()), |message| {
        let filter = message.protocol_config.as_mut().unwrap();
        filter.send_body_without_waiting_for_header_response = false;
    });
    assert!(exchange.failed().await.message().contains("send_body_without_waiting"));
    let mut exchange = gateway.begin(DUPLEX).await;
    exchange.part_with(Part::RequestHeaders(head), |message| message.observability_mode = true);
    assert!(exchange.failed().await.message().contains("observability_mode"));
    drop(exchange);
    gateway.comes_to_rest().await;
}

#[tokio::test]
async fn a_gateway_without_the_token_gets_no_pick() {
    let gateway = Gateway::with(|config| {
        config.epp.as_mut().unwrap().listener.tokens = vec![Secret("gateway".to_owned())];
    })
    .await;
    for token in [None, Some("another")] {
        let Err(status) = gateway.begin_with(DUPLEX, token).await else { panic!("a refusal") };
        assert_eq!(status.code(), Code::Unauthenticated);
    }
    let mut exchange = gateway.begin_with(DUPLEX, Some("gateway")).await.unwrap();
    exchange.head(&[(":method", "GET"), (":path", "/v1/models")], true);
    exchange.changed_head().await;
}

#[tokio::test]
async fn a_message_that_can_not_be_read_does_not_end_its_stream_as_if_all_had_been_said() {
    let gateway = Gateway::with(|config| config.proxy.max_body = 100_000).await;
    let mut exchange = gateway.begin(DUPLEX).await;
    let large = "x".repeat(2_000_000);
    let mut head = chat_head();
    head.push(("x-large", &large));
    exchange.head(&head, false);
    assert_eq!(exchange.failed().await.code(), Code::OutOfRange);
    drop(exchange);
    gateway.comes_to_rest().await;
}

#[tokio::test]
async fn a_head_that_is_larger_than_any_gateway_takes_ends_its_stream_and_gives_all_back() {
    let gateway = Gateway::new().await;
    let value = "x".repeat(600_000);
    let more = [("x-first", &*value), ("x-second", &*value)];
    let mut exchange = gateway.begin(DUPLEX).await;
    exchange.head(&[&chat_head()[..], &more].concat(), false);
    let told = exchange.failed().await;
    assert_eq!(told.code(), Code::ResourceExhausted, "{told}");
    assert!(told.message().contains("a head has 1200"), "{told}");
    // One of an answer, too.
    let (mut exchange, _) = gateway.picked(DUPLEX, &chat()).await;
    assert_eq!(gateway.bookings(), 1);
    exchange.part(Part::ResponseHeaders(headers(&more, false)));
    assert_eq!(exchange.failed().await.code(), Code::ResourceExhausted);
    gateway.comes_to_rest().await;
}
