//! What users of `simple-filter-score-pick` expect, on the native build.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use pointsman_sdk::prelude::*;
use pointsman_sdk::testing::{self, Candidate, Choice, Trial};

use crate::LeastBusy;

/// Workers 1, 2, … with these (device overlap, active requests).
fn fleet(workers: &[(f64, f64)]) -> Vec<Candidate> {
    (1..)
        .zip(workers)
        .map(|(id, &(overlap, requests))| {
            testing::worker(id)
                .with(Input::DeviceOverlapBlocks, overlap)
                .with(Input::ActiveRequests, requests)
        })
        .collect()
}

fn decide(least_blocks: f64, request: &Request, workers: &[(f64, f64)]) -> Choice {
    let parameters = format!(r#"{{"min_device_overlap_blocks": {least_blocks}}}"#);
    Trial::of::<LeastBusy>(parameters).unwrap().decide(request, &fleet(workers)).unwrap()
}

fn refusal(parameters: &str) -> String {
    Trial::of::<LeastBusy>(parameters).unwrap_err().to_string()
}

#[test]
fn the_fewest_active_requests_win_and_the_first_among_equals() {
    let choice = decide(0.0, &testing::request(), &[(0.0, 2.0), (0.0, 1.0), (9.0, 1.0)]);
    assert_eq!((choice.row, choice.costs), (Some(1), vec![2.0, 1.0, 1.0]));
}

#[test]
fn a_worker_with_too_little_overlap_is_left_out() {
    let choice = decide(8.0, &testing::request(), &[(7.0, 0.0), (8.0, 5.0), (9.0, 6.0)]);
    assert_eq!((choice.kept, choice.row), (vec![1, 2], Some(1)));
}

#[test]
fn a_threshold_that_nobody_reaches_leaves_no_worker() {
    let choice = decide(1.0, &testing::request(), &[(0.0, 0.0), (0.0, 0.0)]);
    assert_eq!((choice.kept, choice.row), (vec![], None));
}

#[test]
fn a_tool_result_goes_where_most_of_it_is_cached_and_to_the_last_among_equals() {
    let workers = [(3.0, 0.0), (7.0, 9.0), (7.0, 8.0), (1.0, 0.0)];
    assert_eq!(decide(0.0, &testing::tool_result(), &workers).row, Some(2));
    assert_eq!(decide(0.0, &testing::request(), &workers).row, Some(0));
}

#[test]
fn any_threshold_from_zero_up_is_taken() {
    for parameters in
        [r#"{"min_device_overlap_blocks": 0}"#, r#"{"min_device_overlap_blocks": 8.5}"#]
    {
        assert!(Trial::of::<LeastBusy>(parameters).is_ok(), "{parameters}");
    }
}

#[test]
fn bad_parameters_are_refused_by_name() {
    let negative = refusal(r#"{"min_device_overlap_blocks": -1}"#);
    assert_eq!(
        negative,
        "parameter \"min_device_overlap_blocks\" is -1; give a finite number, 0 or more"
    );
    assert!(crate::Settings { min_device_overlap_blocks: f64::NAN }.check().is_err());
    // YAML's .nan arrives as null.
    assert!(
        refusal(r#"{"min_device_overlap_blocks": null}"#)
            .contains("\"min_device_overlap_blocks\": invalid type")
    );
    assert_eq!(refusal("{}"), "missing parameter \"min_device_overlap_blocks\"");
    let unknown = refusal(r#"{"min_device_overlap_blocks": 0, "blocks": 1}"#);
    assert_eq!(unknown, "unknown parameter \"blocks\", expected \"min_device_overlap_blocks\"");
}
