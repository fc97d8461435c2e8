//! For how long requests have waited.

use serde::Serialize;

/// How many requests have waited for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// By [`Waits::BOUNDS_MS`]: those that waited for no longer than that, and for longer than the
    /// bound before; behind them those that waited for longer than all.
    pub counts: [u64; Self::BOUNDS_MS.len() + 1],
    /// Milliseconds of all, added up.
    pub sum_ms: u64,
}

impl Waits {
    /// In milliseconds: from a wait that nobody notices to one that no client sits through.
    pub const BOUNDS_MS: [u64; 14] =
        [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 120_000];

    pub(super) fn note(&mut self, waited_ms: u64) {
        let at = Self::BOUNDS_MS.partition_point(|bound| *bound < waited_ms);
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
        self.sum_ms = self.sum_ms.saturating_add(waited_ms);
    }

    /// How many have.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_counts_once_at_the_first_bound_that_it_does_not_exceed() {
        let mut waits = Waits::default();
        for ms in [0, 1, 2, 120_000, 120_001, u64::MAX] {
            waits.note(ms);
        }
        assert_eq!(waits.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!((waits.count(), waits.sum_ms), (6, u64::MAX));
    }
}
