//! State: handed over, lost, and told of the fleet.

use std::num::NonZeroU32;

use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::ids::{DecisionId, DpRank, WorkerId, WorkerRank};
use pointsman_core::outcome::{DecisionOutcome, Ending, MOST_AT_ONCE, OutcomeEvent};
use pointsman_core::policy::{Cause, Limits, PolicyEnvironment, PolicyInstance, PolicyProvider};

use crate::rig::{Case, component, engine, environment, eventually, instance, load, partition};

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

#[test]
fn more_state_than_may_be_handed_over_is_a_bad_answer() {
    let remembers = std::fs::read_to_string("../../tests/guests/remembers.wat").unwrap();
    let saved = |bytes: usize| {
        let own = "(call $ok-list (i32.const 2048) (i32.const 4)))";
        let more = format!(
            "(drop (memory.grow (i32.const 300))) (call $ok-list (i32.const 0) (i32.const {bytes})))"
        );
        let guest = component(&remembers.replacen(own, &more, 1));
        guest.instantiate(&environment()).unwrap().save().unwrap()
    };
    let most = 16 << 20;
    assert_eq!(saved(most).unwrap().len(), most);
    let error = saved(most + 1).unwrap_err();
    assert_eq!(error.cause, Cause::BadOutput);
    assert!(error.detail.contains("16777217 bytes of state, at most 16777216"), "{error}");
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

fn outcome(at_ms: u64, event: impl Into<OutcomeEvent>) -> DecisionOutcome {
    let worker = WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) };
    DecisionOutcome { decision_id: DecisionId(at_ms), worker, at_ms, event: event.into() }
}

#[test]
fn one_that_learns_is_told_whole_batches_and_its_replacement_begins_anew() {
    let mut policy = instance("observes").unwrap();
    assert!(policy.declaration().properties.observes);
    let case = Case::new(&[0.0; 100]);
    assert_eq!(case.pick(&mut *policy).unwrap(), 0);
    policy
        .observe(&[
            outcome(1, OutcomeEvent::Dispatched),
            outcome(2, OutcomeEvent::FirstToken),
            outcome(3, Ending::Completed { output_tokens: 20 }),
            outcome(4, Ending::failed("no connection")),
            outcome(5, Ending::Cancelled),
        ])
        .unwrap();
    assert!(policy.last_fuel().unwrap() > 0, "that is metered, too");
    assert_eq!(case.pick(&mut *policy).unwrap(), 25);
    let many: Vec<_> = (0..MOST_AT_ONCE as u64)
        .map(|at| outcome(at, Ending::Completed { output_tokens: 1 << 40 }))
        .collect();
    policy.observe(&many).unwrap();
    let heard = 25 + MOST_AT_ONCE as u64 * ((1 << 40) + 1);
    assert_eq!(case.pick(&mut *policy).unwrap() as u64, heard % 100);

    let trap = policy.observe(&[outcome(6, Ending::failed("again"))]).unwrap_err();
    assert_eq!(trap.cause, Cause::Trap);
    assert_eq!(policy.usage().unwrap().lost, 1);
    let row = eventually("a replacement", || case.pick(&mut *policy).ok());
    assert_eq!(row, 0, "what it had heard is lost with it");
}

#[test]
fn one_that_does_not_learn_is_told_nothing() {
    let mut policy = instance("template").unwrap();
    policy.observe(&[outcome(1, OutcomeEvent::Dispatched)]).unwrap();
    assert_eq!(policy.last_fuel(), Some(0));
}

/// Calls a leaking guest, and gives its replacement time when that is due.
fn call_leaking(policy: &mut dyn PolicyInstance) -> usize {
    if policy.usage().is_some_and(|usage| usage.memory_bytes > Limits::recycle_at_of(MEMORY)) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let case = Case::new(&[0.0; 7]);
    case.pick(policy).unwrap()
}

const MEMORY: u64 = 4 << 20;

fn leaking(limits: Limits) -> Box<dyn PolicyInstance> {
    let environment = PolicyEnvironment { limits, ..environment() };
    load("leaks").unwrap().instantiate(&environment).unwrap()
}

#[test]
fn one_that_leaks_is_replaced_before_it_fails_and_its_state_goes_on() {
    let mut leaks = leaking(Limits { memory: Some(MEMORY), ..Limits::default() });
    let before = engine().counters();
    // Twelve times its memory.
    for call in 0..50_000 {
        assert_eq!(call_leaking(&mut *leaks), (call % 7) as usize, "call {call}");
    }
    let usage = leaks.usage().unwrap();
    assert!(usage.recycled >= 8, "{usage:?}");
    assert_eq!(usage.lost, 0, "{usage:?}");
    assert!(usage.most_memory_bytes <= MEMORY, "{usage:?}");
    let after = engine().counters();
    assert!(after.instances_recycled >= before.instances_recycled + usage.recycled);
}

#[test]
fn one_that_is_let_run_out_of_memory_fails() {
    let limits = Limits { memory: Some(MEMORY), recycle_at: Some(MEMORY), ..Limits::default() };
    let mut leaks = leaking(limits);
    let case = Case::new(&[0.0; 7]);
    let failure = (0..10_000).find_map(|_| case.pick(&mut *leaks).err());
    assert_eq!(failure.unwrap().cause, Cause::Memory);
    assert_eq!(leaks.usage().unwrap().lost, 1);
}

#[test]
fn a_call_may_burn_what_it_is_allowed_and_no_more_than_its_limits_say() {
    let mut policy = instance("template").unwrap();
    let case = Case::new(&[1.0; 64]);
    case.score(&mut *policy).unwrap();
    let needs = policy.last_fuel().unwrap();
    for allowed in [Some(needs), None, Some(u64::MAX)] {
        policy.allow(allowed);
        case.score(&mut *policy).unwrap();
        assert_eq!(policy.last_fuel(), Some(needs));
    }
    // Fuel is looked at between blocks of code, so that the last few may be had for nothing.
    policy.allow(Some(needs / 2));
    assert_eq!(case.score(&mut *policy).unwrap_err().cause, Cause::Fuel);
    policy.allow(None);
    eventually("a replacement", || case.score(&mut *policy).ok());
}
