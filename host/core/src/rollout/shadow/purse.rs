//! The time that a shadow may use.
//!
//! Owns what it has saved up, and what it owes. It doesn't know what the time is used for.

use std::time::Duration;

/// What it may take at once of the time that it has saved up.
const BURST: Duration = Duration::from_millis(50);

/// Time that may still be used.
#[derive(Debug, Default)]
pub(super) struct Purse {
    /// In nanoseconds; below zero it has used more than it may, and waits until that is earned.
    saved: i64,
    /// When it was last added to.
    at_ms: Option<u64>,
}

impl Purse {
    /// Adds what was earned since the last time, and says whether anything is there.
    pub(super) fn earn(&mut self, share: f64, now_ms: u64) -> bool {
        let since = self.at_ms.map_or(u64::MAX, |at| now_ms.saturating_sub(at));
        if since > 0 {
            self.at_ms = Some(now_ms);
            // A minute at most, so that nothing is lost by counting in floats.
            let earned = (since.min(60_000) as f64 * 1e6 * share) as i64;
            self.saved = self.saved.saturating_add(earned).min(nanos(BURST));
        }
        self.saved > 0
    }

    pub(super) fn pay(&mut self, time: Duration) {
        self.saved = self.saved.saturating_sub(nanos(time));
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
        let mut purse = Purse::default();
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
}
