//! Sends a request to the least busy worker, and away from those whose answers failed lately.

use std::collections::BTreeMap;

use pointsman_sdk::prelude::*;
use pointsman_sdk::{handover, math, parameters};
use serde::Serialize;

/// Fewest active requests, away from workers whose answers fail.
#[derive(Debug, Clone, Copy)]
pub struct AvoidFailing;

export_policy!(AvoidFailing);

impl Policy for AvoidFailing {
    type Parameters = Settings;

    fn about() -> About {
        about!()
    }

    fn build(settings: Settings, _: &Environment) -> Result<Stages> {
        let failures = Shared::new(Failures { settings, of: BTreeMap::new() });
        Ok(Stages::new().scorer(failures.clone()).observer(failures.clone()).handover(failures))
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What a fresh failure weighs, in active requests; 0 makes it a plain counter of requests.
    pub requests_per_failure: f64,
    /// How long until half of a failure is forgotten.
    pub half_life_seconds: f64,
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        parameters::all([
            parameters::not_negative("requests_per_failure", self.requests_per_failure),
            parameters::within("half_life_seconds", self.half_life_seconds, 0.001, 86_400.0),
        ])
    }
}

/// What is held against each worker.
struct Failures {
    settings: Settings,
    of: BTreeMap<u64, Standing>,
}

/// Failures as they stood at some time.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Standing {
    failures: f64,
    at_ms: u64,
}

impl Failures {
    /// What is left of a standing by now.
    fn faded(&self, standing: Standing, now_ms: u64) -> f64 {
        let seconds = now_ms.saturating_sub(standing.at_ms) as f64 / 1_000.0;
        standing.failures * math::powf(0.5, seconds / self.settings.half_life_seconds)
    }
}

impl WorkerScorer for Failures {
    fn name(&self) -> String {
        "failures".to_owned()
    }

    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity, Input::ActiveRequests]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let now_ms = cx.request.now_ms;
        rows.score(costs, |row| {
            let standing = self.of.get(&row.worker().id).copied().unwrap_or_default();
            row.active_requests()
                + self.settings.requests_per_failure * self.faded(standing, now_ms)
        });
        Ok(())
    }
}

impl Observer for Failures {
    fn observe(&mut self, outcomes: &[Outcome]) -> Result {
        for Outcome { worker, at_ms, event, .. } in outcomes {
            let standing = self.of.get(&worker.id).copied().unwrap_or_default();
            let failures = self.faded(standing, *at_ms);
            let failures = match event {
                OutcomeEvent::Failed(reason) if !is_the_requests_fault(reason) => failures + 1.0,
                OutcomeEvent::Completed(_) => failures / 2.0,
                _ => continue,
            };
            // What is next to nothing is forgotten, so that workers that left are, too.
            if failures < 1e-3 {
                self.of.remove(&worker.id);
            } else {
                self.of.insert(worker.id, Standing { failures, at_ms: *at_ms });
            }
        }
        Ok(())
    }
}

/// A status of 400 to 499 speaks of the request, unless it says that the worker has too much to do.
fn is_the_requests_fault(reason: &str) -> bool {
    reason.starts_with("status 4") && reason != "status 429"
}

impl Handover for Failures {
    fn save(&self) -> Result<Vec<u8>> {
        handover::encode(&self.of)
    }

    fn restore(&mut self, state: &[u8]) -> Result {
        self.of = handover::decode(state)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
