//! What became of decisions, for the policies that learn from it.
//!
//! Owns one partition's events that wait to be told, in order and bounded, and the rule that a
//! decision ends once. It doesn't know who is told, or when.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock::Stopwatch;
use crate::ids::{DecisionId, WorkerRank};

/// Events that may wait: some seconds of a busy partition. The oldest give way.
pub const MOST_WAITING: usize = 16_384;

/// Events that are told in one call.
pub const MOST_AT_ONCE: usize = 256;

/// Characters of the reason of a failure.
const MOST_REASON: usize = 200;

/// One thing that happened to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutcomeEvent {
    /// The router turns to the worker with the request.
    Dispatched,
    /// The worker's first output arrived.
    FirstToken,
    /// Nothing more happens to it.
    Ended(Ending),
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The answer ended well.
    Completed {
        /// How many tokens it had; 0 where they couldn't be counted.
        output_tokens: u64,
    },
    /// There was no answer, or it failed.
    Failed {
        /// How, in a few words.
        reason: Arc<str>,
    },
    /// The client went away.
    Cancelled,
}

impl Ending {
    /// A failure for that reason, cut to a bounded length.
    #[must_use]
    pub fn failed(reason: &str) -> Self {
        let end = reason.char_indices().nth(MOST_REASON).map_or(reason.len(), |(at, _)| at);
        Self::Failed { reason: reason[..end].into() }
    }
}

impl From<Ending> for OutcomeEvent {
    fn from(ending: Ending) -> Self {
        Self::Ended(ending)
    }
}

/// An event, with what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionOutcome {
    /// The decision, as on its receipt.
    pub decision_id: DecisionId,
    /// The worker that it chose.
    pub worker: WorkerRank,
    /// When, on the clock of [`Moment::now_ms`](crate::clock::Moment::now_ms).
    pub at_ms: u64,
    /// What.
    pub event: OutcomeEvent,
}

/// The events of one partition that wait to be told.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Whether anybody is to be told.
    wanted: AtomicBool,
    waiting: Mutex<VecDeque<DecisionOutcome>>,
    told: AtomicU64,
    lost: AtomicU64,
    /// Somebody is at telling.
    telling: AtomicBool,
}

/// The right to tell what waits: one has it at a time, so that all comes in order.
#[derive(Debug)]
pub struct Telling(Arc<Outcomes>);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.telling.store(false, Ordering::Release);
    }
}

impl Outcomes {
    /// Begins to tell; none if somebody is at it, or nothing waits.
    #[must_use]
    pub fn begin_telling(self: &Arc<Self>) -> Option<Telling> {
        if !self.any() || self.telling.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Telling(self.clone()))
    }

    /// Whether anybody is to be told.
    #[must_use]
    pub fn are_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether anything waits to be told.
    #[must_use]
    pub fn any(&self) -> bool {
        self.are_wanted() && !self.waiting.lock().is_empty()
    }

    /// Events that some policy took note of, each counted once.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// Events that gave way to later ones before they were told.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Somebody is to be told from now on, or nobody any more.
    pub(crate) fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
        if !wanted {
            self.waiting.lock().clear();
        }
    }

    /// What is to happen to a decision is told by this; none where nobody wants to know.
    pub(crate) fn report_on(
        self: &Arc<Self>,
        decision_id: DecisionId,
        worker: WorkerRank,
        decided_ms: u64,
    ) -> Option<OutcomeReporter> {
        self.are_wanted().then(|| OutcomeReporter {
            outcomes: self.clone(),
            decision_id,
            worker,
            decided_ms,
            watch: Stopwatch::start(),
            answered: false,
            ended: false,
        })
    }

    /// Takes the oldest events, as many as are told in one call.
    pub(crate) fn take(&self) -> Vec<DecisionOutcome> {
        let mut waiting = self.waiting.lock();
        let taken = waiting.len().min(MOST_AT_ONCE);
        waiting.drain(..taken).collect()
    }

    /// Somebody took note of so many events.
    pub fn were_told(&self, events: usize) {
        self.told.fetch_add(events as u64, Ordering::Relaxed);
    }

    fn add(&self, outcome: DecisionOutcome) {
        if !self.are_wanted() {
            return;
        }
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MOST_WAITING {
            waiting.pop_front();
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        waiting.push_back(outcome);
    }
}

/// Tells what becomes of one decision, at the time that has passed since. Dropped before it is ended,
/// it says that the client went away.
#[derive(Debug)]
pub struct OutcomeReporter {
    outcomes: Arc<Outcomes>,
    decision_id: DecisionId,
    worker: WorkerRank,
    decided_ms: u64,
    watch: Stopwatch,
    answered: bool,
    ended: bool,
}

impl OutcomeReporter {
    /// The router turns to the worker with the request.
    pub fn dispatched(&self) {
        self.tell(OutcomeEvent::Dispatched);
    }

    /// The worker's first output arrived. Again is nothing.
    pub fn first_token(&mut self) {
        if !std::mem::replace(&mut self.answered, true) {
            self.tell(OutcomeEvent::FirstToken);
        }
    }

    /// It ended so.
    pub fn end(mut self, ending: Ending) {
        self.ended = true;
        self.tell(ending.into());
    }

    fn tell(&self, event: OutcomeEvent) {
        let Self { decision_id, worker, decided_ms, .. } = *self;
        let passed = u64::try_from(self.watch.elapsed().as_millis()).unwrap_or(u64::MAX);
        let at_ms = decided_ms.saturating_add(passed);
        self.outcomes.add(DecisionOutcome { decision_id, worker, at_ms, event });
    }
}

impl Drop for OutcomeReporter {
    fn drop(&mut self) {
        if !self.ended {
            self.tell(Ending::Cancelled.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{DpRank, WorkerId};

    fn worker() -> WorkerRank {
        WorkerRank { worker_id: WorkerId(7), dp_rank: DpRank(1) }
    }

    fn wanted() -> Arc<Outcomes> {
        let outcomes = Arc::<Outcomes>::default();
        outcomes.want(true);
        outcomes
    }

    #[test]
    fn a_decision_is_followed_to_its_end_in_order() {
        let outcomes = wanted();
        let mut reporter = outcomes.report_on(DecisionId(3), worker(), 10).expect("wanted");
        reporter.dispatched();
        reporter.first_token();
        reporter.first_token();
        reporter.end(Ending::Completed { output_tokens: 5 });
        let told = outcomes.take();
        let seen: Vec<_> = told.iter().map(|one| one.event.clone()).collect();
        assert_eq!(
            seen,
            [
                OutcomeEvent::Dispatched,
                OutcomeEvent::FirstToken,
                OutcomeEvent::Ended(Ending::Completed { output_tokens: 5 }),
            ]
        );
        assert!(told.iter().all(|one| one.decision_id == DecisionId(3) && one.worker == worker()));
        assert!(told.is_sorted_by_key(|one| one.at_ms) && told[0].at_ms >= 10);
        assert_eq!((outcomes.any(), outcomes.lost()), (false, 0));
    }

    #[test]
    fn one_tells_at_a_time() {
        let outcomes = wanted();
        assert!(outcomes.begin_telling().is_none(), "there is nothing to tell");
        drop(outcomes.report_on(DecisionId(3), worker(), 10));
        let telling = outcomes.begin_telling();
        assert!(telling.is_some() && outcomes.begin_telling().is_none());
        drop(telling);
        assert!(outcomes.begin_telling().is_some());
    }

    #[test]
    fn what_nobody_ended_was_cancelled() {
        let outcomes = wanted();
        drop(outcomes.report_on(DecisionId(3), worker(), 10));
        let reporter = outcomes.report_on(DecisionId(4), worker(), 10).expect("wanted");
        reporter.end(Ending::failed("no connection"));
        let told = outcomes.take();
        assert_eq!(told[0].event, OutcomeEvent::Ended(Ending::Cancelled));
        assert_eq!(told[1].event, OutcomeEvent::Ended(Ending::failed("no connection")));
        assert_eq!(told.len(), 2);
    }

    #[test]
    fn nothing_is_kept_for_nobody() {
        let outcomes = Arc::<Outcomes>::default();
        assert!(outcomes.report_on(DecisionId(1), worker(), 1).is_none());
        outcomes.want(true);
        let reporter = outcomes.report_on(DecisionId(1), worker(), 1).expect("wanted");
        reporter.dispatched();
        assert!(outcomes.any());
        outcomes.want(false);
        drop(reporter);
        outcomes.want(true);
        assert!(!outcomes.any() && outcomes.take().is_empty());
    }

    #[test]
    fn the_oldest_give_way_and_are_counted() {
        let outcomes = wanted();
        let more = MOST_WAITING as u64 + 10;
        for id in 0..more {
            drop(outcomes.report_on(DecisionId(id), worker(), id));
        }
        assert_eq!(outcomes.lost(), 10);
        let mut next = 10;
        while outcomes.any() {
            let batch = outcomes.take();
            assert!(batch.len() <= MOST_AT_ONCE);
            for one in batch {
                assert_eq!(one.decision_id, DecisionId(next));
                next += 1;
            }
        }
        assert_eq!(next, more);
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let Ending::Failed { reason } = Ending::failed(&"ä".repeat(500)) else {
            panic!("a failure")
        };
        assert_eq!(reason.chars().count(), MOST_REASON);
    }
}
