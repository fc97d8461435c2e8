//! The promises of the README, on the native build.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use pointsman_sdk::prelude::*;
use pointsman_sdk::testing::{self, Candidate, Trial};

use crate::LeastPrefill;

fn worker(id: u64, prefill_tokens: f64, decode_blocks: f64) -> Candidate {
    testing::worker(id)
        .with(Input::ActivePrefillTokens, prefill_tokens)
        .with(Input::DecodeCostBlocks, decode_blocks)
}

#[test]
fn prefill_and_decode_work_add_up_in_blocks() {
    let fleet = [worker(1, 160.0, 2.0), worker(2, 32.0, 9.0), worker(3, 0.0, 13.0)];
    let choice =
        Trial::of::<LeastPrefill>("{}").unwrap().decide(&testing::request(), &fleet).unwrap();
    assert_eq!((choice.costs, choice.row), (vec![12.0, 11.0, 13.0], Some(1)));
}

#[test]
fn equals_share_requests_and_the_seed_decides() {
    let fleet =
        [worker(1, 0.0, 0.0), worker(2, 0.0, 0.0), worker(3, 0.0, 0.0), worker(4, 0.0, 0.0)];
    let mut trial = Trial::of::<LeastPrefill>("{}").unwrap();
    let mut counts = [0; 4];
    for seed in 0..1_000 {
        let request = Request { seed, ..testing::request() };
        let row = trial.decide(&request, &fleet).unwrap().row.unwrap();
        assert_eq!(trial.decide(&request, &fleet).unwrap().row, Some(row));
        counts[row] += 1;
    }
    assert!(counts.iter().all(|count| (190..310).contains(count)), "{counts:?}");
}

#[test]
fn it_takes_the_parameters_of_least_busy() {
    let fleet = [worker(1, 0.0, 0.0), worker(2, 160.0, 0.0).with(Input::DeviceOverlapBlocks, 4.0)];
    let mut trial = Trial::of::<LeastPrefill>(r#"{"min_device_overlap_blocks": 4}"#).unwrap();
    assert_eq!(trial.decide(&testing::request(), &fleet).unwrap().kept, [1]);
    assert!(Trial::of::<LeastPrefill>(r#"{"min_device_overlap_blocks": -1}"#).is_err());
    assert!(Trial::of::<LeastPrefill>(r#"{"blocks": 1}"#).is_err());
}
