//! Whoever sees to it that a feed runs.
//!
//! Owns the feed's task. One that ends by itself has met a bug of ours: the rank is shown as down,
//! with the reason, and followed anew after a while, from nothing. Also tells the log of a feed that
//! doesn't work, as [`super::trouble`] sees fit. It doesn't know what went wrong.

use std::any::Any;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::trouble::{News, Trouble};
use super::{FeedConfig, Subscriber};
use crate::feeds::intake::CacheSink;
use crate::feeds::stats::{FeedState, FeedStats};

/// Runs a feed until it is dropped.
pub(super) async fn run(
    config: FeedConfig,
    stats: Arc<FeedStats>,
    resync: Arc<Notify>,
    sink: Arc<dyn CacheSink>,
) {
    let timing = config.timing;
    let mut wait = timing.first_retry;
    let mut is_first = true;
    let mut trouble = Trouble::default();
    let mut looks = interval(timing.trouble / 2);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let began = Instant::now();
        let mut feed = Subscriber::new(
            config.clone(),
            Arc::clone(&stats),
            Arc::clone(&resync),
            Arc::clone(&sink),
        );
        let mut task = JoinSet::new();
        task.spawn(async move {
            if !is_first {
                // What is known of the rank may be half of a batch.
                feed.begin_anew();
            }
            feed.run().await;
        });
        let joined = loop {
            tokio::select! {
                joined = task.join_next() => break joined,
                now = looks.tick() => {
                    if let Some(news) = trouble.look(stats.state(), now, timing.trouble) {
                        tell(news, &config, stats.last_error().as_deref());
                    }
                }
            }
        };
        let Some(Err(error)) = joined else { return };
        let Ok(panic) = error.try_into_panic() else { return };
        let why = words(&*panic);
        tracing::error!(rank = %config.rank, %why, "an event feed has failed, and begins anew");
        stats.fail(format!("the feed failed: {why}; it begins anew, please report this"));
        stats.enter(FeedState::Down);
        if began.elapsed() > timing.last_retry {
            wait = timing.first_retry;
        }
        sleep(wait).await;
        wait = wait.saturating_mul(2).min(timing.last_retry);
        is_first = false;
    }
}

fn tell(news: News, config: &FeedConfig, error: Option<&str>) {
    let (rank, endpoint) = (config.rank, &config.source.endpoint);
    match news {
        News::Down(down) => tracing::warn!(
            %rank, %endpoint, ?down,
            error = error.unwrap_or("nothing has connected"),
            "no cache events come from a worker's engine; see that it is up and publishes there, \
             over ZeroMQ without CURVE, or register the worker with the right kv_events_endpoint \
             (this is logged once, until it works)"
        ),
        News::Works(down) => {
            tracing::info!(%rank, %endpoint, ?down, "cache events come from a worker's engine again");
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}
