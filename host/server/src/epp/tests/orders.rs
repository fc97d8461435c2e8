//! In which order parts are answered, mode by mode.

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Part;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Reply;
use envoy_types::pb::google::protobuf::value::Kind;
use serde_json::json;

use super::gateway::{
    BUFFERED, DESTINATION, DUPLEX, Filter, Gateway, STREAMED, WORKERS, chat, chat_head, headers,
    set,
};
use crate::serve::testing::MODEL;

fn is_a_worker(destination: &str) -> bool {
    WORKERS.iter().any(|worker| worker.strip_prefix("http://") == Some(destination))
}

fn long_body(bytes: usize) -> Vec<u8> {
    let text = "so it goes. ".repeat(bytes / 12);
    let body = json!({ "messages": [{ "role": "user", "content": text }], "model": MODEL });
    body.to_string().into_bytes()
}

#[tokio::test]
async fn in_full_duplex_the_body_follows_the_head_as_it_was_in_pieces_that_gateways_take() {
    let gateway = Gateway::new().await;
    for size in [1_000, 220_000, 2_000_000] {
        let body = long_body(size);
        let mut exchange = gateway.begin(DUPLEX).await;
        exchange.head(&chat_head(), false);
        let pieces: Vec<&[u8]> = body.chunks(16_384).collect();
        for (at, piece) in (1..).zip(&pieces) {
            exchange.body(piece, at == pieces.len());
        }
        let message = exchange.next().await.unwrap().unwrap();
        let Some(Reply::RequestHeaders(head)) = message.response else { panic!("a head") };
        let head = head.response.unwrap();
        let destination = set(&head, DESTINATION).unwrap();
        assert!(is_a_worker(&destination) && head.clear_route_cache, "{destination}");
        let metadata = message.dynamic_metadata.unwrap();
        let Some(Kind::StructValue(inner)) = &metadata.fields["envoy.lb"].kind else {
            panic!("{metadata:?}")
        };
        assert_eq!(inner.fields[DESTINATION].kind, Some(Kind::StringValue(destination)));
        let pieces = exchange.request_pieces(true).await;
        assert!(pieces.iter().all(|piece| piece.body.len() <= 62_000));
        let whole: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.body).collect();
        assert!(whole == body, "the body goes on as it was");
    }
    gateway.comes_to_rest().await;
    let metrics = gateway.metrics();
    assert!(metrics.contains("pointsman_epp_pick_seconds_count 3\n"), "{metrics}");
    assert!(metrics.contains("pointsman_epp_own_seconds_count 3\n"), "{metrics}");
    assert!(metrics.contains("\npointsman_epp_body_bytes 0\n"), "{metrics}");
}

#[tokio::test]
async fn a_request_is_decided_as_soon_as_its_object_is_whole_and_what_follows_goes_through() {
    let gateway = Gateway::new().await;
    let mut exchange = gateway.begin(DUPLEX).await;
    exchange.head(&chat_head(), false);
    exchange.body(chat().to_string().as_bytes(), false);
    exchange.changed_head().await;
    assert!(!exchange.request_pieces(false).await[0].end_of_stream);
    exchange.body(b"  ", false);
    exchange.body(b"", true);
    let rest = exchange.request_pieces(true).await;
    assert_eq!((&*rest[0].body, rest.len(), rest[1].end_of_stream), (&b"  "[..], 2, true));
}

#[tokio::test]
async fn trailers_are_answered_after_the_body() {
    let gateway = Gateway::new().await;
    let mut exchange = gateway.begin(DUPLEX).await;
    exchange.head(&chat_head(), false);
    let body = chat().to_string().replace('}', "");
    // No object ever ends here, so that the trailers end the body.
    exchange.body(body.as_bytes(), false);
    exchange.trailers();
    assert_eq!(exchange.refused().await.status.unwrap().code, 400);
    let mut exchange = gateway.begin(DUPLEX).await;
    exchange.head(&[(":method", "POST"), (":path", "/v1/audio")], false);
    exchange.body(b"no object", false);
    exchange.trailers();
    exchange.changed_head().await;
    assert_eq!(exchange.request_pieces(false).await[0].body, b"no object");
    assert!(matches!(exchange.reply().await, Reply::RequestTrailers(_)));
}

#[tokio::test]
async fn in_streamed_mode_each_piece_is_answered_once_and_none_is_changed() {
    let gateway = Gateway::new().await;
    let body = long_body(220_000);
    let mut exchange = gateway.begin(STREAMED).await;
    exchange.head(&chat_head(), false);
    let pieces: Vec<&[u8]> = body.chunks(65_536).collect();
    for (at, piece) in (1..).zip(&pieces) {
        exchange.body(piece, at == pieces.len());
    }
    let head = exchange.changed_head().await;
    assert!(is_a_worker(&set(&head, DESTINATION).unwrap()));
    for _ in &pieces {
        let Reply::RequestBody(reply) = exchange.reply().await else { panic!("a body") };
        assert!(reply.response.unwrap().body_mutation.is_none());
    }
    // The answer to the answer's head comes next: nothing was answered twice.
    exchange.answers("200", "application/json").await;
    exchange.answer_body(b"{}", true);
    let Reply::ResponseBody(reply) = exchange.reply().await else { panic!("a body") };
    assert!(reply.response.unwrap().body_mutation.is_none());
    drop(exchange);
    gateway.comes_to_rest().await;
}

#[tokio::test]
async fn in_buffered_mode_the_pick_is_said_with_the_body() {
    let gateway = Gateway::new().await;
    let mut exchange = gateway.begin(BUFFERED).await;
    exchange.head(&chat_head(), false);
    let head = exchange.changed_head().await;
    assert_eq!(set(&head, DESTINATION), None);
    assert!(head.header_mutation.unwrap().remove_headers.len() >= 6);
    exchange.body(&long_body(2_000_000), true);
    let message = exchange.next().await.unwrap().unwrap();
    let Some(Reply::RequestBody(body)) = message.response else { panic!("a body") };
    let body = body.response.unwrap();
    assert!(is_a_worker(&set(&body, DESTINATION).unwrap()) && body.clear_route_cache);
    assert!(body.body_mutation.is_none() && message.dynamic_metadata.is_some());
}

#[tokio::test]
async fn a_request_without_a_body_goes_to_any_worker_whatever_the_mode() {
    let gateway = Gateway::new().await;
    let none = Filter { request: BodySendMode::None, answer: BodySendMode::Streamed };
    for filter in [DUPLEX, STREAMED, BUFFERED, none] {
        let mut exchange = gateway.begin(filter).await;
        exchange.head(&[(":method", "GET"), (":path", "/v1/models")], true);
        let head = exchange.changed_head().await;
        assert!(is_a_worker(&set(&head, DESTINATION).unwrap()), "{filter:?}");
    }
    gateway.comes_to_rest().await;
}

#[tokio::test]
async fn a_filter_that_says_nothing_of_its_modes_is_answered_as_in_full_duplex() {
    let gateway = Gateway::new().await;
    let mut exchange = gateway.begin(DUPLEX).await;
    let head = Part::RequestHeaders(headers(&chat_head(), false));
    exchange.part_with(head, |message| message.protocol_config = None);
    exchange.body(chat().to_string().as_bytes(), true);
    assert!(set(&exchange.changed_head().await, DESTINATION).is_some());
    assert!(exchange.request_pieces(true).await[0].end_of_stream);
}

#[tokio::test]
async fn a_body_of_very_many_pieces_is_answered_piece_by_piece_out_of_a_count() {
    let gateway = Gateway::new().await;
    let body = long_body(20_000);
    for filter in [DUPLEX, STREAMED] {
        let mut exchange = gateway.begin(filter).await;
        exchange.head(&chat_head(), false);
        for at in 0..body.len() {
            exchange.body(&body[at..=at], at + 1 == body.len());
        }
        let head = exchange.changed_head().await;
        assert!(is_a_worker(&set(&head, DESTINATION).unwrap()));
        if filter.request == STREAMED.request {
            for _ in 0..body.len() {
                let Reply::RequestBody(reply) = exchange.reply().await else { panic!("a body") };
                assert!(reply.response.unwrap().body_mutation.is_none());
            }
        } else {
            let pieces = exchange.request_pieces(true).await;
            let whole: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.body).collect();
            assert_eq!(whole, body);
        }
        drop(exchange);
        gateway.comes_to_rest().await;
    }
}
