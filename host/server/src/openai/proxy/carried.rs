//! Requests that somebody else carries to their workers, and whose answers he carries back.
//!
//! Owns the order of things for these: let in, decided and booked as those that the router carries itself;
//! then told by whoever carries when a request goes out, what comes back, and when that ends. Dropped at any
//! point before, a request was aborted, and its load is given back. It is tried once: to go elsewhere is for
//! who carries it. It doesn't know how that one is spoken to.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, request, response};
use pointsman_core::classifier::Lifecycle;
use pointsman_core::clock::Stopwatch;
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role, WorkerId};
use tokio::time::Instant;
use tracing::Span;

use super::attempt::Attempt;
use super::retry::Tries;
use super::session::Stay;
use super::{Arrival, Call};
use crate::app::App;
use crate::bodies::{self, BodyError, Bounds, Inbound, Room};
use crate::openai::error::{ApiError, UpstreamError};
use crate::openai::exchange::Exchange;
use crate::openai::gate;
use crate::openai::request::request_id;
use crate::openai::stream::Course;
use crate::openai::upstream::{Failure, ours};
use crate::openai::{Front, Route, partition};
use crate::telemetry::Outcome;

/// Picks workers for requests that others carry.
#[derive(Clone, Debug)]
pub(crate) struct Picks {
    front: Arc<Front>,
}

/// A request that has been read.
#[derive(Debug)]
pub(crate) struct Asked {
    route: Route,
    head: request::Parts,
    body: Bytes,
    id: Arc<str>,
    at_ms: u64,
    end: Instant,
    exchange: Exchange,
}

/// A body is not read on that names a model which nobody serves: how [`Picks::read`] is told.
#[derive(Debug, thiserror::Error)]
#[error("nobody serves the model {0:?}")]
pub(crate) struct NoSuchModel(pub(crate) String);

/// The routing group, as clients name it.
pub(crate) const GROUP: &str = "x-pointsman-routing-group";

/// A request that is decided and booked.
#[derive(Debug)]
pub(crate) struct Pick {
    front: Arc<Front>,
    attempt: Attempt,
    stay: Stay,
    lifecycle: Option<Lifecycle>,
    exchange: Exchange,
    /// What the worker is to get beside the client's own headers.
    headers: HeaderMap,
    body: Bytes,
    id: Arc<str>,
    /// For its session, its classifier, and in the line.
    waited: Duration,
}

/// An answer that goes by. Dropped before its end, it was aborted.
#[derive(Debug)]
pub(crate) struct Passing(Course);

/// A request that gets no worker, as its client is to be told.
#[derive(Debug)]
pub(crate) struct Refused {
    /// With this status.
    pub(crate) status: StatusCode,
    /// The stable kind.
    pub(crate) kind: &'static str,
    /// With these headers; boxed, since results carry it whose good case matters more.
    pub(crate) headers: Box<HeaderMap>,
    /// In these words, as JSON.
    pub(crate) body: String,
}

/// Why no answer came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// There was no connection.
    NoConnection,
    /// The connection ended without an answer.
    Closed,
    /// Nothing came in time.
    TimedOut,
    /// It isn't the worker's doing.
    Elsewhere,
}

impl Picks {
    /// Over what the listeners share, with room for request bodies. Call it where there is a runtime.
    pub(crate) fn new(app: App, room: Room) -> Self {
        Self { front: Arc::new(Front::new(app, room)) }
    }

    /// Whether there is a model, or an adapter of that name.
    pub(crate) fn serves(&self, model: &str, group: Option<&str>) -> bool {
        let router = self.front.app.dispatcher.router();
        let named = partition(model, group);
        [Role::Aggregated, Role::Decode, Role::Prefill].into_iter().any(|role| {
            router.partition(&PartitionKey { role, ..named.clone() }).is_some()
                || router.partition_of_adapter(model, &named.routing_group, role).is_some()
        })
    }

    /// Reads a request to its body's end.
    pub(crate) async fn read<B: Inbound>(&self, request: Request<B>) -> Result<Asked, Refused> {
        let front = &self.front;
        let id = request_id(request.headers());
        let route = Route::of_prompt(request.method(), request.uri().path());
        let route = route.unwrap_or(Route::Other);
        let at_ms = front.app.dispatcher.clock().now_ms();
        let metrics = front.app.metrics.clone();
        let exchange = Exchange::begin(metrics, route, Span::current(), at_ms);
        let proxy = &front.app.config.proxy;
        let end = Instant::now() + proxy.total_timeout;
        if let Some(refusal) = gate::unfit(front, &request) {
            return Err(Refused::of(refusal, &id, exchange));
        }
        let (head, mut body) = request.into_parts();
        let bounds = Bounds { most: proxy.max_body, client_timeout: proxy.client_timeout, end };
        match bodies::whole(&mut body, &front.room, bounds).await {
            Ok(body) => Ok(Asked { route, head, body, id, at_ms, end, exchange }),
            Err(error) => {
                let error = unread(error, &head.headers, proxy.max_body);
                Err(Refused::of(error, &id, exchange))
            }
        }
    }

    /// Has a request decided and booked; `among` these workers, if that is said.
    pub(crate) async fn pick(
        &self,
        asked: Asked,
        among: Option<BTreeSet<WorkerId>>,
    ) -> Result<Pick, Refused> {
        let Asked { route, head, body, id, at_ms, end, mut exchange } = asked;
        let arrival = Arrival { id: &id, at_ms, end };
        let call = Box::pin(Call::of(&self.front, route, head, body, arrival)).await;
        let decided = match call {
            Ok(call) => self.decide(call, among, end, &mut exchange).await,
            Err(error) => Err(error),
        };
        match decided {
            Ok(Decided { attempt, stay, lifecycle, headers, body, waited }) => {
                let front = self.front.clone();
                Ok(Pick { front, attempt, stay, lifecycle, exchange, headers, body, id, waited })
            }
            Err(error) => Err(Refused::of(error, &id, exchange)),
        }
    }

    async fn decide(
        &self,
        call: Call,
        among: Option<BTreeSet<WorkerId>>,
        end: Instant,
        exchange: &mut Exchange,
    ) -> Result<Decided, ApiError> {
        let front = &self.front;
        let Call { route, outgoing, mut request, prompt, pinned_by, sharing } = call;
        if front.app.dispatcher.router().partition(&request.partition).is_some() {
            exchange.concerns(request.partition.model.clone());
        }
        if sharing.is_some() || request.partition.role != Role::Aggregated {
            return Err(ApiError::shared_by_two(&request.partition.model));
        }
        request.constraints.allowed = among;
        let watch = Stopwatch::start();
        let lifecycle = front.admit(&mut request, end).await?;
        let mut stay = Stay::begin(front, &mut request, pinned_by, end).await?;
        let waited = watch.elapsed();
        let mut request = Arc::new(request);
        let attempt = pin!(stay.decide(front, route, &mut request, &prompt, end)).await?;
        let attempt = attempt.map_err(|error| ApiError::undecided(&error, pinned_by))?;
        let mut headers = ours(&outgoing.headers, front.app.config.proxy.worker_token.is_some());
        attempt.name_rank(&mut headers);
        let waited = waited + attempt.queued();
        Ok(Decided { attempt, stay, lifecycle, headers, body: outgoing.body, waited })
    }
}

/// Why a request's body isn't there, to its client.
fn unread(error: BodyError, headers: &HeaderMap, most: usize) -> ApiError {
    if let BodyError::BrokeOff(why) = &error
        && let Some(NoSuchModel(model)) = why.downcast_ref()
    {
        let group = headers.get(GROUP).and_then(|group| group.to_str().ok());
        return ApiError::no_such_model(model, group.unwrap_or(DEFAULT_GROUP));
    }
    ApiError::of_body(error.root(), most)
}

/// What comes of a decision.
#[derive(Debug)]
struct Decided {
    attempt: Attempt,
    stay: Stay,
    lifecycle: Option<Lifecycle>,
    headers: HeaderMap,
    body: Bytes,
    waited: Duration,
}

impl Pick {
    /// How much of the time that it took was none of the picker's work.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Where the worker is, as it was registered.
    pub(crate) fn endpoint(&self) -> &str {
        self.attempt.endpoint()
    }

    /// The worker's endpoint leads nowhere, so that nobody can carry the request there.
    pub(crate) fn leads_nowhere(self) -> Refused {
        let worker = self.attempt.worker();
        let Self { front, attempt, exchange, id, .. } = self;
        drop(Tries::none_left(&front).judge(Err(attempt.left_unanswered(Failure::Endpoint))));
        Refused::of(ApiError::upstream(UpstreamError::Unreachable(worker)), &id, exchange)
    }

    /// What the worker is to get beside the client's own headers, or in place of them.
    pub(crate) fn request_headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The request's body. It is here once.
    pub(crate) fn take_body(&mut self) -> Bytes {
        std::mem::take(&mut self.body)
    }

    /// The request goes out.
    pub(crate) fn goes_out(&mut self) {
        self.attempt.is_carried(&self.front);
        if let Some(lifecycle) = &self.lifecycle {
            lifecycle.sent(self.attempt.receipt().worker);
        }
    }

    /// What the client is to be told of the decision.
    pub(crate) fn answer_headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        self.attempt.describe(&mut headers);
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            headers.insert("x-request-id", id);
        }
        headers
    }

    /// An answer has come, as far as its first piece; none if it has no body.
    pub(crate) fn answered(
        self,
        head: response::Parts,
        first: Option<Bytes>,
        last: bool,
    ) -> Option<Passing> {
        let Self { front, mut attempt, stay, lifecycle, exchange, .. } = self;
        attempt.is_answered(head, first);
        let Some(Ok(mut attempt)) = Tries::none_left(&front).judge(Ok(attempt)) else {
            return None;
        };
        stay.end(&mut attempt);
        let mut course = attempt.of(lifecycle).into_course(exchange)?;
        course.settle_if_whole(last);
        Some(Passing(course))
    }

    /// No answer came, and the client is told so with this status.
    pub(crate) fn unanswered(self, status: StatusCode, why: Unanswered) {
        let Self { front, attempt, mut exchange, .. } = self;
        exchange.answers(status);
        let failure = match why {
            Unanswered::NoConnection => {
                Failure::Connect(std::io::Error::other("whoever carries the request had none"))
            }
            Unanswered::Closed => Failure::Broken,
            Unanswered::TimedOut => Failure::TimedOut,
            Unanswered::Elsewhere => return attempt.abandon(),
        };
        drop(Tries::none_left(&front).judge(Err(attempt.left_unanswered(failure))));
    }
}

impl Passing {
    /// A piece goes by.
    pub(crate) fn see(&mut self, data: &[u8], last: bool) {
        self.0.see(data);
        self.0.settle_if_whole(last);
    }

    /// The answer has ended as HTTP wants it. What the client is to be told if something is missing.
    pub(crate) fn close(&mut self) -> Option<Bytes> {
        let message = self.0.close()?;
        self.0.complaint(Outcome::Truncated, message)
    }
}

impl Refused {
    fn of(error: ApiError, id: &str, mut exchange: Exchange) -> Self {
        tracing::debug!(status = error.status.as_u16(), kind = error.kind(), "refused");
        exchange.answers(error.status);
        let (status, kind, body) = (error.status, error.kind(), error.json());
        let mut headers = error.into_headers();
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert("x-request-id", id);
        }
        Self { status, kind, headers: Box::new(headers), body }
    }
}
