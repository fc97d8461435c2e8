//! What all connections of one mock engine share.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::config::MockConfig;
use super::control::ControlHandle;
use super::handover::Handovers;
use super::prefix_cache::PrefixCache;
use super::request::Job;
use super::stats::{Stats, StatsSnapshot};

/// The vLLM version whose recordings the answers follow.
pub(super) const VERSION: &str = "0.32.0";

/// How often a frozen engine looks whether it has thawed.
pub(super) const THAW_CHECK: Duration = Duration::from_millis(10);

/// The parts of a mock engine that its connections share.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) config: MockConfig,
    pub(super) control: ControlHandle,
    pub(super) stats: Arc<Stats>,
    /// What it has for other engines.
    pub(super) handovers: Handovers,
    /// Where it listens.
    pub(super) addr: SocketAddr,
    prefixes: PrefixCache,
    /// `config.name`, ready to be sent.
    pub(super) signature: HeaderValue,
    /// `vllm-<version>-<name>`: where a real one has its build, this one has its name.
    pub(super) fingerprint: String,
    /// When it started, in seconds since 1970.
    pub(super) created: u64,
    /// One seat a sequence. Tokio's semaphore is fair, so it is the queue as well.
    seats: Arc<Semaphore>,
}

impl Engine {
    pub(super) fn new(config: MockConfig, addr: SocketAddr) -> io::Result<Self> {
        let signature = HeaderValue::from_str(&config.name).map_err(io::Error::other)?;
        let seats = (config.max_num_seqs as usize).min(Semaphore::MAX_PERMITS);
        Ok(Self {
            control: ControlHandle::default(),
            stats: Arc::new(Stats::default()),
            handovers: Handovers::new(&config.name),
            addr,
            prefixes: PrefixCache::new(config.block_size, config.total_kv_blocks),
            signature,
            fingerprint: format!("vllm-{VERSION}-{}", config.name),
            created: unix_seconds(),
            seats: Arc::new(Semaphore::new(seats)),
            config,
        })
    }

    /// Waits for its turn in the order of arrival, and takes a seat for each sequence. A request with more sequences than
    /// there are seats takes them all.
    pub(super) fn turn(
        &self,
        sequences: usize,
    ) -> impl Future<Output = OwnedSemaphorePermit> + Send + use<> {
        let (seats, wanted) =
            (self.seats.clone(), sequences.min(self.config.max_num_seqs as usize) as u32);
        async move { seats.acquire_many_owned(wanted).await.expect("the seats are never closed") }
    }

    /// Returns when the engine isn't frozen, which usually is at once.
    pub(super) async fn thawed(&self) {
        while self.control.frozen() {
            tokio::time::sleep(THAW_CHECK).await;
        }
    }

    /// What it has counted.
    pub(super) fn snapshot(&self) -> StatsSnapshot {
        StatsSnapshot {
            kept: self.handovers.waiting(),
            handed_over: self.handovers.given.load(Relaxed),
            fetched: self.handovers.fetched.load(Relaxed),
            ..self.stats.snapshot()
        }
    }

    /// A job's prompts are computed. Returns how many of their tokens are in the prefix cache.
    pub(super) fn compute(&self, job: &Job) -> u64 {
        let salt = job.cache_salt.as_deref();
        job.prompts.iter().map(|prompt| self.prefixes.compute(salt, &prompt.tokens)).sum()
    }

    /// How many KV blocks so many tokens fill.
    pub(super) fn blocks(&self, tokens: usize) -> u64 {
        (tokens as u64).div_ceil(u64::from(self.config.block_size))
    }
}

/// Seconds since 1970; zero for a clock before that.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
