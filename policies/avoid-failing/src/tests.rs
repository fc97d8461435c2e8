//! What it holds against a worker, and for how long.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use pointsman_sdk::native::Instance;
use pointsman_sdk::prelude::*;
use pointsman_sdk::testing::{self, Trial};

use crate::AvoidFailing;

const PARAMETERS: &str = r#"{"requests_per_failure": 4, "half_life_seconds": 10}"#;

fn trial() -> Trial {
    Trial::of::<AvoidFailing>(PARAMETERS).unwrap()
}

fn outcome(id: u64, at_ms: u64, event: OutcomeEvent) -> Outcome {
    Outcome { decision_id: 1, worker: Worker { id, dp_rank: 0 }, at_ms, event }
}

fn failed(id: u64, at_ms: u64, reason: &str) -> Outcome {
    outcome(id, at_ms, OutcomeEvent::Failed(reason.to_owned()))
}

fn observe(trial: &mut Trial, outcomes: &[Outcome]) {
    trial.instances().into_iter().for_each(|instance| instance.observe(outcomes));
}

/// Costs of workers 1 and 2 with these requests, so many milliseconds after the start.
fn costs(trial: &mut Trial, now_ms: u64, requests: [f64; 2]) -> Vec<f64> {
    let fleet = [(1, requests[0]), (2, requests[1])]
        .map(|(id, requests)| testing::worker(id).with(Input::ActiveRequests, requests));
    let request = Request { now_ms, ..testing::request() };
    trial.decide(&request, &fleet).unwrap().costs
}

#[test]
fn a_failure_weighs_as_requests_and_fades() {
    let mut trial = trial();
    assert_eq!(costs(&mut trial, 0, [1.0, 2.0]), [1.0, 2.0]);
    observe(&mut trial, &[failed(1, 1_000, "closed"), failed(1, 1_000, "status 503")]);
    assert_eq!(costs(&mut trial, 1_000, [0.0, 2.0]), [8.0, 2.0]);
    assert_eq!(costs(&mut trial, 11_000, [0.0, 2.0]), [4.0, 2.0]);
    assert_eq!(costs(&mut trial, 21_000, [1.0, 2.0]), [3.0, 2.0]);
    // An answer that ends well halves what is left: 1/2 of 4 by then.
    observe(&mut trial, &[outcome(1, 21_000, OutcomeEvent::Completed(9))]);
    assert_eq!(costs(&mut trial, 21_000, [0.0, 2.0]), [1.0, 2.0]);
}

#[test]
fn what_is_the_requests_fault_or_the_clients_is_not_held_against_the_worker() {
    let mut trial = trial();
    observe(
        &mut trial,
        &[
            outcome(1, 5, OutcomeEvent::Dispatched),
            outcome(1, 5, OutcomeEvent::FirstToken),
            outcome(1, 5, OutcomeEvent::Cancelled),
            failed(1, 5, "status 400"),
            failed(2, 5, "status 429"),
        ],
    );
    assert_eq!(costs(&mut trial, 5, [0.0, 0.0]), [0.0, 4.0]);
}

#[test]
fn what_is_learnt_goes_on_over_a_reload_and_is_forgotten_in_the_end() {
    let mut old = trial();
    observe(&mut old, &[failed(2, 0, "closed")]);
    let mut new = trial();
    let state = old.instances()[0].save().unwrap();
    new.instances().into_iter().for_each(|instance| instance.restore(&state).unwrap());
    assert_eq!(costs(&mut new, 0, [0.0, 0.0]), [0.0, 4.0]);
    observe(&mut new, &[outcome(2, 200_000, OutcomeEvent::Completed(0))]);
    assert_eq!(new.instances()[0].save().unwrap(), b"{}");
}

#[test]
fn parameters_are_required_and_in_range() {
    let refusal = |parameters: &str| {
        Instance::configure::<AvoidFailing>(testing::environment(parameters))
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    assert!(refusal("{}").contains("requests_per_failure"));
    let negative = refusal(r#"{"requests_per_failure": -1, "half_life_seconds": 10}"#);
    assert!(negative.contains("0 or more"), "{negative}");
    let both = refusal(r#"{"requests_per_failure": -1, "half_life_seconds": 0}"#);
    assert_eq!(both.lines().count(), 2, "{both}");
    let zero = refusal(r#"{"requests_per_failure": 1, "half_life_seconds": 0}"#);
    assert!(zero.contains("half_life_seconds"), "{zero}");
}
