//! What a partition has done, for display.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::outcome::Outcomes;
use crate::policy::failure::Cause;

/// Counts since the partition began.
#[derive(Debug, Default)]
pub(super) struct Counters {
    decisions: AtomicU64,
    fallbacks: AtomicU64,
    all_filtered: AtomicU64,
    bypassed: AtomicU64,
    /// By the order of [`Cause::ALL`].
    failures: [AtomicU64; Cause::ALL.len()],
}

/// A reading of a partition's counters. Dry runs count too: the policy is asked all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Decisions made.
    pub decisions: u64,
    /// Of those, made by another policy than the configured one.
    pub fallbacks: u64,
    /// Requests whose every eligible row was filtered out.
    pub all_filtered: u64,
    /// Filters that rejected every row and were left out for that, as the instance's owner wants.
    pub bypassed: u64,
    /// Events that those of its policies that learn were told of.
    pub outcomes_told: u64,
    /// Events that gave way to later ones before anybody was told.
    pub outcomes_lost: u64,
    /// Failed stages by cause: those that were left out, and those that their whole policy failed
    /// by, the stand-ins' included.
    pub failures: Vec<(Cause, u64)>,
}

impl Counters {
    pub(super) fn decided(&self, by_stand_in: bool) {
        self.decisions.fetch_add(1, Ordering::Relaxed);
        self.fallbacks.fetch_add(u64::from(by_stand_in), Ordering::Relaxed);
    }

    pub(super) fn all_filtered(&self) {
        self.all_filtered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn bypassed(&self) {
        self.bypassed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, cause: Cause) {
        if let Some(counter) = self.failures.get(cause as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self, outcomes: &Outcomes) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            decisions: count(&self.decisions),
            fallbacks: count(&self.fallbacks),
            all_filtered: count(&self.all_filtered),
            bypassed: count(&self.bypassed),
            outcomes_told: outcomes.told(),
            outcomes_lost: outcomes.lost(),
            failures: Cause::ALL.into_iter().zip(self.failures.iter().map(count)).collect(),
        }
    }
}
