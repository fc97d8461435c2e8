//! What stays predicted of a prompt: nothing if it was refused, all of it else.

use super::*;

#[test]
fn a_prompt_that_is_refused_leaves_no_prediction_and_one_that_was_answered_does() {
    let router = router(with(approximate(), builtin("default")), [worker(1)]);
    let mut decision = route(&router, &pinned("ABC", 1, 0), 1).expect("it is routed");
    let lease = decision.lease.as_mut().expect("it is booked");
    assert_eq!(device(&router, "ABC", 1), [3]);
    lease.prompt_refused();
    lease.prompt_refused();
    assert_eq!(device(&router, "ABC", 1), [0]);
    assert_eq!(load(&router), [1], "it is booked still");
    drop(decision);
    assert_eq!((device(&router, "ABC", 1), load(&router)), (vec![0], vec![0]));
    // With the first token it has been taken.
    let mut decision = route(&router, &pinned("ABC", 1, 0), 1).expect("it is routed");
    let lease = decision.lease.as_mut().expect("it is booked");
    lease.prefill_done();
    lease.prompt_refused();
    assert_eq!(device(&router, "ABC", 1), [3]);
}

#[test]
fn all_of_a_long_prompt_is_predicted_when_it_is_decided() {
    let router = router(with(approximate(), builtin("default")), [worker(1), worker(2)]);
    let long: Arc<[u64]> = (1..=70_000).collect();
    let request = RouteRequest { chain: long.clone(), ..pinned("", 1, 0) };
    let decision = route(&router, &request, 1).expect("it is routed");
    let held = partition(&router).cache().row(&approximate(), rank(1, 0), &long);
    assert_eq!(held.device_blocks, crate::index::MOST_PREDICTED as u64);
    drop(decision);
    router.remove_worker(WorkerId(1)).expect("it is there");
    assert_eq!(partition(&router).cache().predicted_stats().held, 0);
}
