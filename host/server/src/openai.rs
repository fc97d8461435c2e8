//! The public listener: OpenAI-shaped requests in, workers' answers out.
//!
//! Owns the routes, and the way of a request from its bytes to the last byte of its answer. In that
//! order: `gate` lets it in, `crate::bodies` has room for it, `request` reads what routing needs of it, `proxy` has its prompt looked
//! into by [`crate::prompts`] and looked for by [`crate::shared_cache`], and gets it decided, sent
//! and, where that is safe, sent again, by one worker or by two that share it (`disaggregation`), `upstream` talks to the worker, `stream` passes the answer
//! on and holds the booking until its end, `witness` tells who keeps the workers how each did.
//! `error` is the one place where an error becomes a status
//! and a stable kind. What decides, and which workers there are, belongs to others.
//!
//! # Routes
//!
//! `POST /v1/chat/completions`, `/v1/completions` and `/v1/embeddings` are read, routed and proxied.
//! `GET /v1/models` and `/v1/models/{id}` are answered here, from the models (and LoRA adapters) that have a worker. Any
//! other path below `/v1/` is passed to a worker as it is: one of the model that a JSON body names,
//! else one of the first model (by name) that has workers. So clients reach all that an engine serves
//! there, and an engine whose administration is below `/v1/` wants the listener's tokens. `GET
//! /health` tells that the process lives. Everything else is 404.
//!
//! # Whose token is sent
//!
//! A worker gets one `Authorization`: `proxy.worker_token` if that is set; else nothing if this
//! listener has tokens of its own, since what opens the router's door is the router's alone; else
//! what the client sent.

mod disaggregation;
mod dry_run;
mod error;
mod exchange;
mod gate;
mod models;
mod proxy;
mod request;
mod stream;
mod upstream;
mod witness;

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::{Method, Uri};
use hyper::body::Incoming;
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role};
use tower::ServiceExt;

use crate::app::App;
use crate::bodies::Room;
use crate::serve::Answers;
use crate::tokens::Kind;
use error::ApiError;
use upstream::Upstream;

pub(crate) use dry_run::refusal;
pub use dry_run::{Read, Refusal, read};
pub(crate) use proxy::{Asked, GROUP, NoSuchModel, Passing, Pick, Picks, Refused, Unanswered};
pub use stream::{Said, said};

/// What the handlers share.
#[derive(Clone, Debug)]
struct Front {
    app: App,
    upstream: Upstream,
    /// For all request bodies together.
    room: Room,
    /// Seconds since the epoch, as `created` of every model.
    started: u64,
}

impl Front {
    fn new(app: App, room: Room) -> Self {
        let upstream = Upstream::new(app.config.proxy.connect_timeout);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let started = now.map_or(0, |since| since.as_secs());
        Self { app, upstream, room, started }
    }
}

/// Which route a request came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    ChatCompletions,
    Completions,
    Embeddings,
    /// Passed on as it is.
    Other,
}

impl Route {
    /// Those with prompts, by their paths.
    const PROMPTS: [(&str, Self); 3] = [
        ("/v1/chat/completions", Self::ChatCompletions),
        ("/v1/completions", Self::Completions),
        ("/v1/embeddings", Self::Embeddings),
    ];

    /// The route of a request with a prompt; none if it isn't one.
    fn of_prompt(method: &Method, path: &str) -> Option<Self> {
        let found = Self::PROMPTS.iter().find(|(its, _)| *its == path)?;
        (method == Method::POST).then_some(found.1)
    }

    /// The word for it in metrics and logs.
    fn as_str(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Other => "other",
        }
    }

    /// What its prompt is made of.
    fn kind(self) -> Kind {
        match self {
            Self::ChatCompletions => Kind::Chat,
            Self::Completions => Kind::Completion,
            Self::Embeddings => Kind::Embeddings,
            Self::Other => Kind::Other,
        }
    }

    /// Whether the body is ours to understand.
    fn is_typed(self) -> bool {
        self != Self::Other
    }

    /// Whether one worker can compute its prompt for another.
    fn is_shareable(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::Completions)
    }

    /// Whether a stream of it ends with `data: [DONE]`. Streams of other paths have terminators of
    /// their own, or none.
    fn ends_with_done(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::Completions)
    }
}

/// Answers clients.
#[derive(Clone, Debug)]
pub(crate) struct Public {
    front: Arc<Front>,
    /// For all that isn't asked for many times a second.
    router: Router,
}

impl Public {
    /// Over what the listeners share. Call it where there is a runtime.
    pub(crate) fn new(app: App) -> Self {
        let room = Room::new(app.config.proxy.body_budget, app.metrics.body_bytes());
        let front = Arc::new(Front::new(app, room));
        Self { router: router(&front), front }
    }

    /// The answer to a request that may have come by another way than a connection.
    pub(crate) async fn respond<B>(self, request: http::Request<B>) -> Response
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let Some(route) = Route::of_prompt(request.method(), request.uri().path()) else {
            let answer = self.router.oneshot(request.map(Body::new)).await;
            return answer.unwrap_or_else(|never| match never {});
        };
        match gate::refusal(&self.front, &request) {
            Some(refusal) => refusal.into_response(),
            None => proxy::serve(&self.front, route, request).await,
        }
    }
}

impl Answers for Public {
    fn answer(
        self,
        request: http::Request<Incoming>,
    ) -> impl Future<Output = Response> + Send + 'static {
        // It is large, and handed on several times.
        Box::pin(self.respond(request))
    }
}

/// The routes of the public listener. Those of prompts don't come as far, but for their refusals.
fn router(front: &Arc<Front>) -> Router {
    let typed = |route: Route| {
        post(move |State(front): State<Arc<Front>>, request: Request| async move {
            proxy::serve(&front, route, request).await
        })
    };
    let passed = any(|State(front): State<Arc<Front>>, request: Request| async move {
        proxy::serve(&front, Route::Other, request).await
    });
    let mut gated = Router::new();
    for (path, route) in Route::PROMPTS {
        gated = gated.route(path, typed(route));
    }
    let gated = gated
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*model}", get(models::show))
        .route("/v1/{*path}", passed)
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(middleware::from_fn_with_state(front.clone(), gate::enter));
    // Outside of the gate: whether the process lives is nobody's secret.
    gated
        .route("/health", get(health))
        .method_not_allowed_fallback(not_so)
        .with_state(front.clone())
}

/// The partition of a model's requests.
fn partition(model: &str, group: Option<&str>) -> PartitionKey {
    PartitionKey {
        model: model.into(),
        routing_group: group.unwrap_or(DEFAULT_GROUP).into(),
        role: Role::Aggregated,
    }
}

async fn health() -> Response {
    Response::new(Body::from(r#"{"status":"ok"}"#))
}

async fn nowhere(uri: Uri) -> ApiError {
    ApiError::not_found(uri.path())
}

async fn not_so(method: Method, uri: Uri) -> ApiError {
    ApiError::not_allowed(&method, uri.path())
}

#[cfg(test)]
mod tests;
