//! State: handed over, lost, and told of the fleet.

use std::num::NonZeroU32;

use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::ids::WorkerId;
use pointsman_core::policy::{Cause, PolicyProvider};

use crate::rig::{Case, engine, environment, eventually, instance, load, partition};

#[test]
fn state_is_handed_over_and_lost_with_a_trap() {
    let case = Case::new(&[0.0; 4]);
    let mut before = instance("remembers").unwrap();
    for row in [0, 1, 2] {
        assert_eq!(case.pick(&mut *before).unwrap(), row);
    }
    let state = before.save().unwrap().unwrap();
    let mut after = instance("remembers").unwrap();
    after.restore(&state).unwrap();
    assert_eq!(case.pick(&mut *after).unwrap(), 3);

    let error = after.restore(b"too long for a count").unwrap_err();
    assert_eq!(error.cause, Cause::Refused);
    assert_eq!(case.pick(&mut *after).unwrap(), 0, "a refusal changes nothing");

    let lost = engine().counters().state_lost;
    let trap = Case::new(&[0.0; 4]).tokens(10).pick(&mut *after).unwrap_err();
    assert_eq!(trap.cause, Cause::Trap);
    assert!(engine().counters().state_lost > lost);
    let row = eventually("a replacement", || case.pick(&mut *after).ok());
    assert_eq!(row, 0, "it begins anew");
}

#[test]
fn what_hands_nothing_over_has_nothing_to_save() {
    let mut policy = instance("template").unwrap();
    assert!(policy.save().is_none());
    policy.restore(b"whatever").unwrap();
}

/// A fleet of workers with two ranks each.
fn fleet(workers: u64) -> Snapshot {
    let mut fleet = Fleet::default();
    for id in 0..workers {
        let mut spec = WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", partition());
        spec.data_parallel_size = NonZeroU32::new(2).unwrap();
        spec.taints.insert("a".to_owned());
        spec.labels.insert("zone".to_owned(), "b".to_owned());
        spec.device_kind = Some("H100".to_owned());
        fleet.upsert(spec).unwrap();
    }
    fleet.snapshot(&partition())
}

#[test]
fn a_follower_and_its_replacement_know_the_fleet() {
    let mut follower = load("follows").unwrap().instantiate(&environment()).unwrap();
    let case = Case::new(&[0.0; 2]);
    follower.fleet_changed(&fleet(3)).unwrap();
    assert_eq!(case.score(&mut *follower).unwrap(), [6.0; 2]);

    let trap = Case::new(&[0.0]).tokens(10).score(&mut *follower).unwrap_err();
    assert_eq!(trap.cause, Cause::Trap);
    // Told while there is nobody to tell.
    follower.fleet_changed(&fleet(5)).unwrap();
    let costs = eventually("a replacement", || case.score(&mut *follower).ok());
    assert_eq!(costs, [10.0; 2]);
}
