//! When a cache that fails is asked again.
//!
//! After [`FAILURES`] failures in a row it is left alone for a second. Then one question may try it
//! while the others go on leaving it alone: an answer ends the rest; without one it lasts twice as
//! long as the last time, up to half a minute. Time is an argument.

/// Failures in a row that begin a rest. A few may be anything.
const FAILURES: u32 = 5;
/// The first rest.
const FIRST_MS: u64 = 1_000;
/// The longest.
const LONGEST_MS: u64 = 30_000;

/// How a cache has been doing.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// In a row, before a rest.
    failures: u32,
    /// Tries that have ended no rest yet.
    tries: u32,
    /// When the next try may be; none while there is no rest.
    until_ms: Option<u64>,
}

impl Rest {
    /// Whether it may be asked now. In a rest that is over this is the one try: the next rest has
    /// begun, and only an answer ends it. So a try that gets lost loses nothing but itself.
    pub(super) fn may_ask(&mut self, now_ms: u64) -> bool {
        match self.until_ms {
            None => true,
            Some(until_ms) if now_ms < until_ms => false,
            Some(_) => {
                self.tries = self.tries.saturating_add(1);
                self.until_ms = Some(now_ms.saturating_add(length_ms(self.tries)));
                true
            }
        }
    }

    /// It has answered. Returns whether that ends a rest.
    pub(super) fn answered(&mut self) -> bool {
        let rested = self.is_on();
        *self = Self::default();
        rested
    }

    /// It has failed. Returns whether a rest begins by that.
    pub(super) fn failed(&mut self, now_ms: u64) -> bool {
        if self.is_on() {
            // What was on its way when the rest began fails together.
            return false;
        }
        self.failures += 1;
        let begins = self.failures >= FAILURES;
        if begins {
            self.until_ms = Some(now_ms.saturating_add(length_ms(0)));
        }
        begins
    }

    /// Whether it is left alone.
    pub(super) fn is_on(&self) -> bool {
        self.until_ms.is_some()
    }
}

fn length_ms(tries: u32) -> u64 {
    (FIRST_MS << tries.min(5)).min(LONGEST_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resting() -> Rest {
        let mut rest = Rest::default();
        for nth in 1..=FAILURES {
            assert!(rest.may_ask(0));
            assert_eq!(rest.failed(0), nth == FAILURES);
        }
        rest
    }

    #[test]
    fn only_failures_in_a_row_count() {
        let mut rest = Rest::default();
        for _ in 0..10 {
            for _ in 1..FAILURES {
                assert!(!rest.failed(0));
            }
            assert!(!rest.answered());
        }
        assert!(!rest.is_on());
    }

    #[test]
    fn a_rest_lasts_longer_after_each_try_that_fails() {
        let (mut rest, mut now_ms) = (resting(), 0);
        for length in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            assert!(!rest.may_ask(now_ms + length - 1), "{length}");
            now_ms += length;
            assert!(rest.may_ask(now_ms), "{length}");
            assert!(!rest.may_ask(now_ms), "one try at a time");
            // Its own failure, and that of a straggler.
            assert!(!rest.failed(now_ms + 5) && !rest.failed(now_ms + 6));
            assert!(rest.is_on());
        }
    }

    #[test]
    fn an_answer_ends_a_rest_and_all_that_was_before_it() {
        let mut rest = resting();
        assert!(rest.may_ask(1_000) && rest.may_ask(3_000));
        assert!(rest.answered());
        assert!(rest.may_ask(3_000) && !rest.is_on());
        for nth in 1..=FAILURES {
            assert_eq!(rest.failed(4_000), nth == FAILURES);
        }
        assert!(!rest.may_ask(4_999) && rest.may_ask(5_000), "the first rest is short again");
    }

    #[test]
    fn time_at_its_end_is_no_trouble() {
        let mut rest = Rest::default();
        for _ in 0..FAILURES {
            rest.failed(u64::MAX);
        }
        assert!(rest.may_ask(u64::MAX));
    }
}
