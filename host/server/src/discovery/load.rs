//! What a worker's engine says of its load when it is asked.
//!
//! Owns how often one life's engine is asked for its `/metrics`, what became of that, and the last thing
//! that went wrong. What it says is its partition's, as what is pushed is. Nobody waits for any of it:
//! neither probes nor requests.

mod page;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::clock::Chance;
use pointsman_core::eligibility::LoadReport;
use pointsman_core::fleet::{Epoch, WorkerSpec};
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use tokio::task::JoinError;
use tokio::time::{Instant, sleep_until, timeout};

use super::probe::{Target, Unasked};
use crate::config::LoadReportsConfig;
use crate::dispatch::Dispatcher;
use crate::telemetry::Seldom;
use page::{Said, Unreadable};

/// The longest page that is read: a large engine's has a few hundred KiB.
const MOST_BYTES: usize = 4 << 20;

/// A longer page isn't read where requests are served: that takes a while, and an engine may make it long.
const MOST_BYTES_AT_ONCE: usize = 64 << 10;

/// An engine that fails to answer is asked again after twice as long each time, up to this; then what it
/// said last is too old anyway.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// What became of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scraped {
    /// It said how much it has to do.
    Good,
    /// It didn't answer in time.
    Late,
    /// No connection, or it broke; or more bytes than a page may have.
    Failed,
    /// Another status than a success.
    Status,
    /// A line that isn't what it should be.
    Malformed,
    /// Nothing of its load, or of ranks that the worker hasn't.
    Useless,
    /// The router lacked what it takes: that says nothing of the engine.
    Shortage,
}

impl Scraped {
    /// All of them, in the order in which they are counted.
    pub(crate) const ALL: [Self; 7] = [
        Self::Good,
        Self::Late,
        Self::Failed,
        Self::Status,
        Self::Malformed,
        Self::Useless,
        Self::Shortage,
    ];

    /// The word for it in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Late => "timeout",
            Self::Failed => "failed",
            Self::Status => "status",
            Self::Malformed => "malformed",
            Self::Useless => "useless",
            Self::Shortage => "shortage",
        }
    }
}

/// How often each of them has been, in the order of [`Scraped::ALL`].
pub(crate) type ScrapeCounts = [u64; Scraped::ALL.len()];

/// One life's engine, as it is asked.
#[derive(Debug, Default)]
pub(super) struct LoadLife {
    counts: [AtomicU64; Scraped::ALL.len()],
    trouble: Mutex<Trouble>,
}

#[derive(Debug, Default)]
struct Trouble {
    /// What went wrong last; none if the last answer was good.
    now: Option<String>,
    log: Seldom,
}

/// Whose engine it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose<'a> {
    pub(super) id: WorkerId,
    pub(super) epoch: Epoch,
    pub(super) target: &'a Target,
    pub(super) dispatcher: &'a Dispatcher,
}

/// Why an answer is no good one.
type Bad = (Scraped, String);

impl LoadLife {
    /// What became of asking.
    pub(super) fn counts(&self) -> ScrapeCounts {
        std::array::from_fn(|at| self.counts.get(at).map_or(0, |it| it.load(Ordering::Relaxed)))
    }

    /// What went wrong last; none if nothing did, or nobody asks.
    pub(super) fn problem(&self) -> Option<String> {
        self.trouble.lock().now.clone()
    }

    /// Asks again and again, for as long as the caller lets it.
    pub(super) async fn follow(&self, whose: Whose<'_>, config: &LoadReportsConfig) {
        let mut chance = Chance::new(whose.id.0.rotate_left(17) ^ whose.epoch.0);
        let mut wait = config.interval;
        loop {
            let began = Instant::now();
            // What it says was so at some time from now on.
            let at_ms = whose.dispatcher.clock().now_ms();
            let outcome = self.note(whose.id, at_ms, ask(whose, config, at_ms).await);
            wait = match outcome {
                Scraped::Good | Scraped::Shortage => config.interval,
                _ => (wait * 2).min(MOST_WAIT.max(config.interval)),
            };
            // A tenth either way, so that many workers aren't asked in time.
            sleep_until(began + wait.mul_f64(0.9 + 0.2 * chance.unit())).await;
        }
    }

    fn note(&self, worker: WorkerId, now_ms: u64, asked: Result<(), Bad>) -> Scraped {
        let (outcome, problem) = match asked {
            Ok(()) => (Scraped::Good, None),
            Err((outcome, words)) => (outcome, Some(words)),
        };
        let mut trouble = self.trouble.lock();
        if let Some(why) = &problem
            && let Some(unsaid) = trouble.log.tell(now_ms)
        {
            tracing::warn!(%worker, why, unsaid, "a worker's engine doesn't say how much it has to do");
        }
        trouble.now = problem;
        // Who sees the count sees the problem, too.
        if let Some(count) = self.counts.get(outcome as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

/// Asks once, and tells the partition what it hears.
async fn ask(whose: Whose<'_>, config: &LoadReportsConfig, at_ms: u64) -> Result<(), Bad> {
    let path = &*config.path;
    let answer = timeout(config.timeout, whose.target.get(path, MOST_BYTES)).await;
    let (status, page) = match answer {
        Err(_) => {
            let limit = config.timeout.as_millis();
            return Err((Scraped::Late, format!("GET {path} had no answer within {limit} ms")));
        }
        Ok(Err(Unasked::Worker(words))) => return Err((Scraped::Failed, words)),
        Ok(Err(Unasked::Shortage(error))) => return Err((Scraped::Shortage, error.to_string())),
        Ok(Ok(answer)) => answer,
    };
    if !status.is_success() {
        return Err((Scraped::Status, format!("GET {path} answered {status}")));
    }
    let gone = || (Scraped::Useless, "the worker has left".to_owned());
    let worker = whose.dispatcher.router().worker(whose.id).ok_or_else(gone)?;
    let (first, size) =
        (worker.spec.data_parallel_start_rank, worker.spec.data_parallel_size.get());
    let bytes = page.len();
    let read = aside(bytes, move || page::read(&String::from_utf8_lossy(&page), first, size)).await;
    let read =
        read.map_err(|error| (Scraped::Shortage, format!("GET {path}: can't read it: {error}")))?;
    let said = read.map_err(|error| {
        let outcome = match error {
            Unreadable::Malformed { .. } => Scraped::Malformed,
            Unreadable::Nothing | Unreadable::Ranks(_) => Scraped::Useless,
        };
        (outcome, format!("GET {path}: {error}"))
    })?;
    tell(whose, &worker.spec, said, at_ms);
    Ok(())
}

/// Reads so many bytes: here, or where it keeps no request waiting.
async fn aside<R: Send + 'static>(
    bytes: usize,
    read: impl FnOnce() -> R + Send + 'static,
) -> Result<R, JoinError> {
    if bytes <= MOST_BYTES_AT_ONCE {
        return Ok(read());
    }
    tokio::task::spawn_blocking(read).await
}

/// Tells the partition what a page says.
fn tell(whose: Whose<'_>, spec: &WorkerSpec, said: BTreeMap<u32, Said>, at_ms: u64) {
    let Some(partition) = whose.dispatcher.router().partition(&spec.partition) else { return };
    for (rank, said) in said {
        let rank = WorkerRank { worker_id: whose.id, dp_rank: DpRank(rank) };
        let report = LoadReport {
            kv_cache_usage: said.usage,
            running_requests: said.running,
            waiting_requests: said.waiting,
            at_ms,
            ..LoadReport::default()
        };
        // One of an earlier life isn't taken.
        partition.report_load(rank, Some(whose.epoch), report);
    }
}

#[cfg(test)]
mod tests;
