//! The rule, without a clock that runs.

use super::*;

const AFTER: u32 = 5;

fn start() -> (Conduct, Instant) {
    (Conduct::default(), Instant::now())
}

/// Fails so often in a row, at one time. Returns whether the last failure made it due.
fn fail(conduct: &mut Conduct, times: u32, at: Instant) -> bool {
    (0..times).map(|_| conduct.failed(at, AFTER)).last().unwrap_or_default()
}

#[test]
fn so_many_failures_in_a_row_are_due_and_a_good_answer_between_begins_anew() {
    let (mut conduct, now) = start();
    assert!(!fail(&mut conduct, AFTER - 1, now));
    assert!(conduct.did_well(now));
    assert!(!fail(&mut conduct, AFTER - 1, now));
    assert!(fail(&mut conduct, 1, now));
    assert!(conduct.out_until().is_none(), "whether it goes is for who knows the others");
}

#[test]
fn a_good_answer_of_a_worker_without_failures_changes_nothing() {
    let (mut conduct, now) = start();
    assert!(!conduct.did_well(now));
}

#[test]
fn each_ejection_in_a_row_takes_one_failure_and_lasts_twice_as_long() {
    let (mut conduct, mut now) = start();
    fail(&mut conduct, AFTER, now);
    for seconds in [1, 2, 4, 8, 16, 30, 30] {
        let pause = conduct.eject("answered 500", now);
        assert_eq!(pause, Duration::from_secs(seconds));
        conduct.tick(now + pause - Duration::from_millis(1));
        assert_eq!(conduct.out_until(), Some(now + pause));
        now += pause;
        conduct.tick(now);
        assert_eq!(conduct.out_until(), None);
        assert!(conduct.failed(now, AFTER));
    }
    assert_eq!(conduct.total(), 7);
    assert!(conduct.did_well(now));
    assert!(!fail(&mut conduct, AFTER - 1, now), "it is as good as new");
    assert!(fail(&mut conduct, 1, now));
    assert_eq!(conduct.eject("answered 500", now), FIRST_PAUSE);
    assert_eq!(conduct.total(), 8, "what is counted is not forgotten");
}

#[test]
fn what_began_before_an_ejection_says_nothing_about_what_came_after() {
    let (mut conduct, began) = start();
    fail(&mut conduct, AFTER, began);
    let ejected = began + Duration::from_secs(1);
    let pause = conduct.eject("answered 500", ejected);
    for _ in 0..50 {
        assert!(!conduct.failed(began, AFTER), "the rest of the same burst");
        assert!(!conduct.did_well(began), "an answer that was on its way");
    }
    assert_eq!(conduct.out_until(), Some(ejected + pause));
    conduct.tick(ejected + pause);
    assert!(!conduct.failed(began, AFTER));
    assert!(conduct.did_well(ejected + pause));
}

#[test]
fn a_worker_that_is_out_is_not_due_again() {
    let (mut conduct, now) = start();
    fail(&mut conduct, AFTER, now);
    conduct.eject("answered 500", now);
    assert!(!fail(&mut conduct, 10, now));
}

#[test]
fn it_says_why_while_it_is_out() {
    let (mut conduct, now) = start();
    fail(&mut conduct, AFTER, now);
    assert_eq!(conduct.why(), None);
    conduct.eject("answered 500", now);
    assert_eq!(
        conduct.why(),
        Some("5 failures in a row, the last: answered 500; left out for 1 s, then tried again")
    );
    conduct.tick(now + FIRST_PAUSE);
    assert_eq!(conduct.why(), None);
}

#[test]
fn nothing_is_due_when_the_rule_is_off() {
    let (mut conduct, now) = start();
    assert!(!(0..100).any(|_| conduct.failed(now, 0)));
}

#[test]
fn who_is_readmitted_is_in_at_once_and_still_known_to_fail() {
    let (mut conduct, now) = start();
    fail(&mut conduct, AFTER, now);
    conduct.eject("answered 500", now);
    conduct.readmit();
    assert_eq!(conduct.out_until(), None);
    assert!(conduct.is_failing(AFTER));
    assert!(conduct.spare());
    assert!(!conduct.spare(), "no news");
    assert!(conduct.did_well(now));
    assert!(!conduct.is_failing(AFTER));
}

#[test]
fn a_worker_counts_as_failing_from_half_of_what_it_takes() {
    let (mut conduct, now) = start();
    fail(&mut conduct, 2, now);
    assert!(!conduct.is_failing(AFTER));
    fail(&mut conduct, 1, now);
    assert!(conduct.is_failing(AFTER));
    assert!(!Conduct::default().is_failing(1));
}

#[test]
fn half_of_the_workers_may_be_out_and_never_the_only_one() {
    for (failing, usable, may) in [
        (1, 1, false),
        (1, 2, true),
        (2, 2, false),
        (1, 3, true),
        (2, 3, false),
        (2, 4, true),
        (3, 4, false),
        (0, 0, true),
    ] {
        assert_eq!(may_leave_out(failing, usable), may, "{failing} of {usable}");
    }
}
