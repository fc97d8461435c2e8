//! The engine: the settings of all compiled code, and the threads that serve all instances.
//!
//! Owns two wasmtime engines with the same settings. One takes instances from a pool of slots that
//! are mapped once; the other makes each on demand, for components that don't fit a slot and for
//! when the pool is full. Code compiled for one serves the other out of the cache on disk.
//! Knows nothing of what a component exports.

mod cache;
pub(crate) mod maker;
mod ticker;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::policy::Limits;
use thiserror::Error;
use wasmtime::{Cache, Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::counters::{Counters, CountersSnapshot};
use crate::limits::clamped;
use maker::Maker;

/// One tick of the clock that ends calls: a fifth of the shortest deadline.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Core instances of a component that fits a pool slot: a Rust component has three.
const CORE_INSTANCES_PER_SLOT: u32 = 12;
/// Bytes that a freed slot keeps mapped, so that the next instance finds them without a page fault.
const KEPT_RESIDENT: usize = 256 << 10;

/// How the engine is set up.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Slots of the pool: instances that can live in it at once. 0 leaves the pool out.
    pub pooled_instances: u32,
    /// Where compiled code is kept between runs; none keeps nothing. The folder is made with mode
    /// 0700, and one that another user owns is refused: what is in it runs as native code.
    pub cache_dir: Option<PathBuf>,
    /// The largest component that is taken, in bytes.
    pub most_component_bytes: u64,
    /// From how many bytes on a component counts as large: it gets more memory, outside the pool.
    pub large_component_bytes: u64,
    /// How long a folder's component may be compiled, before it is given up.
    pub compile_timeout: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            pooled_instances: 256,
            cache_dir: None,
            // Python components have 18 MB.
            most_component_bytes: 64 << 20,
            // Rust and C components stay far below; any interpreter is above: QuickJS has 1.6 MB.
            large_component_bytes: 1 << 20,
            // A Python component takes 24 s of one core.
            compile_timeout: Duration::from_secs(120),
        }
    }
}

/// Why there is no engine.
#[derive(Debug, Error)]
pub enum EngineError {
    /// wasmtime can't do what is asked of it on this machine.
    #[error(
        "the WebAssembly engine can't be set up: {0}; check that this machine's architecture is supported"
    )]
    Setup(String),
    /// A thread can't be started.
    #[error(
        "a thread of the WebAssembly engine can't be started: {0}; check the limits on threads"
    )]
    Thread(#[from] std::io::Error),
}

/// The engine. Cheap to clone; its threads end with the last clone and the last instance.
#[derive(Clone)]
pub struct PolicyEngine {
    inner: Arc<Inner>,
}

struct Inner {
    config: EngineConfig,
    pooled: Option<Engine>,
    on_demand: Engine,
    cache: Option<Cache>,
    counters: Arc<Counters>,
    maker: Maker,
}

impl PolicyEngine {
    /// Sets the engine up. A pool or a cache that can't be had is done without, with a warning.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        let cache = config.cache_dir.as_deref().and_then(|dir| match cache::open(dir) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(%error, "compiled components are not kept between runs");
                None
            }
        });
        let on_demand = Engine::new(&settings(cache.clone()))
            .map_err(|error| EngineError::Setup(format!("{error:#}")))?;
        let pooled = match config.pooled_instances {
            0 => None,
            slots => match Engine::new(settings(cache.clone()).allocation_strategy(pool(slots))) {
                Ok(engine) => Some(engine),
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(error, slots, "no pool of instances: each is made on demand");
                    None
                }
            },
        };
        ticker::start(pooled.iter().chain([&on_demand]).map(Engine::weak).collect())?;
        let counters = Arc::default();
        let maker = Maker::start()?;
        Ok(Self { inner: Arc::new(Inner { config, pooled, on_demand, cache, counters, maker }) })
    }

    /// How it was set up.
    #[must_use]
    pub fn config(&self) -> &EngineConfig {
        &self.inner.config
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> CountersSnapshot {
        let cache = self.inner.cache.as_ref();
        let hits = cache.map_or(0, Cache::cache_hits) as u64;
        let misses = cache.map_or(0, Cache::cache_misses) as u64;
        self.inner.counters.snapshot(hits, misses)
    }

    pub(crate) fn counts(&self) -> &Arc<Counters> {
        &self.inner.counters
    }

    pub(crate) fn pooled(&self) -> Option<&Engine> {
        self.inner.pooled.as_ref()
    }

    pub(crate) fn on_demand(&self) -> &Engine {
        &self.inner.on_demand
    }

    pub(crate) fn maker(&self) -> &Maker {
        &self.inner.maker
    }
}

impl fmt::Debug for PolicyEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { config, pooled, counters, .. } = &*self.inner;
        f.debug_struct("PolicyEngine")
            .field("config", config)
            .field("pooled", &pooled.is_some())
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}

/// What compiled code depends on: the same for both engines, so that one cache serves both.
fn settings(cache: Option<Cache>) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        // A decision gives the same bits here and in the native build of the same policy.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        // Calls are synchronous; the machinery for others would only cost.
        .concurrency_support(false)
        // One component, one thread: the threads that would share it are one pool for all, in which
        // a small component waits for a large one. See the catalogue's page.
        .parallel_compilation(false)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        .cache(cache);
    config
}

fn pool(slots: u32) -> InstanceAllocationStrategy {
    let mut pool = PoolingAllocationConfig::new();
    let memory = clamped(Limits::SMALL_MEMORY);
    pool.total_component_instances(slots)
        .total_core_instances(slots.saturating_mul(4))
        .max_core_instances_per_component(CORE_INSTANCES_PER_SLOT)
        .total_memories(slots)
        .max_memories_per_component(2)
        .total_tables(slots.saturating_mul(2))
        .max_tables_per_component(4)
        .max_memory_size(memory)
        .table_elements(clamped(Limits::SMALL_TABLE_ELEMENTS))
        // Only synchronous calls, so that one stack is one too many.
        .total_stacks(1)
        .linear_memory_keep_resident(KEPT_RESIDENT)
        .table_keep_resident(16 << 10)
        .max_unused_warm_slots(16);
    InstanceAllocationStrategy::Pooling(pool)
}
