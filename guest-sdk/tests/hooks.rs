//! Policies that learn: outcomes, fleet changes and state over a reload, in one shared value.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::collections::BTreeMap;

use pointsman_sdk::native::Instance;
use pointsman_sdk::prelude::*;
use pointsman_sdk::testing::{self, Trial};
use pointsman_sdk::{handover, log};

struct Learning;

impl Policy for Learning {
    type Parameters = NoParameters;

    fn about() -> About {
        about!()
    }

    fn build(_: NoParameters, _: &Environment) -> Result<Stages> {
        let failures = Shared::new(Failures::default());
        Ok(Stages::new()
            .scorer(failures.clone())
            .observer(failures.clone())
            .fleet_follower(failures.clone())
            .handover(failures))
    }
}

/// Counts failures by worker id, and forgets workers that left.
#[derive(Default)]
struct Failures(BTreeMap<u64, f64>);

impl WorkerScorer for Failures {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity]
    }

    fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        rows.score(costs, |row| self.0.get(&row.worker().id).copied().unwrap_or(0.0));
        Ok(())
    }
}

impl Observer for Failures {
    fn observe(&mut self, outcomes: &[Outcome]) -> Result {
        for outcome in outcomes {
            if let OutcomeEvent::Failed(_) = outcome.event {
                *self.0.entry(outcome.worker.id).or_default() += 1.0;
            }
        }
        Ok(())
    }
}

impl FleetFollower for Failures {
    fn fleet_changed(&mut self, generation: u64, members: &[Member]) -> Result {
        if members.is_empty() {
            return Err(format!("generation {generation} is empty").into());
        }
        self.0.retain(|id, _| members.iter().any(|member| member.worker.id == *id));
        Ok(())
    }
}

impl Handover for Failures {
    fn save(&self) -> Result<Vec<u8>> {
        handover::encode(&self.0)
    }

    fn restore(&mut self, state: &[u8]) -> Result {
        self.0 = handover::decode(state)?;
        Ok(())
    }
}

fn failed(id: u64) -> Outcome {
    let event = OutcomeEvent::Failed("reset".to_owned());
    Outcome { decision_id: 1, worker: Worker { id, dp_rank: 0 }, at_ms: 5, event }
}

fn member(id: u64) -> Member {
    Member {
        worker: Worker { id, dp_rank: 0 },
        taints: Vec::new(),
        labels: vec![("zone".to_owned(), "a".to_owned())],
        total_kv_blocks: None,
        max_batched_tokens: None,
        device_kind: None,
    }
}

fn costs(trial: &mut Trial) -> Vec<f64> {
    let fleet = [testing::worker(1), testing::worker(2)];
    trial.decide(&testing::request(), &fleet).unwrap().costs
}

#[test]
fn hooks_are_declared_and_reach_the_value_that_scores() {
    let mut trial = Trial::of::<Learning>("{}").unwrap();
    for instance in trial.instances() {
        let properties = &instance.declaration().properties;
        assert_eq!(properties[..], ["fused", "compact", "observes", "follows-fleet", "hands-over"]);
        instance.observe(&[failed(1), failed(1), failed(2)]);
    }
    assert_eq!(costs(&mut trial), [2.0, 1.0]);
    for instance in trial.instances() {
        instance.fleet_changed(2, &[member(2)]);
    }
    assert_eq!(costs(&mut trial), [0.0, 1.0]);
    assert_eq!(member(2).label("zone"), Some("a"));
}

#[test]
fn state_survives_a_reload() {
    let mut old = Instance::configure::<Learning>(testing::environment("{}")).unwrap();
    old.observe(&[failed(2)]);
    let state = old.save().unwrap();
    let mut trial = Trial::of::<Learning>("{}").unwrap();
    for instance in trial.instances() {
        instance.restore(&state).unwrap();
    }
    assert_eq!(costs(&mut trial), [0.0, 1.0]);
    let [new, _] = trial.instances();
    assert!(new.restore(b"not state").unwrap_err().message().contains("state: discard"));
}

#[test]
fn a_hook_that_refuses_is_logged() {
    let mut instance = Instance::configure::<Learning>(testing::environment("{}")).unwrap();
    let ((), lines) = log::capture(|| instance.fleet_changed(7, &[]));
    let line = "fleet generation 7 was not taken: generation 7 is empty".to_owned();
    assert_eq!(lines, [(log::Level::Warn, line)]);
}
