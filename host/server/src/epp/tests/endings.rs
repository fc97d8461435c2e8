//! What becomes of a request's load, however it ends.

use std::collections::HashMap;

use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Part;
use envoy_types::pb::google::protobuf::Struct;
use pointsman_core::fleet::{Availability, Worker};

use super::gateway::{
    BUFFERED, DESTINATION, DUPLEX, Gateway, STREAMED, chat, chat_head, headers, queue, set,
};
use crate::epp::metadata::tests::{metadata, text};

const EVENTS: &str = "text/event-stream";

fn workers(gateway: &Gateway, availability: Availability) -> Vec<Worker> {
    let workers = gateway.server.app().dispatcher.router().workers();
    workers.into_iter().filter(|worker| worker.availability == availability).collect()
}

#[tokio::test]
async fn the_first_piece_of_an_answer_ends_the_prefill_and_the_last_the_booking() {
    let gateway = Gateway::new().await;
    let (mut exchange, _) = gateway.picked(DUPLEX, &chat()).await;
    assert!(gateway.bookings() == 1 && gateway.prefill() > 0);
    exchange.answers("200", EVENTS).await;
    // Nothing has been computed that a client could read.
    assert_eq!(exchange.answer_piece(b"", false).await.body, b"");
    assert!(gateway.prefill() > 0);
    let piece = b"data: {\"id\":1}\n\n";
    assert_eq!(exchange.answer_piece(piece, false).await.body, piece);
    assert_eq!((gateway.bookings(), gateway.prefill()), (1, 0));
    let last =
        b"data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
    assert!(exchange.answer_piece(last, true).await.end_of_stream);
    assert_eq!(gateway.bookings(), 0);
    let receipts = gateway.server.app().metrics.receipts().recent(1);
    assert_eq!(receipts[0].reported().prompt_tokens, Some(7));
    assert_eq!(receipts[0].reported().completion_tokens, Some(2));
    drop(exchange);
    gateway.comes_to_rest().await;
    let ended = "pointsman_answers_total{outcome=\"completed\",shape=\"stream\"} 1\n";
    assert!(gateway.metrics().contains(ended), "{}", gateway.metrics());
}

#[tokio::test]
async fn a_stream_that_is_lost_gives_the_load_back_wherever_it_is() {
    let gateway = Gateway::new().await;
    for filter in [DUPLEX, STREAMED] {
        // Before the body is whole.
        let mut exchange = gateway.begin(filter).await;
        exchange.head(&chat_head(), false);
        exchange.body(b"{\"messages\":", false);
        drop(exchange);
        gateway.comes_to_rest().await;
    }
    for filter in [DUPLEX, STREAMED, BUFFERED] {
        // With a worker, before its answer.
        let (exchange, _) = gateway.picked(filter, &chat()).await;
        assert_eq!(gateway.bookings(), 1);
        drop(exchange);
        gateway.comes_to_rest().await;
        // In the answer.
        let (mut exchange, _) = gateway.picked(filter, &chat()).await;
        exchange.answers("200", EVENTS).await;
        exchange.answer_body(b"data: {}\n\n", false);
        exchange.reply().await;
        assert_eq!(gateway.bookings(), 1);
        drop(exchange);
        gateway.comes_to_rest().await;
    }
    let aborted = "pointsman_answers_total{outcome=\"aborted\",shape=\"stream\"} 3\n";
    assert!(gateway.metrics().contains(aborted), "{}", gateway.metrics());
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_any_more_leaves_the_line() {
    let gateway = Gateway::with(queue).await;
    let held = [gateway.picked(DUPLEX, &chat()).await, gateway.picked(DUPLEX, &chat()).await];
    let mut waits = gateway.begin(DUPLEX).await;
    waits.head(&chat_head(), false);
    waits.body(chat().to_string().as_bytes(), false);
    let partition = crate::serve::testing::partition();
    let waiting = || {
        let classes = gateway.server.app().dispatcher.classes(&partition);
        classes.iter().map(|class| class.pending.requests).sum::<u64>()
    };
    gateway.eventually(|| waiting() == 1).await;
    drop(waits);
    gateway.eventually(|| waiting() == 0).await;
    drop(held);
    gateway.comes_to_rest().await;
}

#[tokio::test]
async fn a_stream_of_events_that_lacks_its_end_is_given_one_that_says_so() {
    let gateway = Gateway::new().await;
    let (mut exchange, _) = gateway.picked(DUPLEX, &chat()).await;
    exchange.answers("200", EVENTS).await;
    exchange.answer_piece(b"data: {}\n\n", false).await;
    let last = exchange.answer_piece(b"", true).await;
    let told = String::from_utf8(last.body).unwrap();
    assert!(told.contains("upstream_error") && last.end_of_stream, "{told}");
    drop(exchange);
    gateway.comes_to_rest().await;
    let ended = "pointsman_answers_total{outcome=\"truncated\",shape=\"stream\"} 1\n";
    assert!(gateway.metrics().contains(ended), "{}", gateway.metrics());
}

#[tokio::test]
async fn an_answer_without_a_body_ends_with_its_head() {
    let gateway = Gateway::new().await;
    let (mut exchange, _) = gateway.picked(STREAMED, &chat()).await;
    exchange.part(Part::ResponseHeaders(headers(&[(":status", "204")], true)));
    exchange.reply().await;
    assert_eq!(gateway.bookings(), 0);
}

#[tokio::test]
async fn a_worker_that_the_gateway_could_not_reach_gets_nothing_more() {
    let gateway = Gateway::new().await;
    let (mut exchange, head) = gateway.picked(DUPLEX, &chat()).await;
    let picked = set(&head, DESTINATION).unwrap();
    let details = "upstream_reset_before_response_started{remote_connection_failure}";
    let fields = HashMap::from([("response.code_details".to_owned(), text(details))]);
    exchange.part_with(Part::ResponseHeaders(headers(&[(":status", "503")], false)), |message| {
        message.attributes =
            HashMap::from([("envoy.filters.http.ext_proc".to_owned(), Struct { fields })]);
    });
    exchange.reply().await;
    exchange.answer_piece(b"upstream connect error", true).await;
    assert_eq!(gateway.bookings(), 0);
    let lost = workers(&gateway, Availability::Unhealthy);
    assert!(lost.len() == 1 && lost[0].spec.endpoint.ends_with(&picked), "{lost:?} {picked}");
    drop(exchange);
    gateway.comes_to_rest().await;
}

#[tokio::test]
async fn a_worker_that_has_too_much_to_do_is_left_alone_for_a_while() {
    let gateway = Gateway::new().await;
    let (mut exchange, _) = gateway.picked(DUPLEX, &chat()).await;
    exchange.answers("503", "application/json").await;
    exchange.answer_piece(b"{}", true).await;
    assert_eq!(workers(&gateway, Availability::Overloaded).len(), 1);
}

#[tokio::test]
async fn an_answer_from_elsewhere_than_was_picked_is_counted() {
    let gateway = Gateway::new().await;
    for is_elsewhere in [false, true, true] {
        let (mut exchange, head) = gateway.picked(DUPLEX, &chat()).await;
        let picked = set(&head, DESTINATION).unwrap();
        let served = if is_elsewhere { "127.0.0.8:1" } else { &picked };
        let served = text(&format!("127.0.0.7:1, {served}"));
        let key = "x-gateway-destination-endpoint-served";
        exchange
            .part_with(Part::ResponseHeaders(headers(&[(":status", "200")], true)), |message| {
                message.metadata_context = Some(metadata("envoy.lb", key, served))
            });
        exchange.reply().await;
    }
    let counted = "\npointsman_epp_mismatched_endpoints_total 2\n";
    assert!(gateway.metrics().contains(counted), "{}", gateway.metrics());
}

#[tokio::test]
async fn an_answer_of_the_gateways_own_goes_through_before_anything_is_picked() {
    let gateway = Gateway::with(queue).await;
    let held = [gateway.picked(DUPLEX, &chat()).await, gateway.picked(DUPLEX, &chat()).await];
    let waits = chat().to_string();
    // In the middle of a body, and in the line.
    for body in [&b"{\"messages\":"[..], waits.as_bytes()] {
        let mut exchange = gateway.begin(DUPLEX).await;
        exchange.head(&chat_head(), false);
        exchange.body(body, false);
        let head = exchange.answers("408", "text/plain").await;
        assert!(head.header_mutation.is_none(), "{head:?}");
        let piece = exchange.answer_piece(b"too slow", true).await;
        assert_eq!((&*piece.body, piece.end_of_stream), (&b"too slow"[..], true));
    }
    assert_eq!(gateway.bookings(), 2);
    drop(held);
    gateway.comes_to_rest().await;
}

#[tokio::test]
async fn messages_in_no_order_at_all_leave_nothing_behind() {
    let gateway = Gateway::new().await;
    let body = chat().to_string();
    for filter in [DUPLEX, STREAMED, BUFFERED] {
        // An answer first, then a request, then another on the same stream.
        let mut exchange = gateway.begin(filter).await;
        exchange.answers("200", EVENTS).await;
        exchange.answer_body(b"x", true);
        exchange.reply().await;
        exchange.body(b"nobody's", false);
        exchange.reply().await;
        exchange.trailers();
        exchange.reply().await;
        for _ in 0..2 {
            exchange.head(&chat_head(), false);
            exchange.body(body.as_bytes(), true);
            let mut replies = 0;
            while replies < 2 {
                exchange.reply().await;
                replies += 1;
            }
            assert_eq!(gateway.bookings(), 1, "the earlier one was given up");
        }
        exchange.answers("200", EVENTS).await;
        exchange.answers("200", EVENTS).await;
        drop(exchange);
        gateway.comes_to_rest().await;
    }
}
