//! A gateway: what Envoy sends, message by message, and what comes back.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue, Metadata};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Part;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Reply;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    CommonResponse, HttpBody, HttpHeaders, HttpTrailers, ImmediateResponse, ProcessingRequest,
    ProcessingResponse, ProtocolConfiguration, StreamedBodyResponse,
};
use futures_util::stream;
use pointsman_core::queue::{Profile, QueuePolicy, QueueSettings};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::config::{Config, EppConfig, Listener};
use crate::serve::Server;
use crate::serve::testing::{MODEL, config, partition};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the workers are said to listen.
pub(super) const WORKERS: [&str; 2] = ["http://127.0.0.1:9", "http://127.0.0.2:9"];

pub(super) const DESTINATION: &str = "x-gateway-destination-endpoint";

pub(super) const DUPLEX: Filter = Filter::all(BodySendMode::FullDuplexStreamed);
pub(super) const STREAMED: Filter = Filter::all(BodySendMode::Streamed);
pub(super) const BUFFERED: Filter = Filter::all(BodySendMode::Buffered);

/// What a filter is configured to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    pub(super) request: BodySendMode,
    pub(super) answer: BodySendMode,
}

impl Filter {
    const fn all(mode: BodySendMode) -> Self {
        Self { request: mode, answer: mode }
    }
}

/// A router with a picker, and a gateway's connection to it.
pub(super) struct Gateway {
    pub(super) server: Server,
    pub(super) channel: Channel,
}

/// Has every request wait while its worker has one without a first token.
pub(super) fn queue(config: &mut Config) {
    let default = Arc::new(Profile::of_threshold(Some(0.0), QueuePolicy::default()));
    config.queue = Arc::new(QueueSettings { default, ..QueueSettings::default() });
}

impl Gateway {
    pub(super) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let listener = Listener::on(([127, 0, 0, 1], 0).into());
        let mut config = Config { epp: Some(EppConfig { listener }), ..config(&WORKERS) };
        change(&mut config);
        let server = Server::start(config, None).await.unwrap();
        let address = server.epp_addr().unwrap();
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
        Self { server, channel: channel.connect().await.unwrap() }
    }

    pub(super) async fn begin(&self, filter: Filter) -> Exchange {
        self.begin_with(filter, None).await.unwrap()
    }

    pub(super) async fn begin_with(
        &self,
        filter: Filter,
        token: Option<&str>,
    ) -> Result<Exchange, Status> {
        let (send, mut sent) = mpsc::unbounded_channel();
        let mut request = tonic::Request::new(stream::poll_fn(move |cx| sent.poll_recv(cx)));
        if let Some(token) = token {
            let token = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", token);
        }
        let mut client = ExternalProcessorClient::new(self.channel.clone());
        let received = client.process(request).await?.into_inner();
        Ok(Exchange { send, received, filter: Some(filter) })
    }

    /// A whole chat request in one piece, up to the word where it goes.
    pub(super) async fn picked(&self, filter: Filter, body: &Value) -> (Exchange, CommonResponse) {
        let mut exchange = self.begin(filter).await;
        exchange.head(&chat_head(), false);
        let buffered = filter.request == BodySendMode::Buffered;
        if buffered {
            exchange.changed_head().await;
        }
        exchange.body(body.to_string().as_bytes(), true);
        if buffered {
            let Reply::RequestBody(reply) = exchange.reply().await else { panic!("a body") };
            return (exchange, reply.response.unwrap());
        }
        let head = exchange.changed_head().await;
        exchange.request_pieces(true).await;
        (exchange, head)
    }

    /// Bookings that have not been given back.
    pub(super) fn bookings(&self) -> u64 {
        let router = self.server.app().dispatcher.router();
        router.partitions().iter().map(|partition| partition.ledger().live_leases()).sum()
    }

    /// Prompt tokens that are booked.
    pub(super) fn prefill(&self) -> u64 {
        let dispatcher = &self.server.app().dispatcher;
        let partition = dispatcher.router().partition(&partition()).unwrap();
        let loads = partition.ledger().loads_at(dispatcher.clock().now_ms());
        loads.iter().map(|row| row.active_prefill_tokens).sum()
    }

    pub(super) async fn comes_to_rest(&self) {
        let at_rest = || {
            let metrics = self.metrics();
            self.bookings() == 0
                && metrics.contains("\npointsman_requests_in_flight 0\n")
                && metrics.contains("\npointsman_epp_streams 0\n")
        };
        self.eventually(at_rest).await;
    }

    pub(super) fn metrics(&self) -> String {
        self.server.app().metrics.encode()
    }

    pub(super) async fn eventually(&self, holds: impl Fn() -> bool) {
        let wait = async {
            while !holds() {
                sleep(Duration::from_millis(2)).await;
            }
        };
        assert!(timeout(PATIENCE, wait).await.is_ok(), "{}", self.metrics());
    }
}

/// One request and its answer.
pub(super) struct Exchange {
    send: mpsc::UnboundedSender<ProcessingRequest>,
    received: Streaming<ProcessingResponse>,
    /// Said with the first message.
    filter: Option<Filter>,
}

impl Exchange {
    pub(super) fn part(&mut self, part: Part) {
        self.part_with(part, |_| {});
    }

    pub(super) fn part_with(&mut self, part: Part, change: impl FnOnce(&mut ProcessingRequest)) {
        let protocol_config = self.filter.take().map(|filter| ProtocolConfiguration {
            request_body_mode: filter.request.into(),
            response_body_mode: filter.answer.into(),
            send_body_without_waiting_for_header_response: filter.request == BodySendMode::Streamed,
        });
        let request = Some(part);
        let mut message =
            ProcessingRequest { request, protocol_config, ..ProcessingRequest::default() };
        change(&mut message);
        // Whoever has hung up gets nothing.
        let _ = self.send.send(message);
    }

    pub(super) fn head(&mut self, lines: &[(&str, &str)], last: bool) {
        self.part(Part::RequestHeaders(headers(lines, last)));
    }

    pub(super) fn head_with(&mut self, lines: &[(&str, &str)], last: bool, metadata: Metadata) {
        self.part_with(Part::RequestHeaders(headers(lines, last)), |message| {
            message.metadata_context = Some(metadata);
        });
    }

    pub(super) fn body(&mut self, bytes: &[u8], last: bool) {
        self.part(Part::RequestBody(body(bytes, last)));
    }

    pub(super) fn trailers(&mut self) {
        self.part(Part::RequestTrailers(HttpTrailers::default()));
    }

    /// An answer begins, as a worker gives it.
    pub(super) async fn answers(&mut self, status: &str, kind: &str) -> CommonResponse {
        let lines = [(":status", status), ("content-type", kind)];
        self.part(Part::ResponseHeaders(headers(&lines, false)));
        let Reply::ResponseHeaders(reply) = self.reply().await else { panic!("a head") };
        reply.response.unwrap()
    }

    pub(super) fn answer_body(&mut self, bytes: &[u8], last: bool) {
        self.part(Part::ResponseBody(body(bytes, last)));
    }

    /// A piece of the answer that is passed on, as the client gets it.
    pub(super) async fn answer_piece(&mut self, bytes: &[u8], last: bool) -> StreamedBodyResponse {
        self.answer_body(bytes, last);
        let Reply::ResponseBody(reply) = self.reply().await else { panic!("a body") };
        streamed(reply.response.unwrap())
    }

    pub(super) async fn next(&mut self) -> Option<Result<ProcessingResponse, Status>> {
        timeout(PATIENCE, self.received.message()).await.unwrap().transpose()
    }

    pub(super) async fn reply(&mut self) -> Reply {
        self.next().await.unwrap().unwrap().response.unwrap()
    }

    pub(super) async fn changed_head(&mut self) -> CommonResponse {
        let Reply::RequestHeaders(reply) = self.reply().await else { panic!("a head") };
        reply.response.unwrap()
    }

    pub(super) async fn refused(&mut self) -> ImmediateResponse {
        let Reply::ImmediateResponse(reply) = self.reply().await else { panic!("a refusal") };
        assert!(self.next().await.is_none(), "nothing more is said");
        reply
    }

    pub(super) async fn failed(&mut self) -> Status {
        self.next().await.unwrap().unwrap_err()
    }

    /// What goes on of a body: one piece, or all to the last one. None of what isn't sent back.
    pub(super) async fn request_pieces(&mut self, to_the_last: bool) -> Vec<StreamedBodyResponse> {
        let mut pieces = Vec::new();
        loop {
            let Reply::RequestBody(reply) = self.reply().await else { panic!("a body") };
            let common = reply.response.unwrap();
            if common.body_mutation.is_none() {
                return pieces;
            }
            pieces.push(streamed(common));
            if !to_the_last || pieces.last().unwrap().end_of_stream {
                return pieces;
            }
        }
    }
}

fn streamed(common: CommonResponse) -> StreamedBodyResponse {
    match common.body_mutation.unwrap().mutation.unwrap() {
        Mutation::StreamedResponse(piece) => piece,
        other => panic!("{other:?}"),
    }
}

pub(super) fn headers(lines: &[(&str, &str)], end_of_stream: bool) -> HttpHeaders {
    let line = |(key, value): &(&str, &str)| HeaderValue {
        key: (*key).to_owned(),
        value: String::new(),
        raw_value: value.as_bytes().to_vec(),
    };
    let headers = Some(HeaderMap { headers: lines.iter().map(line).collect() });
    HttpHeaders { headers, end_of_stream, ..HttpHeaders::default() }
}

fn body(bytes: &[u8], end_of_stream: bool) -> HttpBody {
    HttpBody { body: bytes.to_vec(), end_of_stream, ..HttpBody::default() }
}

pub(super) fn chat_head<'a>() -> Vec<(&'a str, &'a str)> {
    vec![
        (":method", "POST"),
        (":path", "/v1/chat/completions"),
        (":authority", "models"),
        ("content-type", "application/json"),
        ("x-request-id", "its-own"),
    ]
}

pub(super) fn chat() -> Value {
    chat_with(json!({}))
}

pub(super) fn chat_with(more: Value) -> Value {
    let messages = json!([{ "role": "user", "content": "a question of some length" }]);
    let mut chat = json!({ "model": MODEL, "messages": messages });
    chat.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    chat
}

/// The value that a header is set to.
pub(super) fn set(common: &CommonResponse, name: &str) -> Option<String> {
    let set = &common.header_mutation.as_ref()?.set_headers;
    let found = set.iter().filter_map(|one| one.header.as_ref()).find(|line| line.key == name)?;
    Some(String::from_utf8(found.raw_value.clone()).unwrap())
}
