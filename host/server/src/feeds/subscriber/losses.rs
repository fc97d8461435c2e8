//! What the log is told of lost batches and of engines that begin anew.
//!
//! Owns how often: an engine whose numbers jump makes a loss of each batch, so each rank tells at once
//! and then once a minute at most, with all that there was in between. It doesn't know why batches
//! are lost.

use pointsman_core::ids::WorkerRank;

use crate::feeds::cursor::Tally;
use crate::telemetry::Seldom;

/// What one rank's feed tells.
#[derive(Debug, Default)]
pub(super) struct Log {
    losses: Seldom,
    restarts: Seldom,
    /// Batches lost since the log was told of some.
    lost: u64,
    /// Restarts since the log was told of one.
    restarted: u64,
}

/// What is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Due {
    lost: Option<u64>,
    restarted: Option<u64>,
}

impl Log {
    /// Takes in what has been counted since the last call, and tells what is due.
    pub(super) fn note(&mut self, tally: Tally, rank: WorkerRank, can_replay: bool, now_ms: u64) {
        let due = self.due(tally, now_ms);
        if let Some(times) = due.restarted {
            tracing::info!(
                %rank, times,
                "the engine has restarted: its blocks are forgotten; more of this is logged in a \
                 minute at the earliest"
            );
        }
        if let Some(lost) = due.lost {
            tracing::warn!(
                %rank, lost,
                "batches of cache events are lost; {}; more of this is logged in a minute at the \
                 earliest",
                remedy(can_replay)
            );
        }
    }

    fn due(&mut self, tally: Tally, now_ms: u64) -> Due {
        let mut due = Due::default();
        if tally.restarts > 0 {
            self.restarted = self.restarted.saturating_add(tally.restarts);
            due.restarted = told(&mut self.restarts, &mut self.restarted, now_ms);
        }
        if tally.lost > 0 {
            self.lost = self.lost.saturating_add(tally.lost);
            due.lost = told(&mut self.losses, &mut self.lost, now_ms);
        }
        due
    }
}

fn told(seldom: &mut Seldom, count: &mut u64, now_ms: u64) -> Option<u64> {
    seldom.tell(now_ms).map(|_| std::mem::take(count))
}

fn remedy(can_replay: bool) -> &'static str {
    match can_replay {
        true => "raise the engine's buffer_steps or hwm",
        false => "set the worker's replay_endpoint, so that they can be asked for again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_losses_the_log_has_the_first_and_then_their_sum_once_a_minute() {
        let mut log = Log::default();
        let tally = Tally { lost: 3, restarts: 1, ..Tally::default() };
        assert_eq!(log.due(tally, 0), Due { lost: Some(3), restarted: Some(1) });
        for nth in 1..1_000 {
            assert_eq!(log.due(tally, nth), Due::default());
        }
        let only_lost = Tally { restarts: 0, ..tally };
        assert_eq!(log.due(only_lost, 60_000), Due { lost: Some(3_000), restarted: None });
        assert_eq!(log.due(tally, 60_001), Due { lost: None, restarted: Some(1_000) });
        assert_eq!(log.due(Tally::default(), 500_000), Due::default());
    }

    #[test]
    fn the_remedy_is_one_that_helps() {
        assert!(remedy(false).contains("replay_endpoint") && !remedy(false).contains("buffer"));
        assert!(remedy(true).contains("buffer_steps"));
    }
}
