//! The selection service: workers chosen, and their load kept, for those who send requests themselves.
//!
//! Owns the third listener: its routes, the shapes of what it takes and answers, and what is reserved
//! under a name. It decides as the public listener does, over the same partitions, ledgers, queues,
//! classifiers and sessions; what it reserves is load like any other. It doesn't know requests' bodies,
//! or whether they are ever sent: a reservation lasts until somebody frees it, or nobody has spoken of it
//! for as long as its lease says.
//!
//! In the way of a selection: `guard` asks for a token, `body` has room for it, `ask` reads it and
//! `prompt` what it says of the prompt, `choose` has it decided, `answer` tells what was, and `selections`
//! keeps what is to be booked or has been. `handed` sees to it that nothing stays reserved of which nobody
//! could be told. `SELECTION.md` beside `src` is its users' page, `openapi.json` says the same to programs.

mod answer;
mod ask;
mod batch;
mod body;
mod booked;
mod cached;
mod choose;
mod dump;
mod error;
mod front;
mod guard;
mod handed;
mod hashes;
mod incomplete;
mod loads;
mod openapi;
mod overlap;
mod probes;
mod prompt;
mod replicas;
mod reservations;
mod reserve;
mod selections;
mod unbooked;
mod workers;

use axum::Router;
use axum::middleware;
use axum::response::Response;
use axum::routing::{get, patch, post};
use http::{Method, Uri};

use crate::app::App;
use crate::config::SelectConfig;
use crate::rest::{self, RestError};
use front::Front;

pub use selections::Selections;

/// What it is called where a request names no path.
const LISTENER: &str = "the selection service";

/// The document that users read.
const DOCUMENT: &str = "SELECTION.md";

/// The routes of the selection service.
pub(crate) fn router(app: App, config: SelectConfig) -> Router {
    let front = Front::new(app, config);
    let guarded = Router::new()
        .route("/select", post(unbooked::select))
        .route("/select/batch", post(batch::select))
        .route("/select_and_reserve", post(booked::select_and_reserve))
        .route("/select_and_reserve/batch", post(batch::select_and_reserve))
        .route("/reservations", post(reserve::create))
        .route("/reservations/heartbeat", post(reservations::heartbeats))
        .route("/reservations/{id}", get(reservations::stands).delete(reservations::free))
        .route("/reservations/{id}/prefill_complete", post(reservations::prefill_complete))
        .route("/reservations/{id}/output_block", post(reservations::output_block))
        .route("/reservations/{id}/heartbeat", post(reservations::heartbeat))
        .route("/workers", get(workers::list).post(workers::register))
        .route("/workers/{id}", patch(workers::change).delete(workers::remove))
        .route("/workers/{id}/heartbeat", post(workers::heartbeat))
        .route("/loads", get(loads::loads))
        .route("/potential_loads", post(loads::potential))
        .route("/overlap_scores", post(overlap::scores))
        .route("/dump", get(dump::dump))
        .route("/replica_sync/register_peer", post(replicas::not_here))
        .route("/replica_sync/deregister_peer", post(replicas::not_here))
        .route("/replica_sync/peers", get(replicas::not_here))
        .route_layer(middleware::from_fn_with_state(front.clone(), guard::token));
    Router::new()
        .route("/health", get(probes::health))
        .route("/ready", get(probes::ready))
        .route("/openapi.json", get(openapi::document))
        .merge(guarded)
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(middleware::from_fn_with_state(front.clone(), guard::host))
        .layer(middleware::from_fn_with_state(front.clone(), front::count))
        .with_state(front)
}

async fn nowhere(method: Method, uri: Uri) -> Response {
    rest::nowhere(&method, &uri, LISTENER, "GET /openapi.json has the paths that there are")
}

async fn not_so(method: Method, uri: Uri) -> RestError {
    rest::not_so(&method, &uri, LISTENER)
}

#[cfg(test)]
mod tests;
