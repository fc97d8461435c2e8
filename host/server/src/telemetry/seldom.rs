//! Log lines that may be due again and again.
//!
//! Owns how often the log is told the same thing: at once, then once a minute at most, and how often
//! it was kept quiet about in between. It doesn't know the time, or what is told.

/// Between two lines.
const QUIET_MS: u64 = 60_000;

/// One thing that the log is told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seldom {
    told_ms: Option<u64>,
    kept: u64,
}

impl Seldom {
    /// There is something to tell. If it may be told now: how often it was kept back since it was
    /// told last. It counts as told then.
    pub(crate) fn tell(&mut self, now_ms: u64) -> Option<u64> {
        if self.told_ms.is_some_and(|told| now_ms.saturating_sub(told) < QUIET_MS) {
            self.kept = self.kept.saturating_add(1);
            return None;
        }
        self.told_ms = Some(now_ms);
        Some(std::mem::take(&mut self.kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_at_once_and_then_once_a_minute_with_how_often_it_was_not() {
        let mut seldom = Seldom::default();
        assert_eq!(seldom.tell(5), Some(0));
        for now_ms in [5, 6, 60_004] {
            assert_eq!(seldom.tell(now_ms), None);
        }
        assert_eq!(seldom.tell(60_005), Some(3));
        assert_eq!(seldom.tell(60_006), None);
        assert_eq!(seldom.tell(200_000), Some(1));
        assert_eq!(seldom.tell(260_000), Some(0));
    }
}
