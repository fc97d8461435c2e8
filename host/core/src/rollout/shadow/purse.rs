//! The time that a shadow may use.
//!
//! Owns what it has saved up, and what it owes. It doesn't know what the time is used for.
//!
//! Those who decide look into it each time, so they don't count each time: as long as it was found to
//! hold something lately, and nobody has emptied it since, a glance is enough.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// What it may take at once of the time that it has saved up.
const BURST: Duration = Duration::from_millis(50);

/// Milliseconds that may pass before what they have earned is added. What was used meanwhile comes out
/// of savings that may have been full, so it may take more at once by what it earns in this time.
const UNCOUNTED_MS: u64 = 8;

/// When it was found to hold something, if it was found empty since.
const EMPTY: u64 = u64::MAX;

/// Time that may still be used.
#[derive(Debug)]
pub(super) struct Purse {
    savings: Mutex<Savings>,
    /// When it was last found to hold something. Changes under the lock only.
    held_at_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct Savings {
    /// In nanoseconds; below zero it has used more than it may, and waits until that is earned.
    saved: i64,
    /// When it was last added to.
    at_ms: Option<u64>,
}

impl Default for Purse {
    fn default() -> Self {
        Self { savings: Mutex::default(), held_at_ms: AtomicU64::new(EMPTY) }
    }
}

impl Purse {
    /// Says whether anything is there, of what was earned until now.
    pub(super) fn earn(&self, share: f64, now_ms: u64) -> bool {
        let held_at_ms = self.held_at_ms.load(Ordering::Relaxed);
        if held_at_ms != EMPTY && now_ms.wrapping_sub(held_at_ms) < UNCOUNTED_MS {
            return true;
        }
        let mut savings = self.savings.lock();
        savings.earn(share, now_ms);
        self.held_at_ms.store(savings.held_at_ms().unwrap_or(EMPTY), Ordering::Relaxed);
        savings.saved > 0
    }

    pub(super) fn pay(&self, time: Duration) {
        let mut savings = self.savings.lock();
        savings.saved = savings.saved.saturating_sub(nanos(time));
        if savings.saved <= 0 {
            self.held_at_ms.store(EMPTY, Ordering::Relaxed);
        }
    }
}

impl Savings {
    /// When it was last added to, if anything is there.
    fn held_at_ms(&self) -> Option<u64> {
        self.at_ms.filter(|_| self.saved > 0)
    }

    /// Adds what was earned since the last time.
    fn earn(&mut self, share: f64, now_ms: u64) {
        let since = self.at_ms.map_or(u64::MAX, |at| now_ms.saturating_sub(at));
        if since > 0 {
            self.at_ms = Some(now_ms);
            // A minute at most, so that nothing is lost by counting in floats.
            let earned = (since.min(60_000) as f64 * 1e6 * share) as i64;
            self.saved = self.saved.saturating_add(earned).min(nanos(BURST));
        }
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_beyond_the_budget_is_earned_before_more_is_used() {
        let purse = Purse::default();
        assert!(purse.earn(0.01, 1_000), "it begins with something");
        purse.pay(Duration::from_secs(1));
        assert!(!purse.earn(0.01, 1_001), "a hundredth of a millisecond is no second");
        // A second at a hundredth takes 95 seconds, beside the 50 ms that it had.
        assert!(!purse.earn(0.01, 61_000));
        assert!(!purse.earn(0.01, 90_000));
        assert!(purse.earn(0.01, 96_100));
        // Nor is more saved up than a little.
        assert!(purse.earn(1.0, 10_000_000));
        purse.pay(BURST);
        assert!(!purse.earn(0.01, 10_000_000));
    }

    #[test]
    fn what_was_earned_uncounted_is_added_once_and_is_little() {
        let purse = Purse::default();
        let saved = || purse.savings.lock().saved;
        assert!(purse.earn(0.5, 1_000));
        purse.pay(Duration::from_millis(20));
        let before = saved();
        assert!(purse.earn(0.5, 1_000 + UNCOUNTED_MS - 1));
        assert_eq!(saved(), before, "a glance is enough");
        assert!(purse.earn(0.5, 1_000 + UNCOUNTED_MS));
        assert_eq!(saved() - before, UNCOUNTED_MS as i64 * 500_000);
        // Who has emptied it isn't trusted by what it held a moment ago.
        purse.pay(BURST);
        assert!(!purse.earn(0.5, 1_000 + UNCOUNTED_MS));
        let owed = -saved();
        let until = 1_000 + UNCOUNTED_MS + owed as u64 / 500_000 + 1;
        assert!(purse.earn(0.5, until));
        assert!(saved() <= 500_000, "all that it owed was taken off");
    }

    #[test]
    fn no_more_than_its_share_is_used_however_often_it_is_asked() {
        // It uses what it is let use, each millisecond.
        for every_ms in [1, 3, UNCOUNTED_MS, 20] {
            let (purse, share) = (Purse::default(), 0.1);
            let mut used = 0;
            for now_ms in (0..10_000).step_by(every_ms as usize) {
                if purse.earn(share, now_ms) {
                    purse.pay(Duration::from_millis(2));
                    used += 2;
                }
            }
            let most = 1_000 + BURST.as_millis() + 2;
            assert!((900..=most).contains(&used) || every_ms == 20, "{used} of {most} ms");
            assert!(used <= most, "{used} of {most} ms");
        }
    }
}
