//! Telling a partition's policies what became of its decisions.
//!
//! Those that decide are told between two decisions; those that only watch, on time of their own.

use std::sync::Arc;

use super::Partition;
use crate::outcome::{DecisionOutcome, Outcomes};
use crate::policy::pipeline::Told;

impl Partition {
    /// What waits to be told to the policies that learn from outcomes.
    #[must_use]
    pub fn outcomes(&self) -> &Arc<Outcomes> {
        &self.outcomes
    }

    /// Takes the next events that are to be told, in order; none if nobody wants to know. Whoever
    /// takes them is to tell them, one batch after the other.
    #[must_use]
    pub fn next_outcomes(&self) -> Vec<DecisionOutcome> {
        self.outcomes.take()
    }

    /// Tells the policies that decide. Waits for a decision that is being made, and keeps others
    /// waiting for as long as it takes: nobody who is turned off is told.
    pub fn tell_deciders(&self, outcomes: &[DecisionOutcome], now_ms: u64) -> Vec<Told> {
        let mut told = Vec::new();
        let mut slot = self.slot.lock();
        let slot = &mut *slot;
        let current = Some(&mut slot.current).filter(|_| !self.is_disabled());
        let canary = slot.canary.as_mut().filter(|canary| canary.is_active());
        let canary = canary.map(|canary| &mut canary.pipeline);
        let fleet = self.ledger.snapshot();
        for pipeline in current.into_iter().chain(&mut slot.previous).chain(canary) {
            if pipeline.observes() {
                // One that has decided nothing yet knows nobody yet.
                pipeline.tell_fleet(&fleet);
                pipeline.observe(outcomes, now_ms, &mut told);
            }
        }
        told
    }

    /// Tells the policies that only watch. Keeps no decision waiting.
    pub fn tell_shadows(&self, outcomes: &[DecisionOutcome], now_ms: u64) -> Vec<Told> {
        let mut told = Vec::new();
        let shadows = self.slot.lock().shadows.clone();
        for shadow in shadows.iter().filter(|shadow| shadow.observes()) {
            shadow.observe(outcomes, now_ms, &mut told);
        }
        told
    }
}
