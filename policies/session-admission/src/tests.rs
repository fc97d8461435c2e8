//! Who goes, who waits, and for whom.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::collections::{BTreeMap, BTreeSet};

use pointsman_sdk::classifier::prelude::*;
use pointsman_sdk::classifier::testing::{self, Door};

use crate::SessionAdmission;

fn door(most_in_flight: u32) -> Door {
    Door::of::<SessionAdmission>(format!(r#"{{"most_in_flight": {most_in_flight}}}"#)).unwrap()
}

fn goes(door: &mut Door, id: &str, session: &str) -> bool {
    door.arrive_of(id, session).unwrap().is_admitted()
}

#[test]
fn one_request_of_a_session_goes_and_the_next_follow_in_their_order() {
    let mut door = door(10);
    assert!(goes(&mut door, "a1", "a"));
    assert!(!goes(&mut door, "a2", "a") && !goes(&mut door, "a3", "a"));
    assert!(goes(&mut door, "b1", "b"), "another session has nothing to do with it");
    assert_eq!(door.complete("a1").unwrap(), ["a2"]);
    assert_eq!(door.complete("a2").unwrap(), ["a3"]);
    assert!(door.complete("a3").unwrap().is_empty() && door.complete("b1").unwrap().is_empty());
    assert!(goes(&mut door, "a4", "a"), "nothing is left behind");
}

#[test]
fn the_limit_is_for_all_and_those_who_waited_longest_go_first() {
    let mut door = door(2);
    assert!(goes(&mut door, "a1", "a") && goes(&mut door, "b1", "b"));
    assert!(!goes(&mut door, "a2", "a") && !goes(&mut door, "c1", "c"));
    assert!(!door.arrive("alone", |_| ()).unwrap().is_admitted(), "the limit is for it too");
    assert_eq!(door.complete("b1").unwrap(), ["c1"], "a2 waits for its session");
    assert_eq!(door.complete("a1").unwrap(), ["a2"], "it came before the one without a session");
    assert_eq!(door.complete("a2").unwrap(), ["alone"]);
}

#[test]
fn requests_without_a_session_wait_for_nobody() {
    let mut door = door(3);
    for id in ["x", "y", "z"] {
        assert!(door.arrive(id, |_| ()).unwrap().is_admitted());
    }
    assert!(!door.arrive("w", |_| ()).unwrap().is_admitted());
}

#[test]
fn a_client_that_leaves_makes_room() {
    let mut door = door(1);
    assert!(goes(&mut door, "a1", "a"));
    assert!(!goes(&mut door, "a2", "a") && !goes(&mut door, "a3", "a"));
    assert!(door.abort("a2").unwrap().is_empty(), "it only waited");
    assert_eq!(door.abort("a1").unwrap(), ["a3"]);
}

#[test]
fn more_than_may_be_held_are_refused() {
    let parameters = r#"{"most_in_flight": 1, "most_held": 1}"#;
    let mut door = Door::of::<SessionAdmission>(parameters).unwrap();
    assert!(goes(&mut door, "a1", "a") && !goes(&mut door, "a2", "a"));
    let refused = door.arrive_of("a3", "a").unwrap();
    assert_eq!(refused, Verdict::Reject("1 requests are held already".to_owned()));
    assert!(door.abort("a3").unwrap().is_empty());
    assert_eq!(door.complete("a1").unwrap(), ["a2"]);
}

#[test]
fn what_was_under_way_before_counts() {
    let mut door = door(2);
    for id in ["a1", "a2"] {
        assert!(door.inherit(id, testing::session("a")).unwrap().is_empty());
    }
    assert!(!goes(&mut door, "a3", "a") && !goes(&mut door, "b1", "b"));
    assert_eq!(door.complete("a1").unwrap(), ["b1"], "a2 is still under way");
    assert_eq!(door.complete("a2").unwrap(), ["a3"]);
}

#[test]
fn what_the_router_admits_in_its_place_counts_too() {
    let mut door = door(2);
    assert!(goes(&mut door, "a1", "a") && !goes(&mut door, "a2", "a"));
    assert!(!goes(&mut door, "a3", "a"));
    assert!(door.admit("a2").unwrap().is_empty());
    assert!(!goes(&mut door, "b1", "b"), "two are under way");
    assert_eq!(door.complete("a1").unwrap(), ["b1"], "a3 waits for a2");
    assert_eq!(door.complete("a2").unwrap(), ["a3"]);
    assert!(door.admit("never seen").unwrap().is_empty());
    assert!(door.complete("never seen").unwrap().is_empty());
}

#[test]
fn parameters_are_checked() {
    let refused = |parameters: &str| Door::of::<SessionAdmission>(parameters).unwrap_err();
    let words = refused(r#"{"most_in_flight": 0}"#).to_string();
    assert_eq!(words, "parameter \"most_in_flight\" is 0; give 1 or more");
    assert!(refused("{}").to_string().contains("most_in_flight"));
    assert!(refused(r#"{"most_in_flight": 1, "x": 2}"#).to_string().contains("x"));
}

/// Against a model that looks at everything each time: random arrivals and ends of few sessions.
#[test]
fn a_slow_model_admits_the_same_in_the_same_order() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let limit = 1 + random.next_u64() % 4;
        let mut door = door(limit as u32);
        let mut waiting: Vec<(String, String)> = Vec::new();
        let mut running: BTreeMap<String, String> = BTreeMap::new();
        for step in 0..300 {
            let id = format!("r{step}");
            if random.unit() < 0.5 {
                let session = format!("s{}", random.next_u64() % 5);
                let busy = running.values().chain(waiting.iter().map(|(_, of)| of));
                let free = !busy.cloned().collect::<BTreeSet<_>>().contains(&session);
                let expected = free && running.len() < limit as usize;
                assert_eq!(goes(&mut door, &id, &session), expected, "{seed} {step}");
                if expected {
                    running.insert(id, session);
                } else {
                    waiting.push((id, session));
                }
                continue;
            }
            let all: Vec<String> =
                running.keys().chain(waiting.iter().map(|(id, _)| id)).cloned().collect();
            if all.is_empty() {
                continue;
            }
            let gone = &all[(random.next_u64() % all.len() as u64) as usize];
            running.remove(gone);
            waiting.retain(|(id, _)| id != gone);
            let mut expected = Vec::new();
            while running.len() < limit as usize {
                let ready = |(_, of): &(String, String)| !running.values().any(|it| it == of);
                let Some(at) = waiting.iter().position(ready) else { break };
                let (id, of) = waiting.remove(at);
                expected.push(id.clone());
                running.insert(id, of);
            }
            assert_eq!(door.abort(gone).unwrap(), expected, "{seed} {step}");
        }
    }
}
