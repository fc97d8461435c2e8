//! `/metrics`: what was counted on the way, and what is read from the router at the scrape.
//!
//! What the router knows anyway is not counted a second time: its state is read into metrics of
//! its own for each scrape, so that a worker or a component that left leaves no stale series.

mod families;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

use super::error::AdminError;
use crate::app::App;
use families::Families;

pub(super) async fn metrics(State(app): State<App>) -> Result<Response, AdminError> {
    let state = read(&app).map_err(|error| {
        AdminError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the metrics don't add up: {error}"),
        )
    })?;
    let text = app.metrics.encode() + &state;
    Ok(([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response())
}

/// The router's state as Prometheus reads it.
fn read(app: &App) -> prometheus::Result<String> {
    let families = Families::new()?;
    let router = app.dispatcher.router();
    let workers = router.workers();
    families.workers(&workers);
    families.ejections(&workers, &app.workers.ejections());
    for partition in router.partitions() {
        families.partition(&partition);
    }
    families.policies(&app.policies.status());
    families.encode()
}
