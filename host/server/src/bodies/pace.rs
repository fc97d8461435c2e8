//! How fast a body comes.

use std::time::Duration;

use tokio::time::Instant;

/// What a client must send on the average of the time for which it may stand still, in bytes a
/// second. The slowest lines do; who sends a byte now and then to keep what it holds doesn't.
const LEAST: u64 = 1 << 10;

/// Who doesn't send so much in [`GRACE`] gives its room to others when there is no more, in bytes a
/// second.
const BRISK: u64 = 16 << 10;

/// See [`BRISK`].
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Bytes that are due within a time, again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    within: Duration,
    due: u64,
    came: u64,
    since: Instant,
}

impl Pace {
    /// What is asked of everybody.
    pub(crate) fn least(within: Duration, now: Instant) -> Self {
        Self::new(LEAST, within, now)
    }

    /// What is asked when room is short.
    pub(super) fn brisk(within: Duration, now: Instant) -> Self {
        Self::new(BRISK, within, now)
    }

    fn new(rate: u64, within: Duration, since: Instant) -> Self {
        let due = u128::from(rate) * within.as_millis() / 1_000;
        let due = u64::try_from(due).unwrap_or(u64::MAX).max(1);
        Self { within, due, came: 0, since }
    }

    /// So many bytes have come. When all have that are due, the time begins anew.
    pub(crate) fn note(&mut self, bytes: usize, now: Instant) {
        self.came = self.came.saturating_add(bytes as u64);
        if self.came >= self.due {
            (self.came, self.since) = (0, now);
        }
    }

    /// When it is too late for what is due.
    pub(crate) fn until(&self) -> Instant {
        self.since + self.within
    }

    /// For how long it has been too late; none if it isn't.
    pub(super) fn late(&self, now: Instant) -> Option<Duration> {
        now.checked_duration_since(self.until())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_what_is_due_in_time_is_never_late_and_who_drips_is() {
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(1_000, 10 * second, began);
        for nth in 1..=100 {
            pace.note(1_100, began + nth * second);
            assert_eq!(pace.late(began + nth * second), None, "{nth}");
        }
        let mut pace = Pace::new(1_000, 10 * second, began);
        for nth in 1..=10 {
            pace.note(1, began + nth * second);
        }
        assert_eq!(pace.late(began + 12 * second), Some(2 * second));
        pace.note(10_000, began + 12 * second);
        assert_eq!(pace.late(began + 12 * second), None);
    }
}
