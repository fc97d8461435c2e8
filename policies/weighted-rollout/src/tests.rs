//! How many requests each share gets.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use pointsman_sdk::prelude::*;
use pointsman_sdk::testing::{self, Trial};

use crate::WeightedRollout;

/// A trial of workers 1 (`canary`) and 2 (unmarked).
fn trial(parameters: &str) -> Trial {
    let mut trial = Trial::of::<WeightedRollout>(parameters).unwrap();
    let member = |id, taints: &[&str]| Member {
        worker: Worker { id, dp_rank: 0 },
        taints: taints.iter().map(|taint| (*taint).to_owned()).collect(),
        labels: Vec::new(),
        total_kv_blocks: None,
        max_batched_tokens: None,
        device_kind: None,
    };
    let fleet = [member(1, &["canary"]), member(2, &["spot"])];
    trial.instances().into_iter().for_each(|instance| instance.fleet_changed(1, &fleet));
    trial
}

/// How many of 4,000 requests worker 1 gets.
fn canaries(request: impl Fn(u64) -> Request) -> u32 {
    let mut trial = trial(r#"{"shares": {"canary": 5}, "others": 95}"#);
    let fleet = [testing::worker(1), testing::worker(2)];
    let is_canary = |n| trial.decide(&request(n), &fleet).unwrap().row == Some(0);
    (0..4_000).map(is_canary).map(u32::from).sum()
}

#[test]
fn a_share_gets_its_part_of_requests_and_of_sessions() {
    let requests = canaries(|seed| Request { seed, ..testing::request() });
    assert!((150..250).contains(&requests), "{requests}");
    let sessions = canaries(|n| {
        let session = Some(Session { id: format!("session-{n}"), ..Session::default() });
        Request { session, ..testing::request() }
    });
    assert!((150..250).contains(&sessions), "{sessions}");
}
