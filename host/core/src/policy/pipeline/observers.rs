//! Telling a pipeline's instances what became of decisions.

use std::sync::Arc;

use super::Pipeline;
use super::source::Spent;
use crate::outcome::DecisionOutcome;
use crate::policy::breaker::Turn;
use crate::policy::failure::Cause;

/// What came of telling one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The instance's name.
    pub policy: Arc<str>,
    /// Its type.
    pub policy_type: Arc<str>,
    /// How it failed; none if it took note.
    pub failed: Option<Cause>,
    /// Units of fuel; none where calls aren't metered.
    pub fuel: Option<u64>,
    /// Microseconds; none where calls aren't metered.
    pub micros: Option<f64>,
}

impl Pipeline {
    /// Whether some instance learns from outcomes.
    #[must_use]
    pub fn observes(&self) -> bool {
        self.sources.iter().any(super::Source::observes)
    }

    /// Tells those instances that learn from outcomes. A failure is logged, and doesn't stop the
    /// others. To be called between two decisions.
    pub fn observe(&mut self, outcomes: &[DecisionOutcome], now_ms: u64, told: &mut Vec<Told>) {
        for source in self.sources.iter_mut().filter(|source| source.observes()) {
            let (answer, turn) = source.observe(outcomes, now_ms);
            let (policy, policy_type) = (self.name.clone(), source.policy_type().clone());
            match &answer {
                Ok(()) => {}
                // Who isn't told has failed before, and the log has that.
                Err(error) if error.cause == Cause::Unavailable => {
                    tracing::debug!(%policy, %policy_type, %error, "a policy wasn't told of outcomes");
                }
                Err(error) => tracing::warn!(
                    %policy,
                    %policy_type,
                    %error,
                    "a policy failed when told of outcomes"
                ),
            }
            match turn {
                Some(Turn::Opened(wait_ms)) => tracing::warn!(
                    %policy,
                    %policy_type,
                    wait_ms,
                    "a policy failed again and again when told of outcomes, and isn't told for a while"
                ),
                Some(Turn::Closed) => {
                    tracing::info!(%policy, %policy_type, "a policy takes note of outcomes again");
                }
                None => {}
            }
            let Spent { fuel, micros } = source.spent();
            let failed = answer.err().map(|error| error.cause);
            told.push(Told { policy, policy_type, failed, fuel, micros });
        }
    }
}
