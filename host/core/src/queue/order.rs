//! The order of requests within a class.
//!
//! Strict priority first, then due time, then the class's own score, then who came first.

use std::cmp::{Ordering, Reverse};

use super::{QueuePolicy, Terms};

/// Where a request stands among those of its class; the least one is first. No two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    strict_priority: Reverse<u32>,
    /// None is last.
    due_at_ms: u64,
    score: Reverse<Score>,
    sequence: u64,
}

impl Order {
    pub(super) fn new(policy: QueuePolicy, terms: &Terms, sequence: u64) -> Self {
        Self {
            strict_priority: Reverse(terms.strict_priority),
            due_at_ms: terms.due_at_ms.unwrap_or(u64::MAX),
            score: Reverse(Score(score(policy, terms))),
            sequence,
        }
    }

    pub(super) fn strict_priority(&self) -> u32 {
        self.strict_priority.0
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// What a class's policy makes of a request; more is earlier.
fn score(policy: QueuePolicy, terms: &Terms) -> f64 {
    // The comparison also takes care of what is no number.
    let jump = if terms.priority_jump > 0.0 { terms.priority_jump } else { 0.0 };
    let arrival = terms.arrived_ms as f64 / 1_000.0;
    match policy {
        QueuePolicy::Fcfs => jump - arrival,
        QueuePolicy::Lcfs => jump + arrival,
        QueuePolicy::Wspt => (1.0 + jump) / terms.cost_tokens.max(1) as f64,
    }
}

/// A number in the order of all doubles.
#[derive(Clone, Copy, Debug)]
struct Score(f64);

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
