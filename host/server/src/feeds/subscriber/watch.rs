//! Whoever sees to it that a feed runs.
//!
//! Owns the feed's task. One that ends by itself has met a bug of ours: the rank is shown as down,
//! with the reason, and followed anew after a while, from nothing. It doesn't know what went wrong.

use std::any::Any;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

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
        let Some(Err(error)) = task.join_next().await else { return };
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

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}
