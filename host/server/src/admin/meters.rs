//! `/metrics`: what was counted on the way, and what is read from the router at the scrape.
//!
//! What the router knows anyway is not counted a second time: its state is read into metrics of
//! its own for each scrape, so that a worker or a component that left leaves no stale series.

mod caches;
mod families;
mod rollouts;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

use pointsman_core::fleet::Worker;

use super::error::AdminError;
use crate::app::App;
use caches::CacheFamilies;
use families::Families;
use rollouts::RolloutFamilies;

pub(super) async fn metrics(State(app): State<App>) -> Result<Response, AdminError> {
    let broken = |error: String| {
        AdminError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the metrics don't add up: {error}"),
        )
    };
    // Large indexes take a while to count, so that takes a thread.
    let asked = app.clone();
    let state = tokio::task::spawn_blocking(move || read(&asked))
        .await
        .map_err(|error| broken(error.to_string()))?
        .map_err(|error| broken(error.to_string()))?;
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
    let rollouts = RolloutFamilies::new()?;
    router.partitions().iter().for_each(|partition| rollouts.partition(partition));
    Ok(families.encode()? + &rollouts.encode()? + &caches(app, &workers)?)
}

/// The caches' state.
fn caches(app: &App, workers: &[Worker]) -> prometheus::Result<String> {
    let families = CacheFamilies::new()?;
    let feeds = app.workers.cache_feeds();
    for worker in workers {
        for feed in feeds.get(&worker.spec.worker_id).into_iter().flatten() {
            families.feed(worker, feed);
        }
    }
    for partition in app.dispatcher.router().partitions() {
        families.partition(&partition, app.cache_alarm.rings(partition.key()));
    }
    families.shared_cache(app.shared_cache.rests());
    families.encode()
}
