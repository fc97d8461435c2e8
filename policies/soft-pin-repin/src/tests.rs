//! What users of `soft-pin-repin` expect, on the native build.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use pointsman_sdk::prelude::*;
use pointsman_sdk::testing::{self, Candidate, Trial};

use crate::SoftPinRepin;

const A: u64 = 1;
const B: u64 = 2;
const C: u64 = 3;

/// Rank `rank` of a worker with so many requests.
fn busy(id: u64, rank: u32, requests: f64) -> Candidate {
    testing::worker(id).rank(rank).with(Input::ActiveRequests, requests)
}

/// Workers of one rank with so many requests each.
fn fleet(workers: &[(u64, f64)]) -> Vec<Candidate> {
    workers.iter().map(|&(id, requests)| busy(id, 0, requests)).collect()
}

/// Whom a request goes to whose session is bound to `target`.
fn choose(most: u32, target: Option<WorkerTarget>, fleet: &[Candidate]) -> (u64, u32) {
    let parameters = format!(r#"{{"max_active_requests": {most}}}"#);
    let request = Request { affinity_target: target, ..testing::request() };
    let mut trial = Trial::of::<SoftPinRepin>(parameters).unwrap();
    let worker = trial.decide(&request, fleet).unwrap().worker.unwrap();
    (worker.id, worker.dp_rank)
}

fn bound(id: u64) -> Option<WorkerTarget> {
    Some(WorkerTarget { id, dp_rank: Some(0) })
}

#[test]
fn without_a_binding_the_fewest_requests_win_and_of_equals_the_lowest_worker() {
    assert_eq!(choose(0, None, &fleet(&[(A, 0.0), (B, 0.0)])), (A, 0));
    assert_eq!(choose(0, None, &fleet(&[(A, 2.0), (B, 1.0), (C, 1.0)])), (B, 0));
}

#[test]
fn an_idle_worker_keeps_its_session_at_a_threshold_of_zero() {
    assert_eq!(choose(0, bound(A), &fleet(&[(A, 0.0), (B, 0.0)])), (A, 0));
    assert_eq!(choose(0, bound(B), &fleet(&[(A, 0.0), (B, 0.0)])), (B, 0), "not just the lowest");
}

#[test]
fn a_worker_with_one_request_more_loses_its_session() {
    assert_eq!(choose(0, bound(A), &fleet(&[(A, 1.0), (B, 0.0)])), (B, 0));
    // Wherever it then goes, even if that has no less to do.
    assert_eq!(choose(0, bound(A), &fleet(&[(A, 1.0), (B, 5.0), (C, 4.0)])), (C, 0));
    assert_eq!(choose(3, bound(A), &fleet(&[(A, 3.0), (B, 0.0)])), (A, 0), "at most three");
    assert_eq!(choose(3, bound(A), &fleet(&[(A, 4.0), (B, 0.0)])), (B, 0));
}

#[test]
fn the_only_worker_keeps_its_session_however_busy_it_is() {
    assert_eq!(choose(0, bound(A), &fleet(&[(A, 9.0)])), (A, 0));
}

#[test]
fn a_binding_to_a_worker_that_is_no_candidate_counts_for_nothing() {
    assert_eq!(choose(9, bound(C), &fleet(&[(A, 2.0), (B, 1.0)])), (B, 0));
    // A worker is there, and its rank isn't.
    let other_rank = Some(WorkerTarget { id: A, dp_rank: Some(7) });
    assert_eq!(choose(9, other_rank, &fleet(&[(A, 2.0), (B, 1.0)])), (B, 0));
}

#[test]
fn a_binding_without_a_rank_stands_for_all_ranks_of_its_worker() {
    let whole = Some(WorkerTarget { id: A, dp_rank: None });
    let fleet = [busy(A, 0, 3.0), busy(A, 1, 1.0), busy(B, 0, 0.0)];
    assert_eq!(choose(1, whole, &fleet), (A, 1), "its least loaded rank counts");
    assert_eq!(choose(0, whole, &fleet), (B, 0), "moving is to another worker");
    // With a rank, another rank of the same worker is somewhere to move to.
    let ranks = [busy(A, 0, 3.0), busy(A, 1, 1.0)];
    assert_eq!(choose(0, bound(A), &ranks), (A, 1));
    assert_eq!(choose(0, whole, &ranks), (A, 1));
}

#[test]
fn the_order_of_rows_decides_nothing() {
    let rows = [busy(A, 0, 1.0), busy(A, 1, 1.0), busy(B, 0, 1.0), busy(C, 0, 2.0)];
    for (target, most, expected) in
        [(None, 0, (A, 0)), (bound(A), 0, (A, 1)), (bound(B), 0, (A, 0)), (bound(C), 2, (C, 0))]
    {
        for turn in 0..rows.len() {
            let mut turned = rows.to_vec();
            turned.rotate_left(turn);
            assert_eq!(choose(most, target, &turned), expected, "{target:?}, turned by {turn}");
            turned.reverse();
            assert_eq!(choose(most, target, &turned), expected, "{target:?}, reversed");
        }
    }
}

#[test]
fn bad_parameters_are_refused_by_name() {
    let refusal = |parameters| Trial::of::<SoftPinRepin>(parameters).unwrap_err().to_string();
    assert_eq!(refusal("{}"), "missing parameter \"max_active_requests\"");
    assert!(refusal(r#"{"max_active_requests": -1}"#).contains("\"max_active_requests\""));
    assert_eq!(
        refusal(r#"{"max_active_requests": 0, "requests": 1}"#),
        "unknown parameter \"requests\", expected \"max_active_requests\""
    );
}
