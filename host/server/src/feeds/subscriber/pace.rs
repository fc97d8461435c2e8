//! How often an engine is asked for old batches.
//!
//! Owns the pause between two requests: short at first, then twice as long each time, until none was
//! needed for a while. Each answer has all that is missing up to then, so that of many gaps in a row
//! most are filled by the request that waited. It doesn't know the time, or what is missing.

use std::time::Duration;

use tokio::time::Instant;

use super::Timing;

/// The longest pause: live batches wait in the sockets meanwhile.
const LONGEST: Duration = Duration::from_secs(1);

/// When the engine was asked last, and how long it is left alone after that.
#[derive(Debug)]
pub(super) struct Pace {
    first: Duration,
    calm: Duration,
    pause: Duration,
    last: Option<Instant>,
}

impl Pace {
    pub(super) fn new(timing: &Timing) -> Self {
        let (first, calm) = (timing.first_retry.min(LONGEST), timing.last_retry);
        Self { first, calm, pause: first, last: None }
    }

    /// When the engine may be asked, if somebody wants to now: it counts as asked then.
    pub(super) fn next(&mut self, now: Instant) -> Instant {
        let Some(last) = self.last else {
            self.last = Some(now);
            return now;
        };
        let at = (last + self.pause).max(now);
        self.pause = match now.saturating_duration_since(last) > self.calm {
            true => self.first,
            false => (self.pause * 2).min(LONGEST),
        };
        self.last = Some(at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_again_and_again_waits_ever_longer_until_it_is_calm() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::new(&Timing::default());
        let mut now = start;
        let mut asked = vec![];
        for _ in 0..8 {
            now = pace.next(now);
            asked.push(now);
        }
        assert_eq!(asked, [0, 100, 300, 700, 1_500, 2_500, 3_500, 4_500].map(at));
        // Not at once: it has waited long enough.
        assert_eq!(pace.next(at(6_000)), at(6_000));
        assert_eq!(pace.next(at(6_001)), at(7_000));
        assert_eq!(pace.next(at(20_000)), at(20_000));
        assert_eq!(pace.next(at(20_001)), at(20_100));
    }
}
