//! What happened to components, as counts. The server reads them for its metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// The counts of one engine.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) compiles: AtomicU64,
    pub(crate) compile_failures: AtomicU64,
    pub(crate) instances_made: AtomicU64,
    pub(crate) on_demand_instances: AtomicU64,
    pub(crate) pool_exhausted: AtomicU64,
    pub(crate) instances_lost: AtomicU64,
    pub(crate) instances_recycled: AtomicU64,
    pub(crate) replacements: AtomicU64,
    pub(crate) replacement_failures: AtomicU64,
    pub(crate) state_lost: AtomicU64,
    pub(crate) log_lines_dropped: AtomicU64,
}

/// The counts at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountersSnapshot {
    /// Components compiled, or taken from the cache.
    pub compiles: u64,
    /// Components refused at load.
    pub compile_failures: u64,
    /// Compilations that the cache on disk answered.
    pub cache_hits: u64,
    /// Compilations that it couldn't answer.
    pub cache_misses: u64,
    /// Instances made, replacements included.
    pub instances_made: u64,
    /// Those of them that live outside the pool.
    pub on_demand_instances: u64,
    /// Instances that didn't find room in the pool, and were made outside it.
    pub pool_exhausted: u64,
    /// Instances lost by a trap, or by fuel, deadline or memory running out.
    pub instances_lost: u64,
    /// Instances replaced for having too much memory.
    pub instances_recycled: u64,
    /// Replacements made for instances that were lost or had too much memory.
    pub replacements: u64,
    /// Attempts at a replacement that failed.
    pub replacement_failures: u64,
    /// Instances that were lost or replaced with state of their own.
    pub state_lost: u64,
    /// Log lines of guests that were over their limit.
    pub log_lines_dropped: u64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self, cache_hits: u64, cache_misses: u64) -> CountersSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CountersSnapshot {
            compiles: read(&self.compiles),
            compile_failures: read(&self.compile_failures),
            cache_hits,
            cache_misses,
            instances_made: read(&self.instances_made),
            on_demand_instances: read(&self.on_demand_instances),
            pool_exhausted: read(&self.pool_exhausted),
            instances_lost: read(&self.instances_lost),
            instances_recycled: read(&self.instances_recycled),
            replacements: read(&self.replacements),
            replacement_failures: read(&self.replacement_failures),
            state_lost: read(&self.state_lost),
            log_lines_dropped: read(&self.log_lines_dropped),
        }
    }
}
