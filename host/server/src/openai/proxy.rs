//! A request's way: read, decided, sent, and where that is safe sent once more elsewhere.
//!
//! Owns the order of things and the rules of trying again. The booking of a try lives in
//! [`Attempt`] and then in the answer's body, so that it is given back on every way out: also when
//! the client goes away and this future is dropped in the middle.
//!
//! # Trying again
//!
//! Nothing is sent to the client before the first byte of the answer's body has come, and only
//! until then is a request tried elsewhere, [`retries`](crate::config::ProxyConfig::retries) times:
//! when there is no connection, when it ends without an answer, and when the worker says that it
//! can't (429, 503, 529, and 502 from what stands before it). A worker's refusal is passed on if
//! nobody else may have the request. A pinned request stays where it is pinned to. A worker that is silent for too
//! long is not asked twice what may be its fault or the request's. On paths that the router doesn't
//! know, a request that may have had an effect isn't sent again.

mod attempt;
mod booking;
mod retry;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use pointsman_core::ids::PartitionKey;
use pointsman_core::request::RouteRequest;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, field};

use super::error::ApiError;
use super::exchange::Exchange;
use super::request::{Facts, request_id};
use super::upstream::{self, Outgoing, request_headers};
use super::{Front, Route, partition};
use crate::bodies::{self, Bounds};
use crate::prompts::{Prompt, Question};
use attempt::Attempt;
use retry::Tries;

/// Serves one request.
pub(super) async fn serve(front: &Front, route: Route, request: Request) -> Response {
    let id = request_id(request.headers());
    let span = tracing::info_span!(
        "request",
        request_id = %id,
        route = route.as_str(),
        decision_id = field::Empty,
        policy = field::Empty,
        worker = field::Empty,
    );
    let exchange = Exchange::begin(front.app.metrics.clone(), route, span.clone());
    answer(front, route, request, id, exchange).instrument(span).await
}

async fn answer(
    front: &Front,
    route: Route,
    request: Request,
    id: Arc<str>,
    mut exchange: Exchange,
) -> Response {
    let config = &front.app.config.proxy;
    let end = Instant::now() + config.total_timeout;
    let tried = match Call::read(front, route, request, &id, end).await {
        Ok(call) => {
            if front.app.dispatcher.router().partition(&call.request.partition).is_some() {
                exchange.concerns(call.request.partition.model.clone());
            }
            call.make(front, end).await
        }
        Err(error) => Err(error),
    };
    match tried {
        Ok(attempt) => attempt.into_response(&id, exchange, config, end),
        Err(error) => {
            tracing::debug!(status = error.status.as_u16(), kind = error.kind(), "refused");
            exchange.answers(error.status);
            let mut response = error.into_response();
            if let Ok(id) = HeaderValue::from_str(&id) {
                response.headers_mut().insert("x-request-id", id);
            }
            response
        }
    }
}

/// A request that has been read.
#[derive(Debug)]
struct Call {
    route: Route,
    outgoing: Outgoing,
    request: RouteRequest,
    prompt: Prompt,
    pinned_by: Option<&'static str>,
}

impl Call {
    async fn read(
        front: &Front,
        route: Route,
        request: Request,
        id: &Arc<str>,
        end: Instant,
    ) -> Result<Self, ApiError> {
        let (head, mut body) = request.into_parts();
        let proxy = &front.app.config.proxy;
        let bounds = Bounds { most: proxy.max_body, client_timeout: proxy.client_timeout, end };
        let body = bodies::whole(&mut body, &front.room, bounds).await;
        let body = body.map_err(|error| ApiError::of_body(error, proxy.max_body))?;
        let mut facts = Facts::read(&head.headers, &body, route.is_typed())?;
        let partition = front.partition_of(route, &mut facts)?;
        let pinned_by = facts.pinned_by;
        let asked = prompt(front, route, &facts, &partition, &body);
        // If that takes all the time that there is, nothing will be decided anyway.
        let unread = || Prompt::unread(facts.length);
        let mut prompt = timeout_at(end, asked).await.unwrap_or_else(|_| unread());
        // It answers while the rest is made ready.
        let shared = front.app.shared_cache.ask(&partition, &prompt);
        let mut request = facts.into_request(id.clone(), partition);
        let config = &front.app.config;
        let authorization = upstream::authorization(
            config.proxy.worker_token.as_ref(),
            !config.listen.tokens.is_empty(),
        );
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let outgoing = Outgoing {
            method: head.method,
            target: target.to_owned(),
            headers: request_headers(head.headers, authorization, id),
            body,
        };
        prompt.shared_hits = timeout_at(end, shared.hits()).await.unwrap_or_default();
        prompt.describe(&mut request);
        Ok(Self { route, outgoing, request, prompt, pinned_by })
    }

    /// Has it decided and sent, until there is an answer to pass on.
    async fn make(self, front: &Front, end: Instant) -> Result<Attempt, ApiError> {
        let Self { route, outgoing, request, prompt, pinned_by } = self;
        let mut tries = Tries::new(front, route, &outgoing, &request);
        let mut request = Arc::new(request);
        loop {
            let decided = Attempt::decide(front, route, request.clone(), &prompt);
            let decided = timeout_at(end, decided).await;
            let attempt = match decided.map_err(|_| ApiError::decided_too_late())? {
                Ok(attempt) => attempt,
                Err(error) => {
                    let undecided = || Err(ApiError::undecided(&error, pinned_by));
                    return tries.give_up().unwrap_or_else(undecided);
                }
            };
            tries.go_on();
            let worker = attempt.worker();
            let result = attempt.send(front, &outgoing, end).await;
            match tries.judge(result) {
                Some(verdict) => return verdict,
                None => Arc::make_mut(&mut request).constraints.tried.insert(worker),
            };
        }
    }
}

/// What there is to know of the prompt. Bodies that can't be read name none.
async fn prompt(
    front: &Front,
    route: Route,
    facts: &Facts,
    partition: &PartitionKey,
    body: &Bytes,
) -> Prompt {
    if !facts.understood {
        return Prompt::unread(facts.length);
    }
    let question = Question {
        partition,
        kind: route.kind(),
        body: facts.readable.as_ref().unwrap_or(body),
        scope: facts.scope(),
        length: facts.length,
    };
    front.app.prompter.prompt(question).await
}

impl Front {
    /// The partition that a request belongs to.
    fn partition_of(&self, route: Route, facts: &mut Facts) -> Result<PartitionKey, ApiError> {
        if let Some(model) = facts.model.clone() {
            return Ok(facts.place(self.app.dispatcher.router(), &model));
        }
        let group = facts.group.as_deref();
        // No name: the only model there is; on other paths the first will do.
        let workers = self.app.dispatcher.router().workers();
        let wanted = partition("", group);
        let mut keys: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.spec.partition.clone())
            .filter(|key| key.routing_group == wanted.routing_group && key.role == wanted.role)
            .collect();
        keys.sort();
        keys.dedup();
        match (keys.len(), route.is_typed()) {
            (0, _) => Err(ApiError::no_workers()),
            (1, _) | (_, false) => Ok(keys.swap_remove(0)),
            (_, true) => Err(ApiError::no_model_named()),
        }
    }
}
