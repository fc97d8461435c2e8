//! The router's clock: the one source of [`Moment`]s.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pointsman_core::clock::{Chance, Moment, Stopwatch};

/// Tells the time since the router's start, and makes a fresh seed for each decision.
#[derive(Debug)]
pub struct RouterClock {
    started: Stopwatch,
    /// The same in milliseconds of Unix time, for people.
    started_unix_ms: u64,
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
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            started: Stopwatch::start(),
            started_unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
            seed,
            moments: AtomicU64::new(0),
        }
    }

    /// Milliseconds since the start.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// When something began that happened since the start, in milliseconds of Unix time: the same
    /// however often it is asked, and however the system's clock is set meanwhile.
    #[must_use]
    pub fn unix_ms_of(&self, began: &Stopwatch) -> u64 {
        let after = u64::try_from(began.started_after(&self.started).as_millis());
        self.started_unix_ms.saturating_add(after.unwrap_or(u64::MAX))
    }

    /// Now, with a fresh seed.
    #[must_use]
    pub fn moment(&self) -> Moment {
        let nth = self.moments.fetch_add(1, Ordering::Relaxed);
        let seed = Chance::new(self.seed.wrapping_add(nth)).bits();
        Moment { now_ms: self.now_ms(), seed }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_moment_has_a_seed_of_its_own_and_time_begins_with_the_router() {
        let clock = RouterClock::with_seed(7);
        let moments: Vec<Moment> = (0..10_000).map(|_| clock.moment()).collect();
        let seeds: BTreeSet<u64> = moments.iter().map(|moment| moment.seed).collect();
        assert_eq!(seeds.len(), moments.len());
        assert!(moments.is_sorted_by_key(|moment| moment.now_ms));
        assert!(moments[0].now_ms < 60_000, "since the start, and not since 1970");
    }
}
