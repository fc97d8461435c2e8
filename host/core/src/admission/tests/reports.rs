//! Promises to those who wait while engines say how busy they are.

use super::*;
use crate::eligibility::{BusyThresholds, LoadReport, MOST_REPORT_AGE_MS};
use crate::ids::{DpRank, WorkerRank};

/// Two workers, of which the first is busy by the router's own count, so that whoever comes while the
/// second is overloaded waits.
fn rig() -> (Rig, crate::ledger::Lease) {
    let mut rig = Rig::of(of(vec![queueing("a", 1)]), [1, 2]);
    let share =
        BusyThresholds { active_decode_blocks_threshold: Some(0.5), ..BusyThresholds::default() };
    assert!(rig.router.set_busy_thresholds("m", Some(share)));
    let busy = rig.decide(pinned_to(1, request(900))).unwrap();
    (rig, busy)
}

/// What the second worker's engine says.
fn says(rig: &Rig, kv_cache_usage: f64) {
    let usage = Some(kv_cache_usage);
    let report = LoadReport { kv_cache_usage: usage, at_ms: rig.now_ms, ..LoadReport::default() };
    let rank = WorkerRank { worker_id: WorkerId(2), dp_rank: DpRank(0) };
    assert!(rig.partition().report_load(rank, None, report));
}

#[test]
fn who_waits_is_told_when_an_engine_says_that_it_is_no_longer_busy() {
    let (mut rig, _busy) = rig();
    says(&rig, 0.9);
    assert!(matches!(rig.come("waits", request(9)), Ok(Arrival::Waits(_))));
    assert!(rig.look().is_empty());
    for usage in [0.95, 0.51, 0.9] {
        says(&rig, usage);
    }
    assert_eq!(rig.bell.rings(), 0, "it is as busy as before");
    says(&rig, 0.5);
    assert_eq!(rig.bell.rings(), 1);
    assert_eq!(rig.look(), ["waits"]);
    says(&rig, 0.9);
    assert_eq!(rig.bell.rings(), 1, "nobody waits");
}

#[test]
fn who_waits_is_told_when_nobody_is_left_to_wait_for() {
    let mut rig = Rig::of(of(vec![queueing("a", 1)]), [2]);
    let share =
        BusyThresholds { active_decode_blocks_threshold: Some(0.5), ..BusyThresholds::default() };
    assert!(rig.router.set_busy_thresholds("m", Some(share)));
    let _busy = rig.decide(request(900)).unwrap();
    rig.come("waits", request(9)).unwrap();
    assert!(rig.look().is_empty());
    says(&rig, 0.4);
    assert_eq!(rig.bell.rings(), 0);
    says(&rig, 0.6);
    assert_eq!(rig.bell.rings(), 1);
    assert_eq!(rig.look(), ["waits: all_eligible_workers_overloaded"]);
}

#[test]
fn who_waits_looks_by_himself_while_a_report_grows_old() {
    let (mut rig, _busy) = rig();
    let by_time = |rig: &Rig| rig.partition().ledger().relief().falls_by_time();
    says(&rig, 0.4);
    let second = rig.decide(request(900)).unwrap();
    rig.come("first", request(9)).unwrap();
    assert!(!by_time(&rig), "all that can happen rings");
    drop(second);
    assert_eq!(rig.look(), ["first"]);
    rig.ends();
    says(&rig, 0.9);
    rig.come("second", request(9)).unwrap();
    assert!(by_time(&rig));
    rig.now_ms = MOST_REPORT_AGE_MS;
    assert!(rig.look().is_empty() && by_time(&rig), "it is still believed");
    rig.now_ms += 1;
    assert_eq!(rig.look(), ["second"]);
}

#[test]
fn thresholds_of_now_say_what_a_report_changes() {
    let (mut rig, _busy) = rig();
    says(&rig, 0.9);
    rig.come("waits", request(9)).unwrap();
    assert!(rig.router.set_busy_thresholds(
        "m",
        Some(BusyThresholds {
            active_decode_blocks_threshold: Some(0.95),
            ..BusyThresholds::default()
        })
    ));
    assert_eq!(rig.look(), ["waits"]);
    rig.ends();
    says(&rig, 0.96);
    rig.come("again", request(9)).unwrap();
    let rings = rig.bell.rings();
    says(&rig, 0.94);
    assert_eq!(rig.bell.rings(), rings + 1);
}

#[test]
fn what_is_left_of_prefills_goes_by_the_look_of_who_waits() {
    let mut rig = Rig::of(of(vec![queueing("a", 1)]), [1]);
    rig.melting();
    let oldest = rig.decide(request(900)).unwrap();
    rig.now_ms = 10;
    let _next = rig.force(request(900));
    rig.come("waits", request(9)).unwrap();
    // Its client has left. The next one's work begins, and nobody but who waits looks at the clock.
    drop(oldest);
    assert!(rig.look().is_empty());
    rig.now_ms = 1_000;
    assert_eq!(rig.look(), ["waits"]);
}
