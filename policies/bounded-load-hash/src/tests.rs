//! What a hash promises over many keys.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::collections::BTreeMap;

use pointsman_sdk::prelude::*;
use pointsman_sdk::testing::{self, Candidate, Trial};

use crate::BoundedLoadHash;

fn fleet(ids: std::ops::Range<u64>) -> Vec<Candidate> {
    ids.map(testing::worker).collect()
}

fn owner(trial: &mut Trial, key: u64, fleet: &[Candidate]) -> u64 {
    trial.set_prefix_hashes([key]);
    trial.decide(&testing::request(), fleet).unwrap().worker.unwrap().id
}

#[test]
fn keys_are_spread_and_only_those_of_a_worker_that_leaves_move() {
    let mut trial = Trial::of::<BoundedLoadHash>("{}").unwrap();
    let (all, fewer) = (fleet(0..8), fleet(0..7));
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    for key in 0..4_000 {
        let before = owner(&mut trial, key, &all);
        *counts.entry(before).or_default() += 1;
        if before != 7 {
            assert_eq!(owner(&mut trial, key, &fewer), before, "key {key}");
        }
    }
    assert!(counts.len() == 8 && counts.values().all(|n| (400..600).contains(n)), "{counts:?}");
}

#[test]
fn no_worker_gets_more_than_its_bound_allows_however_hot_a_prompt_is() {
    let mut trial = Trial::of::<BoundedLoadHash>(r#"{"load_factor": 1.25}"#).unwrap();
    let mut loads = [0.0; 8];
    for placed in 0..800 {
        let fleet: Vec<_> = (0..)
            .zip(loads)
            .map(|(id, load)| testing::worker(id).with(Input::ActiveRequests, load))
            .collect();
        let at = owner(&mut trial, 5, &fleet) as usize;
        let bound = 1.25 * (f64::from(placed) + 1.0) / 8.0;
        assert!(loads[at] <= bound, "{placed}: {loads:?}");
        loads[at] += 1.0;
    }
    assert!(loads.iter().all(|load| *load <= 1.25 * 100.0 + 2.0), "{loads:?}");
}
