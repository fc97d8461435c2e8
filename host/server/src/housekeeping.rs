//! What a router does as time passes: it forgets partitions whose workers are gone, and what was
//! counted for them; it cleans up in their caches, and looks whether these are of any use.
//!
//! Owns the one task that tells the core's partitions the time. The rule itself is the core's
//! ([`pointsman_core::router::Retention`]); workers are forgotten by their keeper, at once.

mod alarm;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::partition::Partition;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::app::App;

pub use alarm::CacheAlarm;

/// Between two looks: a vacant partition may be kept so much longer than it must.
const EVERY: Duration = Duration::from_secs(10);

/// Steps of cleaning up in one partition's cache at one look, each of which holds its events up for
/// some microseconds; what is left waits for the next look.
const MOST_STEPS: usize = 1_000;

/// Looks every few seconds until `stop`.
pub async fn run(app: App, stop: CancellationToken) {
    let began = Instant::now();
    look_every(EVERY, || began.elapsed(), &app, &stop).await;
}

async fn look_every(
    every: Duration,
    passed: impl Fn() -> Duration,
    app: &App,
    stop: &CancellationToken,
) {
    let mut every = interval(every);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = every.tick() => look(app, passed()).await,
        }
    }
}

/// Forgets what is to be forgotten when so much time has passed since some start.
pub async fn look(app: &App, passed: Duration) {
    app.dispatcher.forget_vacant(passed).await;
    let partitions = app.dispatcher.router().partitions();
    let served: BTreeSet<Arc<str>> =
        partitions.iter().map(|partition| partition.key().model.clone()).collect();
    // Every time, and not only when one was forgotten: an answer that ends late counts once more.
    app.metrics.keep_models(|model| served.contains(model));
    app.prompter.keep_models(|model| served.contains(model));
    let activity = partitions.iter().map(|one| (one.key().clone(), one.cache().activity()));
    app.cache_alarm.look(passed, activity);
    tidy(app, partitions).await;
}

/// Cleans up in the caches, on a thread that may take its time.
async fn tidy(app: &App, partitions: Vec<Arc<Partition>>) {
    let now_ms = app.dispatcher.clock().now_ms();
    let tidying = tokio::task::spawn_blocking(move || {
        for partition in partitions {
            let steps = (0..MOST_STEPS).take_while(|_| partition.cache().tidy(now_ms));
            steps.for_each(|_| {});
        }
    });
    if let Err(error) = tidying.await {
        tracing::error!(%error, "the caches could not be cleaned up");
    }
}

#[cfg(test)]
mod tests;
