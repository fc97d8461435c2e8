//! Fuel makes failure deterministic: the same decision fails at the same point, whoever makes it and
//! whenever.
//!
//! Where a call ended can't be seen in an instance that is lost with it, but in what it told the host
//! before: each line that a guest writes is counted, and the limit on lines is none.

use std::path::Path;

use pointsman_core::policy::{
    Cause, Limits, PolicyEnvironment, PolicyInstance, PolicyProvider, StageError,
};
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};

use crate::guests::{guest, varied};
use crate::rig::{Case, component, environment, eventually};

const RUNS: usize = 1_000;
/// Far less than the fuel of a call, so that a thousand loops end soon.
const FUEL: u64 = 300_000;
/// What a line costs, all at once.
const FUEL_PER_LINE: u64 = 1_000;
/// Good decisions between two failures: enough that the replacement is made at once.
const BETWEEN: usize = 9;

/// A scorer that works as many rounds as the request has prompt tokens, in memory that it keeps, and
/// says every sixteenth round. Costs: how many decisions it has begun; what came out; how many it
/// has ended.
const WORKS: &str = r#"
;;; imports
(import "pointsman:policy/log@0.1.0" (instance $log
  (type $level (enum "error" "warn" "info" "debug" "trace"))
  (export "level" (type $level' (eq $level)))
  (export "write" (func (param "level" $level') (param "message" string)))))
;;; end
;;; lowered
(alias export $log "write" (func $write))
(core func $write-lowered (canon lower (func $write) (memory $memory)))
(core instance $log (export "write" (func $write-lowered)))
;;; end
;;; core-imports
(import "log" "write" (func $write (param i32 i32 i32)))
;;; end
;;; with
(with "log" (instance $log))
;;; end
;;; score
(global $begun (mut i32) (i32.const 0))
(global $ended (mut i32) (i32.const 0))
(func $mix (param $word i64) (param $with i64) (result i64)
  (i64.xor
    (i64.mul (i64.rotl (local.get $word) (i64.const 29)) (i64.const 0x2545f4914f6cdd1d))
    (local.get $with)))
(func $halve (param $word i64) (result i64)
  ;; Through floats and back, so that these are in it too.
  (i64.trunc_sat_f64_u (f64.div
    (f64.convert_i64_u (i64.shr_u (local.get $word) (i64.const 11))) (f64.const 2))))
(func $work (param $at i32) (param $word i64) (result i64)
  (local.set $word (call $mix (local.get $word) (i64.load (local.get $at))))
  (i64.store (local.get $at) (local.get $word))
  (i64.add (local.get $word) (call $halve (local.get $word))))
(func $score (result i32)
  (local $costs i32) (local $round i64) (local $word i64)
  (global.set $begun (i32.add (global.get $begun) (i32.const 1)))
  (local.set $costs (global.get $numbers))
  ;; It begins with the seed and a column.
  (local.set $word (i64.add
    (global.get $seed) (i64.load offset=8 (local.get $costs))))
  (loop $next
    (local.set $word (call $work
      (i32.add (i32.const 4096)
        (i32.and (i32.wrap_i64 (local.get $word)) (i32.const 0x3ff8)))
      (local.get $word)))
    (local.set $round (i64.add (local.get $round) (i64.const 1)))
    (if (i64.eqz (i64.and (local.get $round) (i64.const 15)))
      (then (call $write (i32.const 2) (i32.const 1280) (i32.const 12))))
    (br_if $next (i64.lt_u (local.get $round) (global.get $prompt))))
  (global.set $ended (i32.add (global.get $ended) (i32.const 1)))
  (f64.store (local.get $costs) (f64.convert_i32_s (global.get $begun)))
  (f64.store offset=8 (local.get $costs)
    (f64.convert_i64_u (i64.shr_u (local.get $word) (i64.const 11))))
  (f64.store offset=16 (local.get $costs) (f64.convert_i32_s (global.get $ended)))
  (call $ok-list (local.get $costs) (global.get $length)))
;;; end
"#;

/// How a call failed, and what it had done by then.
#[derive(Clone, Debug, PartialEq)]
struct Failure {
    error: StageError,
    fuel: Option<u64>,
    lines: u64,
}

impl Failure {
    /// Whether it burnt all of this fuel, but for what was too little for a line.
    fn is_out_of(&self, fuel: u64) -> bool {
        let left = fuel - self.fuel.unwrap();
        self.error.cause == Cause::Fuel && left < FUEL_PER_LINE
    }
}

/// An engine whose counts are this test's alone.
fn engine(pooled_instances: u32) -> PolicyEngine {
    PolicyEngine::new(EngineConfig { pooled_instances, ..EngineConfig::default() }).unwrap()
}

fn load(engine: &PolicyEngine, bytes: &[u8]) -> ComponentPolicy {
    ComponentPolicy::load(engine, "x", Path::new("x.wasm"), bytes).unwrap()
}

fn fresh(policy: &ComponentPolicy, fuel: u64) -> Box<dyn PolicyInstance> {
    let environment = environment();
    let limits = Limits { fuel: Some(fuel), log_lines: 0, ..environment.limits };
    policy.instantiate(&PolicyEnvironment { limits, ..environment }).unwrap()
}

/// Asks for costs, which must fail.
fn fails(engine: &PolicyEngine, on: &mut dyn PolicyInstance, case: &Case) -> Failure {
    let before = engine.counters().log_lines_dropped;
    let error = case.score(on).unwrap_err();
    let lines = engine.counters().log_lines_dropped - before;
    Failure { error, fuel: on.last_fuel(), lines }
}

/// A decision that takes so many rounds.
fn rounds(rounds: u64) -> Case {
    Case::new(&[3.0, 1.0, 2.0]).tokens(rounds)
}

#[test]
fn a_loop_ends_at_the_same_point_on_each_of_1000_runs() {
    for (name, writes) in [("loops-in-score", false), ("chatters", true)] {
        let mut failures = Vec::with_capacity(RUNS);
        // Half of them in a pool's slots, which are used over and over.
        for pooled in [16, 0] {
            let engine = engine(pooled);
            let policy = load(&engine, &guest(name));
            failures.extend(
                (0..RUNS / 2).map(|_| fails(&engine, &mut *fresh(&policy, FUEL), &rounds(41))),
            );
        }
        let first = failures.first().unwrap();
        assert!(first.is_out_of(FUEL), "{name}: {first:?}");
        assert_eq!(first.lines > 100, writes, "{name}: {first:?}");
        for (run, failure) in failures.iter().enumerate() {
            assert_eq!(failure, first, "{name}, run {run}");
        }
    }
}

/// What the first decisions of an instance come to.
fn first_decisions(policy: &ComponentPolicy, fuel: u64) -> Vec<Vec<f64>> {
    let mut instance = fresh(policy, fuel);
    (0..BETWEEN).map(|_| rounds(100).score(&mut *instance).unwrap()).collect()
}

#[test]
fn work_that_runs_out_half_way_ends_at_the_same_point_and_leaves_nothing_behind() {
    let long = rounds(3_000);
    let engine = engine(16);
    let policy = load(&engine, &varied(WORKS));
    let needs = {
        let mut whole = fresh(&policy, Limits::SMALL_FUEL);
        long.score(&mut *whole).unwrap();
        whole.last_fuel().unwrap()
    };
    let fuel = needs / 2;
    let good = first_decisions(&policy, fuel);
    let begun: Vec<f64> = good.iter().map(|costs| costs[0]).collect();
    assert_eq!(begun, (1..=BETWEEN).map(|n| n as f64).collect::<Vec<_>>());

    // One instance, replaced after each failure.
    let mut instance = fresh(&policy, fuel);
    let mut first: Option<Failure> = None;
    for run in 0..RUNS {
        for (at, expected) in good.iter().enumerate() {
            // The first one waits for the replacement, and finds it as if nothing had been.
            let costs = match at {
                0 => eventually("a replacement", || rounds(100).score(&mut *instance).ok()),
                _ => rounds(100).score(&mut *instance).unwrap(),
            };
            assert_eq!(&costs, expected, "run {run}, decision {at} after the failure");
        }
        let failure = fails(&engine, &mut *instance, &long);
        assert_eq!(&failure, first.get_or_insert_with(|| failure.clone()), "run {run}");
    }
    let first = first.unwrap();
    assert!(first.is_out_of(fuel), "{first:?}");
    let half = 3_000 / 16 / 2;
    assert!((half - 2..=half).contains(&first.lines), "{first:?}");
    assert!(first.error.detail.contains("score"), "it names where: {first:?}");
    assert_eq!(instance.usage().unwrap().lost, RUNS as u64);

    // Fresh ones, whose first decision it is; and outside the pool.
    for pooled in [16, 0] {
        let engine = self::engine(pooled);
        let policy = load(&engine, &varied(WORKS));
        for run in 0..RUNS {
            let failure = fails(&engine, &mut *fresh(&policy, fuel), &long);
            assert_eq!(failure, first, "run {run}");
        }
        assert_eq!(first_decisions(&policy, fuel), good);
    }

    // The same where the fuel ends because the decision's other stages have burnt the rest.
    let mut allowed = fresh(&policy, Limits::SMALL_FUEL);
    allowed.allow(Some(fuel));
    assert_eq!(fails(&engine, &mut *allowed, &long), first);
}

#[test]
fn where_it_ends_is_a_matter_of_fuel_alone() {
    let engine = engine(16);
    let policy = load(&engine, &varied(WORKS));
    // More fuel never ends earlier.
    let lines: Vec<u64> = (1..=20)
        .map(|step| fails(&engine, &mut *fresh(&policy, step * 10_000), &rounds(1_000_000)).lines)
        .collect();
    assert!(lines.is_sorted() && lines.first() < lines.last(), "{lines:?}");
}

/// Whatever the processor makes of it: one that computes in the guest's place, or natively, has these.
#[test]
fn what_is_not_a_number_has_the_same_bits_everywhere() {
    let guest = component(
        ";;; score
(func $score (result i32)
  (local $nothing f64)
  (local.set $nothing (f64.sub (f64.load (global.get $numbers)) (f64.load (global.get $numbers))))
  (f64.store (global.get $numbers) (f64.convert_i64_u (i64.shr_u
    (i64.reinterpret_f64 (f64.div (local.get $nothing) (local.get $nothing))) (i64.const 48))))
  (call $ok-list (global.get $numbers) (global.get $length)))
;;; end",
    );
    let mut instance = guest.instantiate(&environment()).unwrap();
    let bits = Case::new(&[3.0]).score(&mut *instance).unwrap();
    assert_eq!(bits, [f64::from(0x7ff8)]);
}
