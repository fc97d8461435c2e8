//! The admin listener: what operators ask and tell a running router.
//!
//! Owns the routes, who may use them, and the shape of their answers; what they show and change
//! belongs to the keepers, the router and the metrics. A token that is configured is asked for
//! everywhere but at `/health` and `/ready`, which probes ask without one.

mod body;
mod busy_threshold;
mod decisions;
mod front;
mod guard;
mod loads;
mod meters;
mod overlap;
mod policies;
mod probes;
mod receipts;
mod route;
mod sessions;
mod workers;

use axum::Router;
use axum::middleware;
use axum::response::Response;
use axum::routing::{delete, get, post};
use http::{Method, Uri};

use crate::app::App;
use crate::rest::{self, RestError};
use front::Front;

pub(crate) use probes::is_ready;

/// What it is called where a request names no path.
const LISTENER: &str = "the admin listener";

/// The largest request body, in bytes: a dry run may carry a whole prompt.
const MOST_BODY: usize = 1 << 20;

/// The largest body of pushed events: some ten thousand blocks' tokens.
pub(crate) const MOST_EVENTS_BODY: usize = 32 << 20;

/// The routes of the admin listener.
pub fn router(app: App) -> Router {
    let guarded = Router::new()
        .route("/metrics", get(meters::metrics))
        .route("/v1/workers", get(workers::list).post(workers::register))
        .route(
            "/v1/workers/{id}",
            get(workers::show).patch(workers::change).delete(workers::remove),
        )
        .route("/v1/workers/{id}/heartbeat", post(workers::heartbeat))
        .route("/v1/workers/{id}/kv_events", post(workers::push_events))
        .route("/v1/workers/{id}/load", post(busy_threshold::report))
        .route("/v1/busy_threshold", get(busy_threshold::show).post(busy_threshold::set))
        // As users of the linked router know it.
        .route("/busy_threshold", get(busy_threshold::show).post(busy_threshold::set))
        .route("/v1/loads", get(loads::loads))
        .route("/v1/sessions", get(sessions::list))
        .route("/v1/sessions/{id}", delete(sessions::end))
        .route("/v1/policies", get(policies::show))
        .route("/v1/policies/reload", post(policies::reload))
        .route("/v1/policies/{name}/disable", post(policies::disable))
        .route("/v1/policies/{name}/enable", post(policies::enable))
        .route("/v1/receipts", get(receipts::recent))
        .route("/v1/decisions", get(decisions::latest))
        .route("/v1/decisions/{id}", get(decisions::one))
        .route("/v1/route", post(route::dry_run))
        .route("/v1/overlap", get(overlap::of_tokens).post(overlap::of_request))
        .route_layer(middleware::from_fn_with_state(app.clone(), guard::token));
    Router::new()
        .route("/health", get(probes::health))
        .route("/ready", get(probes::ready))
        .merge(guarded)
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(middleware::from_fn_with_state(app.clone(), guard::host))
        .with_state(Front::new(app))
}

async fn nowhere(method: Method, uri: Uri) -> Response {
    rest::nowhere(&method, &uri, LISTENER, "see host/server/ADMIN.md for the admin's paths")
}

async fn not_so(method: Method, uri: Uri) -> RestError {
    rest::not_so(&method, &uri, LISTENER)
}

#[cfg(test)]
mod tests;
