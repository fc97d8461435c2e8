//! The router's clock: the one source of [`Moment`]s.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use pointsman_core::clock::{Chance, Moment, Stopwatch};

/// Tells the time since the router's start, and makes a fresh seed for each decision.
#[derive(Debug)]
pub struct RouterClock {
    started: Stopwatch,
    seed: u64,
    moments: AtomicU64,
}

impl RouterClock {
    /// A clock that starts now, with a seed from the operating system.
    #[must_use]
    pub fn start() -> Self {
        // The standard library seeds its hashers from the system; that is all that is wanted here.
        Self::with_seed(RandomState::new().build_hasher().finish())
    }

    /// A clock that starts now, whose seeds are the same in every run.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        Self { started: Stopwatch::start(), seed, moments: AtomicU64::new(0) }
    }

    /// Milliseconds since the start.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Now, with a fresh seed.
    #[must_use]
    pub fn moment(&self) -> Moment {
        let nth = self.moments.fetch_add(1, Ordering::Relaxed);
        let seed = Chance::new(self.seed.wrapping_add(nth)).bits();
        Moment { now_ms: self.now_ms(), seed }
    }
}
