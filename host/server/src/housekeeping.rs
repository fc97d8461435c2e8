//! What a router does as time passes: it forgets partitions whose workers are gone, and what was
//! counted for them, predictions of caches whose time is over, and sessions that are idle; it looks whether what is known of
//! caches is of any use; it tells policies that learn what became of decisions.
//!
//! Owns the one task that tells the core's partitions the time. The rule itself is the core's
//! ([`pointsman_core::router::Retention`]); workers are forgotten by their keeper, at once.

mod alarm;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::partition::Partition;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::app::App;

pub use alarm::CacheAlarm;

/// Between two looks: a vacant partition may be kept so much longer than it must.
const EVERY: Duration = Duration::from_secs(10);

/// Between two looks at caches and sessions: a prediction, or a binding, lasts so much longer than
/// it must.
const TIDY_EVERY: Duration = Duration::from_millis(250);

/// What is cleaned up of one partition's caches at once, in steps of some tens of microseconds each.
const MOST_STEPS: usize = 512;

/// Between two rounds of telling policies what became of decisions: an event waits for so long at most.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Partitions whose policies are told at a time: each takes a thread.
const MOST_TELLING: usize = 8;

/// Looks every few seconds, and at caches more often, until `stop`.
pub async fn run(app: App, stop: CancellationToken) {
    let began = Instant::now();
    tokio::join!(
        look_every(EVERY, || began.elapsed(), &app, &stop),
        tidy_every(&app, &stop),
        tell_every(&app, &stop),
    );
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
    let audited = tokio::task::spawn_blocking(move || partitions.iter().for_each(audit)).await;
    if let Err(error) = audited {
        tracing::error!(%error, "the ledgers could not be counted again");
    }
}

/// Counts a partition's load again from its live bookings, and says what isn't their sum.
fn audit(partition: &Arc<Partition>) {
    let audit = partition.audit();
    if audit.wrong > 0 {
        let (partition, wrong) = (partition.key(), audit.wrong);
        let found = &audit.discrepancies;
        tracing::error!(
            %partition,
            wrong,
            ?found,
            "the ledger isn't the sum of its bookings: a mistake of the router's, to be reported"
        );
    }
}

async fn tidy_every(app: &App, stop: &CancellationToken) {
    let mut every = interval(TIDY_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = every.tick() => {}
        }
        let (this, now_ms) = (app.clone(), app.dispatcher.clock().now_ms());
        // Whoever changes an index has it for itself, which takes a thread.
        let done = tokio::task::spawn_blocking(move || tidy(&this, now_ms)).await;
        if let Err(error) = done {
            tracing::error!(%error, "the caches' indexes could not be tidied");
        }
    }
}

/// Forgets what was predicted of caches for no longer than until then, sessions that have been
/// idle for too long, and reservations and selections that nobody speaks of.
pub fn tidy(app: &App, now_ms: u64) {
    app.selections.expire(now_ms);
    let terms = app.dispatcher.router().settings().session_affinity();
    let ttl_ms = terms.map(|terms| terms.ttl_ms);
    for partition in app.dispatcher.router().partitions() {
        let mut steps = 0..MOST_STEPS;
        while steps.next().is_some() && partition.cache().tidy(now_ms) {}
        partition.expire_sessions(now_ms, ttl_ms);
    }
}

async fn tell_every(app: &App, stop: &CancellationToken) {
    let mut every = interval(TELL_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // A partition whose policies take long is no reason for others to wait.
    let mut telling = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = every.tick() => {}
        }
        while telling.try_join_next().is_some() {}
        for partition in app.dispatcher.router().partitions() {
            if partition.outcomes().any() && telling.len() < MOST_TELLING {
                let app = app.clone();
                telling.spawn(async move { tell(&app, &partition).await });
            }
        }
    }
    telling.shutdown().await;
}

/// Tells the policies of a partition that learn what became of decisions, until nothing waits.
pub async fn tell(app: &App, partition: &Arc<Partition>) {
    loop {
        let told = app.dispatcher.tell_outcomes(partition).await;
        if told.is_empty() {
            return;
        }
        told.iter().for_each(|told| app.metrics.told(told));
    }
}

#[cfg(test)]
mod tests;
