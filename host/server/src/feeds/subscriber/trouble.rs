//! Whether the log should be told that a feed doesn't work, or works again.
//!
//! Owns the patience: engines take a while to start, and connections break, so nothing is told before a
//! feed has been down for long, and that it works only when it has for a while. Both are told once. It
//! doesn't know why a feed doesn't work.

use std::time::Duration;

use tokio::time::Instant;

use crate::feeds::stats::FeedState;

/// What has been seen of a feed, and told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trouble {
    down: Option<Instant>,
    live: Option<Instant>,
    is_told: bool,
}

/// What is news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It hasn't worked for so long.
    Down(Duration),
    /// It works again, after so long.
    Works(Duration),
}

impl Trouble {
    /// Takes a look; `patience` is how long a feed may be down.
    pub(super) fn look(
        &mut self,
        state: FeedState,
        now: Instant,
        patience: Duration,
    ) -> Option<News> {
        match state {
            FeedState::Live => {
                let live = *self.live.get_or_insert(now);
                // One that is live now and then, for a moment, doesn't work.
                let down = self.down.filter(|_| now - live >= patience / 2)?;
                let told = self.is_told;
                *self = Self { live: self.live, ..Self::default() };
                told.then(|| News::Works(now - down))
            }
            // It is talking to the engine.
            FeedState::Recovering => None,
            FeedState::Connecting | FeedState::Down => {
                self.live = None;
                let down = now - *self.down.get_or_insert(now);
                if self.is_told || down < patience {
                    return None;
                }
                self.is_told = true;
                Some(News::Down(down))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn a_feed_that_stays_down_is_told_once_and_once_when_it_works() {
        let (start, mut trouble) = (Instant::now(), Trouble::default());
        let mut look = |state, at| trouble.look(state, start + Duration::from_secs(at), PATIENCE);
        let seconds = Duration::from_secs;
        assert_eq!(look(FeedState::Connecting, 0), None);
        assert_eq!(look(FeedState::Down, 5), None);
        assert_eq!(look(FeedState::Down, 10), Some(News::Down(seconds(10))));
        assert_eq!(look(FeedState::Down, 3_600), None);
        assert_eq!(look(FeedState::Live, 3_605), None);
        assert_eq!(look(FeedState::Down, 3_610), None, "that was a moment");
        assert_eq!(look(FeedState::Recovering, 3_615), None);
        assert_eq!(look(FeedState::Live, 3_620), None);
        assert_eq!(look(FeedState::Live, 3_625), Some(News::Works(seconds(3_625))));
        assert_eq!(look(FeedState::Live, 3_630), None);
        assert_eq!(look(FeedState::Down, 3_635), None);
        assert_eq!(look(FeedState::Down, 3_645), Some(News::Down(seconds(10))));
    }

    #[test]
    fn a_feed_that_works_soon_is_nothing_to_tell() {
        let (start, mut trouble) = (Instant::now(), Trouble::default());
        let mut look = |state, at| trouble.look(state, start + Duration::from_secs(at), PATIENCE);
        for (state, at) in [
            (FeedState::Connecting, 0),
            (FeedState::Recovering, 5),
            (FeedState::Live, 20),
            (FeedState::Live, 25),
            (FeedState::Down, 30),
            (FeedState::Live, 35),
            (FeedState::Live, 40),
            (FeedState::Down, 45),
            (FeedState::Recovering, 500),
            (FeedState::Live, 505),
        ] {
            assert_eq!(look(state, at), None, "{at}");
        }
    }
}
