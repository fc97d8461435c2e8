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
//! nobody else may have the request. A pinned request stays where it is pinned to; one that only its
//! session pins does so while the worker has too much to do, and else leaves it. A worker that is silent for too
//! long is not asked twice what may be its fault or the request's. On paths that the router doesn't
//! know, a request that may have had an effect isn't sent again.

mod attempt;
mod booking;
mod carried;
mod legs;
mod retry;
mod session;

use std::pin::pin;
use std::sync::Arc;

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, request};
use pointsman_core::classifier::Lifecycle;
use pointsman_core::disaggregation::Protocol;
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::request::RouteRequest;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Level, Span, field};

use super::disaggregation::{Original, Pair, Plan};
use super::error::ApiError;
use super::exchange::Exchange;
use super::request::{Facts, Pin, request_id};
use super::upstream::{self, Outgoing, request_headers};
use super::{Front, Route, partition};
use crate::bodies::{self, Bounds, Inbound};
use crate::prompts::{Prompt, Question};
use attempt::Attempt;
use retry::Tries;
use session::Stay;

pub(super) use attempt::Accompanying;
pub(crate) use carried::{Asked, GROUP, NoSuchModel, Passing, Pick, Picks, Refused, Unanswered};

/// Serves one request.
pub(super) async fn serve<B: Inbound>(
    front: &Front,
    route: Route,
    request: Request<B>,
) -> Response {
    let id = request_id(request.headers());
    // What is wrong names its request itself: a span for each costs more than to route it.
    let span = if tracing::enabled!(Level::DEBUG) {
        tracing::debug_span!(
            "request",
            request_id = %id,
            route = route.as_str(),
            decision_id = field::Empty,
            policy = field::Empty,
            worker = field::Empty,
        )
    } else {
        Span::none()
    };
    let now_ms = front.app.dispatcher.clock().now_ms();
    let exchange = Exchange::begin(front.app.metrics.clone(), route, span.clone(), now_ms);
    let answered = pin!(answer(front, route, request, id, exchange));
    if span.is_none() { answered.await } else { answered.instrument(span).await }
}

async fn answer<B: Inbound>(
    front: &Front,
    route: Route,
    request: Request<B>,
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
    /// None if one worker is to do it all.
    sharing: Option<Sharing>,
}

/// How the prompt of a request is computed by another worker than its answer.
#[derive(Debug)]
struct Sharing {
    /// The request to that worker's partition.
    prefill: RouteRequest,
    pinned_by: Option<&'static str>,
    protocol: Protocol,
}

/// What is known of a request before it is read.
#[derive(Clone, Copy, Debug)]
struct Arrival<'a> {
    id: &'a Arc<str>,
    /// When it came, in milliseconds on the router's clock.
    at_ms: u64,
    /// When it has to be over.
    end: Instant,
}

impl Call {
    async fn read<B: Inbound>(
        front: &Front,
        route: Route,
        request: Request<B>,
        id: &Arc<str>,
        end: Instant,
    ) -> Result<Self, ApiError> {
        let arrived_at_ms = front.app.dispatcher.clock().now_ms();
        let (head, mut body) = request.into_parts();
        let proxy = &front.app.config.proxy;
        let bounds = Bounds { most: proxy.max_body, client_timeout: proxy.client_timeout, end };
        let body = bodies::whole(&mut body, &front.room, bounds).await;
        let body = body.map_err(|error| ApiError::of_body(error, proxy.max_body))?;
        Self::of(front, route, head, body, Arrival { id, at_ms: arrived_at_ms, end }).await
    }

    /// Of a request whose body is there.
    async fn of(
        front: &Front,
        route: Route,
        head: request::Parts,
        body: Bytes,
        arrival: Arrival<'_>,
    ) -> Result<Self, ApiError> {
        let Arrival { id, at_ms: arrived_at_ms, end } = arrival;
        let mut facts = Facts::read(&head.headers, &body, route.is_typed())?;
        let plan = front.plan(route, &mut facts)?;
        let partition = plan.prompts().clone();
        let (mut pin, mut prefill_pin) = (facts.pin, facts.prefill_pin);
        // If that takes all the time that there is, nothing will be decided anyway.
        let unread = || Prompt::unread(facts.length);
        let mut prompt = {
            let asked = pin!(prompt(front, route, &facts, &plan, &body));
            timeout_at(end, asked).await.unwrap_or_else(|_| unread())
        };
        // It answers while the rest is made ready.
        let shared = front.app.shared_cache.ask(&partition, &prompt);
        let mut request = facts.into_request(id.clone(), partition, arrived_at_ms);
        front.app.metrics.classes().heed(front.app.dispatcher.router(), &request, arrived_at_ms);
        if let (Plan::Two(pair), Some(either)) = (&plan, pin.filter(Pin::is_for_either))
            && front.is_of(either.target.worker_id, &pair.prefill)
        {
            request.constraints.pinned = None;
            pin = None;
            prefill_pin.get_or_insert(either.for_prefill());
        }
        let config = &front.app.config;
        let authorization = upstream::authorization(
            config.proxy.worker_token.as_ref(),
            !config.listen.tokens.is_empty(),
        );
        let root = || PathAndQuery::from_static("/");
        let target = head.uri.path_and_query().cloned().unwrap_or_else(root);
        let body = match &plan {
            Plan::One(partition) if partition.role == Role::Decode => {
                Original::read(body.clone()).map_or(body, |original| original.alone())
            }
            _ => body,
        };
        let outgoing = Outgoing {
            method: head.method,
            target,
            headers: request_headers(head.headers, authorization, id),
            body,
        };
        prompt.shared_hits = timeout_at(end, shared.hits()).await.unwrap_or_default();
        prompt.describe(&mut request);
        let sharing = match plan {
            Plan::One(_) => None,
            Plan::Two(pair) => Some(front.sharing(pair, &mut request, prefill_pin)),
        };
        let pinned_by = pin.map(|pin| pin.by);
        Ok(Self { route, outgoing, request, prompt, pinned_by, sharing })
    }

    /// Has it decided and sent, until there is an answer to pass on.
    async fn make(mut self, front: &Front, end: Instant) -> Result<Attempt, ApiError> {
        // Dropped on every other way out, it says that the request was aborted.
        let lifecycle = front.admit(&mut self.request, end).await?;
        if let Some(sharing) = &self.sharing {
            let sharing = self.share(front, sharing, lifecycle.as_ref(), end);
            let attempt = Box::pin(sharing).await?;
            return Ok(attempt.of(lifecycle));
        }
        let Self { route, outgoing, mut request, prompt, pinned_by, .. } = self;
        let mut tries = Tries::new(front, route, &outgoing, &request);
        let mut stay = Stay::begin(front, &mut request, pinned_by, end).await?;
        let mut request = Arc::new(request);
        loop {
            let decided = stay.decide(front, route, &mut request, &prompt, end).await?;
            let attempt = match decided {
                Ok(attempt) => attempt,
                Err(error) => {
                    let undecided = || Err(ApiError::undecided(&error, pinned_by));
                    let given_up = tries.give_up().unwrap_or_else(undecided);
                    return given_up.map(|attempt| attempt.of(lifecycle));
                }
            };
            tries.go_on();
            let worker = attempt.worker();
            if let Some(lifecycle) = &lifecycle {
                lifecycle.sent(attempt.receipt().worker);
            }
            let result = attempt.send(front, &outgoing, end).await;
            match tries.judge(result) {
                Some(mut verdict) => {
                    if let Ok(attempt) = &mut verdict {
                        stay.end(attempt);
                    }
                    return verdict.map(|attempt| attempt.of(lifecycle));
                }
                None if stay.holds(tries.was_overload()) => {
                    let given_up = tries.give_up().unwrap_or_else(|| Err(ApiError::internal()));
                    return given_up.map(|attempt| attempt.of(lifecycle));
                }
                None => {
                    let request = Arc::make_mut(&mut request);
                    request.constraints.tried.insert(worker);
                    stay.renew(front, request, end).await?;
                }
            }
        }
    }
}

/// What there is to know of the prompt. Bodies that can't be read name none, and where nobody decides
/// by prompts, nobody looks into them.
async fn prompt(front: &Front, route: Route, facts: &Facts, plan: &Plan, body: &Bytes) -> Prompt {
    if !facts.understood {
        return Prompt::unread(facts.length);
    }
    let partition = plan.prompts();
    if matches!(plan, Plan::One(_)) && front.reads_no_prompts(partition) {
        return front.app.prompter.unread(&partition.model, facts.length);
    }
    let question = Question {
        partition,
        kind: route.kind(),
        body: facts.readable.as_ref().unwrap_or(body),
        scope: facts.scope(),
        length: facts.length,
    };
    // Only where prompts are read, so that nobody else has room for it.
    Box::pin(front.app.prompter.prompt(question)).await
}

impl Front {
    /// Has a request let in by its classifier, if there is one.
    async fn admit(
        &self,
        request: &mut RouteRequest,
        end: Instant,
    ) -> Result<Option<Lifecycle>, ApiError> {
        let admitted = timeout_at(end, pin!(self.app.desks.admit(request))).await;
        admitted.map_err(|_| self.decided_too_late())?.map_err(|error| {
            self.app.metrics.undecided(error.kind());
            ApiError::not_admitted(&error)
        })
    }

    /// All the time that there is went by before a worker was found.
    fn decided_too_late(&self) -> ApiError {
        let error = ApiError::decided_too_late();
        self.app.metrics.undecided(error.kind());
        error
    }

    /// Whether a prompt makes no difference in a partition. What is recorded is to be complete.
    fn reads_no_prompts(&self, partition: &PartitionKey) -> bool {
        let found = self.app.dispatcher.router().partition(partition);
        self.app.recorder.share() <= 0.0
            && found.is_some_and(|partition| partition.reads_no_prompts())
    }

    /// Who serves a request.
    fn plan(&self, route: Route, facts: &mut Facts) -> Result<Plan, ApiError> {
        let aggregated = self.partition_of(route, facts)?;
        let router = self.app.dispatcher.router();
        let mode = self.app.config.proxy.disaggregation;
        let pinned = facts.pin.map(|pin| pin.target.worker_id);
        let (shareable, adapter) = (route.is_shareable(), facts.adapter.as_deref());
        Ok(Plan::of(router, aggregated, mode, shareable, pinned, adapter))
    }

    /// Whether a worker is of a partition.
    fn is_of(&self, worker: WorkerId, partition: &PartitionKey) -> bool {
        let worker = self.app.dispatcher.router().worker(worker);
        worker.is_some_and(|worker| worker.spec.partition == *partition)
    }

    /// Makes two requests of one: it becomes the decode's, the prefill's comes back.
    fn sharing(&self, pair: Pair, request: &mut RouteRequest, pin: Option<Pin>) -> Sharing {
        let Pair { prefill, decode, protocol } = pair;
        let mut computing = request.clone();
        computing.partition = prefill;
        computing.constraints.pinned = pin.map(|pin| pin.target);
        computing.expected_output_tokens = Some(1);
        request.shared_hits = Arc::default();
        let block_size = |key| self.app.dispatcher.router().partition(key).map(|p| p.block_size());
        if block_size(&decode) != block_size(&computing.partition) {
            // Hashes of other blocks.
            request.chain = Arc::default();
        }
        request.partition = decode;
        Sharing { prefill: computing, pinned_by: pin.map(|pin| pin.by), protocol }
    }

    /// The partition that a request belongs to, if one worker is to do it all.
    fn partition_of(&self, route: Route, facts: &mut Facts) -> Result<PartitionKey, ApiError> {
        if let Some(model) = facts.model.clone() {
            return Ok(facts.place(self.app.dispatcher.router(), &model));
        }
        let group = facts.group.as_deref();
        // No name: the only model there is; on other paths the first will do.
        let workers = self.app.dispatcher.router().workers();
        let wanted = partition("", group);
        let answers = |role| matches!(role, Role::Aggregated | Role::Decode);
        let mut keys: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.spec.partition.clone())
            .filter(|key| key.routing_group == wanted.routing_group && answers(key.role))
            .map(|key| PartitionKey { role: wanted.role, ..key })
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
