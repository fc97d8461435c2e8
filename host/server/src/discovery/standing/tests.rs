//! The rules, without tasks and without a clock that runs.

use super::*;

fn config() -> HealthConfig {
    HealthConfig { unhealthy_after: 3, healthy_after: 2, ..HealthConfig::default() }
}

fn start() -> (Standing, Instant) {
    let now = Instant::now();
    (Standing::new(None, now), now)
}

fn failed() -> Result<(), String> {
    Err("no answer".to_owned())
}

#[test]
fn a_newcomer_is_ready() {
    assert_eq!(start().0.availability(), Availability::Ready);
}

#[test]
fn so_many_bad_probes_make_unhealthy_and_so_many_good_ones_healthy() {
    let (mut standing, now) = start();
    for _ in 0..2 {
        standing.probed(failed(), now, now, &config());
        assert_eq!(standing.availability(), Availability::Ready);
    }
    standing.probed(failed(), now, now, &config());
    assert_eq!(standing.availability(), Availability::Unhealthy);
    assert_eq!(standing.why(), Some("3 probes failed, the last: no answer"));
    standing.probed(Ok(()), now, now, &config());
    assert_eq!(standing.availability(), Availability::Unhealthy);
    standing.probed(Ok(()), now, now, &config());
    assert_eq!(standing.availability(), Availability::Ready);
    assert_eq!(standing.why(), None);
}

#[test]
fn a_good_probe_between_bad_ones_begins_the_count_anew() {
    let (mut standing, now) = start();
    for answer in [failed(), failed(), Ok(()), failed(), failed()] {
        standing.probed(answer, now, now, &config());
    }
    assert_eq!(standing.availability(), Availability::Ready);
}

#[test]
fn an_unreachable_worker_is_unhealthy_at_once_and_probed_soon_then_less_often() {
    let (mut standing, now) = start();
    assert_eq!(standing.next_probe_in(&config()), config().interval);
    assert!(standing.unreachable("connection refused", now, &config()));
    assert!(!standing.unreachable("connection refused", now, &config()), "no news");
    assert_eq!(standing.availability(), Availability::Unhealthy);
    assert_eq!(standing.next_probe_in(&config()), SOON);
    standing.probed(failed(), now, now, &config());
    assert_eq!(standing.next_probe_in(&config()), SOON * 2);
    for _ in 0..20 {
        standing.probed(failed(), now, now, &config());
    }
    assert_eq!(standing.next_probe_in(&config()), config().interval);
}

#[test]
fn a_probe_that_began_before_the_failure_proves_nothing() {
    let (mut standing, now) = start();
    let later = now + Duration::from_millis(10);
    standing.unreachable("reset", later, &config());
    for _ in 0..5 {
        standing.probed(Ok(()), now, later, &config());
    }
    assert_eq!(standing.availability(), Availability::Unhealthy);
}

#[test]
fn a_worker_that_fails_again_right_after_it_came_back_is_probed_less_soon() {
    let (mut standing, now) = start();
    let config = HealthConfig { healthy_after: 1, ..config() };
    for relapses in 0..3 {
        standing.unreachable("reset", now, &config);
        assert_eq!(standing.next_probe_in(&config), SOON * (1 << relapses));
        standing.probed(Ok(()), now, now, &config);
        assert_eq!(standing.availability(), Availability::Ready);
    }
    let later = now + config.interval;
    standing.unreachable("reset", later, &config);
    assert_eq!(standing.next_probe_in(&config), SOON);
}

#[test]
fn an_overload_ends_by_itself_within_two_seconds_of_the_last_report() {
    let (mut standing, now) = start();
    standing.overloaded(Duration::from_secs(3600), now);
    assert_eq!(standing.availability(), Availability::Overloaded);
    let again = now + Duration::from_secs(1);
    standing.overloaded(Duration::from_secs(3600), again);
    assert_eq!(standing.next_tick(), Some(again + LONGEST_OVERLOAD));
    standing.tick(now + LONGEST_OVERLOAD, Duration::ZERO);
    assert_eq!(standing.availability(), Availability::Overloaded);
    standing.tick(again + LONGEST_OVERLOAD, Duration::ZERO);
    assert_eq!(standing.availability(), Availability::Ready);
    assert_eq!(standing.next_tick(), None);
}

#[test]
fn a_good_probe_does_not_end_an_overload_and_an_overload_hides_no_failure() {
    let (mut standing, now) = start();
    standing.overloaded(Duration::from_secs(1), now);
    standing.probed(Ok(()), now, now, &config());
    assert_eq!(standing.availability(), Availability::Overloaded);
    standing.unreachable("reset", now, &config());
    assert_eq!(standing.availability(), Availability::Unhealthy);
}

#[test]
fn a_lease_that_runs_out_drains_and_a_heartbeat_in_time_renews() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let mut standing = Standing::new(Some(second * 10), now);
    assert!(standing.heartbeat(now + second * 9));
    standing.tick(now + second * 18, second);
    assert_eq!(standing.availability(), Availability::Ready);
    standing.tick(now + second * 19, second);
    assert_eq!(standing.availability(), Availability::Draining);
    assert_eq!(standing.leaves_by(), Some(now + second * 20));
    assert_eq!(standing.why(), Some("its lease ran out"));
    assert!(!standing.heartbeat(now + second * 19), "there is no lease any more");
}

#[test]
fn registering_again_takes_back_a_farewell_but_not_a_failure() {
    let (mut standing, now) = start();
    standing.unreachable("reset", now, &config());
    standing.leave(Farewell::Deleted, now);
    standing.registered_again(None, now);
    assert_eq!(standing.availability(), Availability::Unhealthy);
}
