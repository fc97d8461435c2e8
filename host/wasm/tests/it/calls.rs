//! Calls: answers, limits, causes, and what follows a failure.

use std::path::Path;

use pointsman_core::policy::{Cause, Limits, PolicyEnvironment, PolicyProvider, StageError};
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};

use crate::guests::guest;
use crate::rig::{Case, component, engine, environment, eventually, instance, load};

#[test]
fn a_component_keeps_scores_and_picks() {
    let mut policy = instance("template").unwrap();
    let names: Vec<&str> = policy.declaration().filters.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["everyone"]);
    assert!(policy.declaration().properties.stateless);
    for rows in [1, 3, 63, 64, 65, 130] {
        let load: Vec<f64> = (0..rows).map(|row| f64::from((row * 7 + 5) % 11)).collect();
        let case = Case::new(&load);
        assert_eq!(case.keep(&mut *policy).unwrap(), (0..rows as usize).collect::<Vec<_>>());
        assert_eq!(case.score(&mut *policy).unwrap(), load);
        let row = case.pick(&mut *policy).unwrap();
        assert_eq!(load[row], load.iter().copied().fold(f64::INFINITY, f64::min));
        assert!(policy.last_fuel().unwrap() > 10);
    }
}

/// Calls the stage that the guest is bad at, once.
fn fails(name: &str, cause: Cause, words: &str) -> StageError {
    let mut policy = instance(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let case = Case::new(&[3.0, 1.0, 2.0]);
    let error = case
        .keep(&mut *policy)
        .and_then(|_| case.score(&mut *policy))
        .and_then(|_| case.pick(&mut *policy))
        .unwrap_err();
    assert_eq!(error.cause, cause, "{name}: {error}");
    assert!(error.detail.contains(words), "{name}: {:?} should say {words:?}", error.detail);
    let ends = !matches!(cause, Cause::Refused | Cause::BadOutput);
    assert_eq!(policy.usage().unwrap().lost, u64::from(ends), "{name}: lost with its state");
    error
}

#[test]
fn every_way_to_fail_has_its_own_cause() {
    fails("loops-in-keep", Cause::Fuel, "fuel");
    fails("loops-in-score", Cause::Fuel, "loop-for-ever < score");
    fails("loops-in-pick", Cause::Fuel, "fuel");
    fails("hogs-memory", Cause::Memory, "33554432 bytes");
    fails("traps", Cause::Trap, "unreachable");
    fails("recurses", Cause::Trap, "stack exhausted");
    fails("scores-past-the-end", Cause::Trap, "");
    fails("imports-sockets", Cause::Trap, "wasi:sockets/instance-network@0.2.3#probe");
    fails("chatters", Cause::Fuel, "fuel");
    fails("asks-for-chance", Cause::Fuel, "fuel");
    fails("scores-too-few", Cause::BadOutput, "2 costs for 3 rows");
    fails("keeps-too-few-words", Cause::BadOutput, "0 words of verdicts for 3 rows, wanted 1");
    fails("keeps-past-the-end", Cause::BadOutput, "past the last of 3");
    fails("refuses-to-score", Cause::Refused, r#""not \"today\" ""#);
}

/// As one that panics: a line in the log, then the trap.
#[test]
fn what_a_guest_says_before_it_traps_is_told_with_the_trap() {
    let chatters = std::fs::read_to_string("../../tests/guests/chatters.wat").unwrap();
    let (imports, _) = chatters.split_once(";;; score").unwrap();
    let score = "
;;; score
(func $score (result i32)
  ;; level `info`, then `error`: the text of the refusal, and a part of it
  (call $write (i32.const 2) (i32.const 1280) (i32.const 12))
  (call $write (i32.const 0) (i32.const 1284) (i32.const 7))
  unreachable)
;;; end
";
    let mut policy = component(&format!("{imports}{score}")).instantiate(&environment()).unwrap();
    let error = Case::new(&[1.0]).score(&mut *policy).unwrap_err();
    assert_eq!(error.cause, Cause::Trap);
    let words = "; it said: \"\\\"today\\\"\"";
    assert!(error.detail.contains("unreachable") && error.detail.ends_with(words), "{error}");
}

#[test]
fn a_loop_is_ended_at_every_call_and_not_only_at_the_first() {
    let policy = load("loops-in-pick").unwrap();
    for _ in 0..3 {
        let mut instance = policy.instantiate(&environment()).unwrap();
        let error = Case::new(&[1.0]).pick(&mut *instance).unwrap_err();
        assert_eq!(error.cause, Cause::Fuel);
        assert_eq!(instance.last_fuel(), Some(Limits::SMALL_FUEL));
    }
    let error = load("loops-in-configure").unwrap().instantiate(&environment()).unwrap_err();
    assert!(error.to_string().contains("failed in configure: fuel"), "{error}");
}

#[test]
fn a_deadline_begins_anew_with_every_call() {
    let mut environment = environment();
    environment.limits.fuel = Some(2_500_000);
    environment.limits.deadline = Some(Limits::MIN_DEADLINE);
    let mut instance = load("template").unwrap().instantiate(&environment).unwrap();
    let case = Case::new(&[1.0, 2.0]);
    let since = pointsman_core::clock::Stopwatch::start();
    let mut calls = 0;
    // Three deadlines' worth of calls.
    while since.elapsed() < Limits::MIN_DEADLINE * 3 {
        case.score(&mut *instance).unwrap();
        calls += 1;
    }
    assert!(calls > 100);
}

/// A case whose trap comes with every tenth token.
fn at_times(tokens: u64) -> Case {
    Case::new(&[2.0, 1.0]).tokens(tokens)
}

#[test]
fn a_lost_instance_is_replaced_off_the_path() {
    let mut instance = instance("traps-at-times").unwrap();
    let (mut own, mut lost) = (0, 0);
    for tokens in 1..=200 {
        match at_times(tokens).score(&mut *instance) {
            Ok(costs) => {
                assert_eq!(costs, [2.0, 1.0]);
                own += 1;
            }
            Err(error) => {
                assert_eq!(error.cause, Cause::Trap);
                lost += 1;
                // The next call comes when the replacement is there, which takes no wait however
                // often this happens.
                eventually("a replacement", || at_times(1).score(&mut *instance).ok());
            }
        }
    }
    assert_eq!((own, lost), (180, 20));
}

#[test]
fn until_its_replacement_is_there_an_instance_is_unavailable() {
    let mut instance = instance("traps").unwrap();
    let before = engine().counters();
    let case = Case::new(&[1.0]);
    assert_eq!(case.score(&mut *instance).unwrap_err().cause, Cause::Trap);
    let mut seen = Vec::new();
    let mut traps = 1;
    // It traps again each time, so that the waits grow, and most calls aren't made at all.
    let since = pointsman_core::clock::Stopwatch::start();
    while traps < 5 {
        let cause = case.score(&mut *instance).unwrap_err().cause;
        traps += usize::from(cause == Cause::Trap);
        seen.push(cause);
    }
    assert!(seen.iter().all(|cause| matches!(cause, Cause::Trap | Cause::Unavailable)));
    assert!(since.elapsed().as_millis() >= 10 + 20 + 40, "each wait is twice the one before");
    let after = engine().counters();
    assert!(after.instances_lost >= before.instances_lost + 5);
    assert!(after.replacements >= before.replacements + 4);
}

#[test]
fn a_refusal_costs_no_instance() {
    let mut instance = instance("refuses-to-score").unwrap();
    let case = Case::new(&[1.0]);
    for _ in 0..3 {
        assert_eq!(case.score(&mut *instance).unwrap_err().cause, Cause::Refused);
        assert_eq!(case.pick(&mut *instance).unwrap(), 0);
    }
}

#[test]
fn a_hog_gets_no_more_memory_than_its_owner_said() {
    let policy = load("hogs-memory").unwrap();
    for memory in [1 << 20, 64 << 20] {
        let mut environment = environment();
        environment.limits.memory = Some(memory);
        let mut instance = policy.instantiate(&environment).unwrap();
        let error = Case::new(&[1.0]).score(&mut *instance).unwrap_err();
        assert_eq!(error.cause, Cause::Memory);
        assert!(error.detail.contains(&format!("{memory} bytes")), "{error}");
    }
    let mut environment = environment();
    environment.limits.memory = Some(100_000);
    let error = policy.instantiate(&environment).unwrap_err().to_string();
    assert!(error.contains("failed in its start: memory"), "{error}");
}

#[test]
fn tables_and_answers_are_no_larger_than_their_owner_said() {
    let grows = component(
        ";;; score
        (table $more 1 funcref)
        (func $score (result i32)
          (loop $again (br_if $again
            (i32.ne (table.grow $more (ref.null func) (i32.const 1000)) (i32.const -1))))
          unreachable)
        ;;; end",
    );
    let floods = component(
        ";;; score
        (func $score (result i32)
          (call $ok-list (i32.const 0) (i32.const 1000)))
        ;;; end",
    );
    let fails = |policy: &ComponentPolicy, change: &dyn Fn(&mut Limits)| {
        let mut environment = environment();
        change(&mut environment.limits);
        let mut instance = policy.instantiate(&environment).unwrap();
        Case::new(&[1.0]).score(&mut *instance).unwrap_err()
    };
    for elements in [Limits::SMALL_TABLE_ELEMENTS, 50_000] {
        let error = fails(&grows, &|limits| limits.table_elements = Some(elements));
        assert_eq!(error.cause, Cause::Memory);
        assert!(error.detail.contains(&format!("{elements} elements")), "{error}");
    }
    let error = fails(&floods, &|limits| limits.reply_bytes = 7_999);
    assert_eq!(error.cause, Cause::Trap);
    assert!(error.detail.contains("reply_bytes"), "{error}");
    let error = fails(&floods, &|limits| limits.reply_bytes = 8_000);
    assert_eq!(error.cause, Cause::BadOutput, "that it may say, though it is wrong");
}

#[test]
fn what_is_over_the_log_limit_is_counted() {
    let before = engine().counters().log_lines_dropped;
    fails("chatters", Cause::Fuel, "");
    assert!(engine().counters().log_lines_dropped > before + 100);
}

#[test]
fn a_trial_asks_a_whole_instance_each_time_and_counts_no_failure() {
    let config = EngineConfig { pooled_instances: 0, ..EngineConfig::default() };
    let engine = PolicyEngine::new(config).unwrap();
    let environment = PolicyEnvironment { trial: true, ..environment() };
    for name in ["traps", "chatters"] {
        let policy = ComponentPolicy::load(&engine, name, Path::new(name), &guest(name)).unwrap();
        let mut instance = policy.instantiate(&environment).unwrap();
        let case = Case::new(&[1.0]);
        let causes: Vec<_> =
            (0..3).map(|_| case.score(&mut *instance).unwrap_err().cause).collect();
        assert!(causes.iter().all(|cause| *cause != Cause::Unavailable), "{causes:?}");
    }
    let counted = engine.counters();
    let failures = (counted.instances_lost, counted.state_lost, counted.replacements);
    assert_eq!((failures, counted.log_lines_dropped), ((0, 0, 0), 0));
}
