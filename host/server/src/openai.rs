//! The public listener: OpenAI-shaped requests in, workers' answers out.
//!
//! Owns the routes, and the way of a request from its bytes to the last byte of its answer. In that
//! order: `gate` lets it in, `crate::bodies` has room for it, `request` reads what routing needs of it, `proxy` has its prompt looked
//! into by [`crate::prompts`] and looked for by [`crate::shared_cache`], and gets it decided, sent
//! and, where that is safe, sent again, `upstream` talks to the worker, `stream` passes the answer
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
use axum::extract::{Request, State};
use axum::middleware;
use axum::response::Response;
use axum::routing::{any, get, post};
use http::{Method, Uri};
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role};

use crate::app::App;
use crate::bodies::Room;
use crate::tokens::Kind;
use error::ApiError;
use upstream::Upstream;

pub(crate) use dry_run::refusal;
pub use dry_run::{Read, Refusal, read};
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

    /// Whether a stream of it ends with `data: [DONE]`. Streams of other paths have terminators of
    /// their own, or none.
    fn ends_with_done(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::Completions)
    }
}

/// The routes of the public listener.
pub fn router(app: App) -> Router {
    let upstream = Upstream::new(app.config.proxy.connect_timeout);
    let room = Room::new(app.config.proxy.body_budget, app.metrics.body_bytes());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let started = now.map_or(0, |since| since.as_secs());
    let front = Arc::new(Front { app, upstream, room, started });
    let typed = |route: Route| {
        post(move |State(front): State<Arc<Front>>, request: Request| async move {
            proxy::serve(&front, route, request).await
        })
    };
    let passed = any(|State(front): State<Arc<Front>>, request: Request| async move {
        proxy::serve(&front, Route::Other, request).await
    });
    let gated = Router::new()
        .route("/v1/chat/completions", typed(Route::ChatCompletions))
        .route("/v1/completions", typed(Route::Completions))
        .route("/v1/embeddings", typed(Route::Embeddings))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*model}", get(models::show))
        .route("/v1/{*path}", passed)
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(middleware::from_fn_with_state(front.clone(), gate::enter));
    // Outside of the gate: whether the process lives is nobody's secret.
    gated.route("/health", get(health)).method_not_allowed_fallback(not_so).with_state(front)
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
    Response::new(axum::body::Body::from(r#"{"status":"ok"}"#))
}

async fn nowhere(uri: Uri) -> ApiError {
    ApiError::not_found(uri.path())
}

async fn not_so(method: Method, uri: Uri) -> ApiError {
    ApiError::not_allowed(&method, uri.path())
}

#[cfg(test)]
mod tests;
