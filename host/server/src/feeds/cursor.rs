//! Where we are in one engine's batches: what to apply, what to ask for again, and when the engine
//! has begun anew.
//!
//! Owns the numbers of the batches of one rank and nothing else: no sockets, no clock, no events.
//! [`super::subscriber`] tells it what arrives and does what it says.
//!
//! # What it goes by
//!
//! An engine numbers its batches from 0 and can send the last ones again. Nothing names the process
//! that numbered them, so a restart shows in three ways only:
//!
//! * a number below the next one, on the connection of live events, that no replay has brought;
//! * after a new connection, when the engine is asked for the last batch that we know: it has none
//!   with that number, or one that was published at another time;
//! * the same when a gap is filled, which begins with the last known batch for that reason.
//!
//! A gap is asked for once. Meanwhile, and when it can't be filled, what is known stays in use. No
//! engine publishes billions of batches while we look away: a number so far ahead is one of another
//! process too, or a lie, and none between are lost.

#[cfg(test)]
mod tests;

/// No gap is wider: at a thousand batches a second, that takes seven weeks.
const WIDEST_GAP: u64 = 1 << 32;

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Apply it.
    Apply,
    /// Leave it: it was applied before.
    Duplicate,
    /// Keep it, ask for those from `from` on, and offer it again when that has ended.
    Recover {
        /// The first to be asked for.
        from: u64,
    },
}

/// What a live batch leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Clear the rank first: its engine has begun anew.
    pub clear: bool,
    /// Then this.
    pub verdict: Verdict,
}

/// What to do with a batch that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// Apply it.
    Apply,
    /// Leave it: it is known.
    Known,
    /// Another engine is there: clear the rank, leave the rest of this answer, and ask for all
    /// batches from the first on.
    Restarted,
}

/// What the end of an answer leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The engine has begun anew: clear the rank, and ask for all batches from the first on.
    pub restarted: bool,
}

/// What has been seen, counted since it was last asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Gaps in the sequence.
    pub gaps: u64,
    /// Batches that are lost for good.
    pub lost: u64,
    /// Batches that came twice.
    pub duplicates: u64,
    /// Restarts of the engine.
    pub restarts: u64,
}

/// A request for old batches that is under way.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// The first that was asked for.
    from: u64,
    /// The live batch that showed the gap; none after a new connection.
    until: Option<u64>,
    /// Whether `from` is a batch that we know, to tell the engine by.
    checks: bool,
    /// Whether anything from `from` on has come.
    answered: bool,
}

/// Where we are in one engine's batches.
#[derive(Debug)]
pub struct Cursor {
    can_replay: bool,
    /// The number of the next batch.
    next: u64,
    /// When the one before was published, if it was seen and could be read.
    last_ts: Option<f64>,
    /// The last live batch of this connection.
    live: Option<u64>,
    /// The batches that a replay has brought on this connection.
    covered: Option<(u64, u64)>,
    recovery: Option<Recovery>,
    tally: Tally,
}

impl Cursor {
    /// Before the first batch of an engine. `can_replay` says whether it can be asked for old ones.
    #[must_use]
    pub fn new(can_replay: bool) -> Self {
        Self {
            can_replay,
            next: 0,
            last_ts: None,
            live: None,
            covered: None,
            recovery: None,
            tally: Tally::default(),
        }
    }

    /// Whether the engine can be asked for old batches.
    #[must_use]
    pub fn can_replay(&self) -> bool {
        self.can_replay
    }

    /// The number of the batch that comes next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// What has been seen since the last call.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// A connection was made, the first or another. Returns from where on to ask for batches,
    /// before any live one is offered.
    pub fn opened(&mut self) -> Option<u64> {
        self.live = None;
        self.covered = None;
        self.recovery = None;
        self.can_replay.then(|| self.recover(None))
    }

    /// The connection is old enough for everything published to arrive. Returns from where on to
    /// ask for batches, to see whether the last ones did.
    pub fn settle(&mut self) -> Option<u64> {
        self.can_replay.then(|| self.recover(None))
    }

    /// All that is known of the rank was given up, though the engine is the same. Returns from
    /// where on to ask for batches, if that can be.
    pub fn refill(&mut self) -> Option<u64> {
        if !self.can_replay {
            return None;
        }
        self.next = 0;
        self.last_ts = None;
        self.covered = None;
        Some(self.recover(None))
    }

    /// A live batch has come; `ts` is none if it can't be read.
    pub fn live(&mut self, seq: u64, ts: Option<f64>) -> Judged {
        let mut clear = false;
        if seq < self.next {
            if self.is_covered(seq) {
                self.live = Some(seq);
                more(&mut self.tally.duplicates, 1);
                return Judged { clear, verdict: Verdict::Duplicate };
            }
            self.restart();
            clear = true;
        }
        if self.next > 0 && seq.saturating_sub(self.next) > WIDEST_GAP {
            self.restart();
            clear = true;
        }
        if seq > self.next {
            more(&mut self.tally.gaps, 1);
            if self.can_replay {
                return Judged {
                    clear,
                    verdict: Verdict::Recover { from: self.recover(Some(seq)) },
                };
            }
        }
        self.advance(seq, ts);
        self.live = Some(seq);
        Judged { clear, verdict: Verdict::Apply }
    }

    /// A batch has come that was asked for.
    pub fn replayed(&mut self, seq: u64, ts: Option<f64>) -> Replayed {
        let Some(mut recovery) = self.recovery else { return Replayed::Known };
        if recovery.checks
            && !recovery.answered
            && seq == recovery.from
            && let (Some(known), Some(ts)) = (self.last_ts, ts)
            && known.to_bits() != ts.to_bits()
        {
            self.restart();
            self.recover(recovery.until);
            return Replayed::Restarted;
        }
        recovery.answered |= seq >= recovery.from;
        self.recovery = Some(recovery);
        self.covered = match self.covered {
            Some((first, last)) => Some((first.min(seq), last.max(seq))),
            None => Some((seq, seq)),
        };
        if seq < self.next {
            return Replayed::Known;
        }
        if seq > self.next && recovery.until.is_none() {
            more(&mut self.tally.gaps, 1);
        }
        self.advance(seq, ts);
        Replayed::Apply
    }

    /// An answer has ended; `complete` is false if it was given up.
    pub fn replay_ended(&mut self, complete: bool) -> Ended {
        let Some(recovery) = self.recovery.take() else { return Ended::default() };
        match recovery.until {
            Some(until) if self.next < until => {
                self.lose(until);
                self.next = until;
                self.last_ts = None;
            }
            // Nothing is live yet, and the engine doesn't have the batch that it sent last.
            None if complete && recovery.checks && !recovery.answered && self.live.is_none() => {
                self.restart();
                self.recover(None);
                return Ended { restarted: true };
            }
            _ => {}
        }
        Ended::default()
    }

    fn is_covered(&self, seq: u64) -> bool {
        self.covered.is_some_and(|(first, last)| (first..=last).contains(&seq))
            && self.live.is_none_or(|live| live < seq)
    }

    fn advance(&mut self, seq: u64, ts: Option<f64>) {
        self.lose(seq);
        self.next = seq.saturating_add(1);
        self.last_ts = ts;
    }

    /// Those before this one won't come any more.
    fn lose(&mut self, seq: u64) {
        let lost = seq.saturating_sub(self.next);
        if lost <= WIDEST_GAP {
            more(&mut self.tally.lost, lost);
        }
    }

    fn restart(&mut self) {
        more(&mut self.tally.restarts, 1);
        self.next = 0;
        self.last_ts = None;
        self.live = None;
        self.covered = None;
    }

    /// Begins to ask, from the last known batch on.
    fn recover(&mut self, until: Option<u64>) -> u64 {
        let known = self.next.checked_sub(1).filter(|_| self.last_ts.is_some());
        let from = known.unwrap_or(self.next);
        self.recovery = Some(Recovery { from, until, checks: known.is_some(), answered: false });
        from
    }
}

/// An engine may name any number: a count that is full stays so.
fn more(count: &mut u64, by: u64) {
    *count = count.saturating_add(by);
}
