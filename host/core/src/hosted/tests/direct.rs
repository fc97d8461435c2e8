//! Promises of `direct` to requests that it can't place.

use super::*;

#[test]
fn what_names_no_worker_is_refused_and_costs_nobody_else_anything() {
    let router = router(builtin("direct"), [worker(1), ranked(2, 0, 2)]);
    for mode in [Mode::Book, Mode::Record, Mode::DryRun] {
        // More often than a breaker takes.
        for _ in 0..10 {
            let refused = router.route(&request(1), at(0), mode).expect_err("it says nowhere");
            assert_eq!(refused.kind(), "no_target_worker");
            let text = refused.to_string();
            assert!(text.ends_with("in a session that is bound to one"), "{text}");
        }
        for request in [pinned(2, None), pinned(2, Some(1)), bound(2)] {
            let decision = router.route(&request, at(0), mode).expect("it goes there");
            assert_eq!(decision.receipt.worker.worker_id, WorkerId(2), "{mode:?}");
        }
        let refused = router.route(&bound(9), at(0), mode).expect_err("nobody is there");
        assert_eq!(refused.kind(), "pinned_worker_unavailable");
    }
    assert_eq!(partition(&router).standing(0)[0].failures_in_a_row, 0);
}

#[test]
fn whoever_lets_another_decide_in_its_place_has_every_request_decided() {
    let mut policies = builtin("direct");
    policies.selection.instances[0].on_failure = OnFailure::Default;
    let router = router(policies, [worker(1), worker(2)]);
    let decision = router.route(&request(1), at(0), Mode::Book).expect("the built-in decides");
    assert!(decision.receipt.fallback.is_some());
}
