//! WASI: time and chance are the decision's own, nothing waits, and there is nothing to be found.

use pointsman_core::clock::Moment;
use pointsman_core::policy::{Cause, PolicyProvider};

use crate::rig::{Case, component, environment, instance};

/// Time and chance by WASI, for a moment.
fn by_wasi(now_ms: u64, seed: u64) -> Vec<f64> {
    let mut instance = instance("waits").unwrap();
    let mut case = Case::new(&[0.0, 0.0]);
    case.moment = Moment { now_ms, seed };
    case.score(&mut *instance).unwrap()
}

#[test]
fn time_and_chance_by_wasi_are_the_decisions_own_and_a_sleep_is_none() {
    let first = by_wasi(5000, 1);
    assert_eq!(first[0], 5000.0);
    assert_eq!(first, by_wasi(5000, 1), "the same moment, the same answers");
    assert_ne!(first[1], by_wasi(5000, 2)[1], "another seed, other numbers");
}

#[tokio::test]
async fn wasi_does_not_touch_the_runtime_that_calls_it() {
    // A WASI that waits by a runtime of its own panics here.
    assert_eq!(by_wasi(7, 1)[0], 7.0);
}

/// A guest that looks at all that a language's runtime looks at when it starts, in versions of its
/// own. Costs: row 0 gets the wall clock's seconds, row 1 an insecure random number, row 2 the first
/// half of the insecure seed, row 3 how many variables, arguments, folders and terminals there are.
const LOOKS_AROUND: &str = r#";;; imports
(type $datetime (instance
  (type $d (record (field "seconds" u64) (field "nanoseconds" u32)))
  (export "datetime" (type $d' (eq $d)))
  (export "now" (func (result $d')))))
(import "wasi:clocks/wall-clock@0.2.0" (instance $wall (type $datetime)))
(import "wasi:clocks/wall-clock@0.2.3" (instance $wall-again (type $datetime)))
(import "wasi:random/insecure@0.2.1" (instance $insecure
  (export "get-insecure-random-u64" (func (result u64)))))
(import "wasi:random/insecure-seed@0.2.1" (instance $seed
  (export "insecure-seed" (func (result (tuple u64 u64))))))
(import "wasi:cli/environment@0.2.6" (instance $environment
  (export "get-environment" (func (result (list (tuple string string)))))
  (export "get-arguments" (func (result (list string))))))
(import "wasi:filesystem/types@0.2.6" (instance $files
  (export "descriptor" (type (sub resource)))))
(alias export $files "descriptor" (type $descriptor))
(import "wasi:filesystem/preopens@0.2.6" (instance $preopens
  (alias outer 1 $descriptor (type $d))
  (export "descriptor" (type $d' (eq $d)))
  (export "get-directories" (func (result (list (tuple (own $d') string)))))))
(import "wasi:cli/terminal-input@0.2.6" (instance $terminals
  (export "terminal-input" (type (sub resource)))))
(alias export $terminals "terminal-input" (type $terminal))
(import "wasi:cli/terminal-stdin@0.2.6" (instance $terminal-stdin
  (alias outer 1 $terminal (type $t))
  (export "terminal-input" (type $t' (eq $t)))
  (export "get-terminal-stdin" (func (result (option (own $t')))))))
(import "wasi:io/error@0.2.6" (instance $errors
  (export "error" (type $e (sub resource)))
  (export "[method]error.to-debug-string" (func (param "self" (borrow $e)) (result string)))))
;;; end
;;; lowered
(alias export $wall-again "now" (func $now))
(core func $now' (canon lower (func $now) (memory $memory)))
(alias export $insecure "get-insecure-random-u64" (func $u64))
(core func $u64' (canon lower (func $u64)))
(alias export $seed "insecure-seed" (func $insecure-seed))
(core func $seed' (canon lower (func $insecure-seed) (memory $memory)))
(alias export $environment "get-environment" (func $variables))
(core func $variables' (canon lower (func $variables) (memory $memory) (realloc $realloc)))
(alias export $environment "get-arguments" (func $arguments))
(core func $arguments' (canon lower (func $arguments) (memory $memory) (realloc $realloc)))
(alias export $preopens "get-directories" (func $folders))
(core func $folders' (canon lower (func $folders) (memory $memory) (realloc $realloc)))
(alias export $terminal-stdin "get-terminal-stdin" (func $stdin))
(core func $stdin' (canon lower (func $stdin) (memory $memory)))
(core instance $wasi
  (export "now" (func $now')) (export "u64" (func $u64')) (export "seed" (func $seed'))
  (export "variables" (func $variables')) (export "arguments" (func $arguments'))
  (export "folders" (func $folders')) (export "stdin" (func $stdin')))
;;; end
;;; core-imports
(import "wasi" "now" (func $now (param i32)))
(import "wasi" "u64" (func $u64 (result i64)))
(import "wasi" "seed" (func $seed (param i32)))
(import "wasi" "variables" (func $variables (param i32)))
(import "wasi" "arguments" (func $arguments (param i32)))
(import "wasi" "folders" (func $folders (param i32)))
(import "wasi" "stdin" (func $stdin (param i32)))
;;; end
;;; with
(with "wasi" (instance $wasi))
;;; end
;;; score
(func $score (result i32)
  (local $costs i32)
  (local.set $costs (global.get $numbers))
  (call $now (i32.const 2048))
  (f64.store (local.get $costs) (f64.convert_i64_u (i64.load (i32.const 2048))))
  (f64.store offset=8 (local.get $costs)
    (f64.convert_i64_u (i64.shr_u (call $u64) (i64.const 11))))
  (call $seed (i32.const 2064))
  (f64.store offset=16 (local.get $costs)
    (f64.convert_i64_u (i64.shr_u (i64.load (i32.const 2064)) (i64.const 11))))
  (call $variables (i32.const 2080))
  (call $arguments (i32.const 2088))
  (call $folders (i32.const 2096))
  (call $stdin (i32.const 2104))
  (f64.store offset=24 (local.get $costs) (f64.convert_i32_u
    (i32.add
      (i32.add (i32.load (i32.const 2084)) (i32.load (i32.const 2092)))
      (i32.add (i32.load (i32.const 2100)) (i32.load8_u (i32.const 2104))))))
  (call $ok-list (local.get $costs) (global.get $length)))
;;; end
"#;

#[test]
fn a_guest_that_looks_around_finds_the_decisions_moment_and_nothing_else() {
    let policy = component(LOOKS_AROUND);
    let look = |now_ms, seed| {
        let mut instance = policy.instantiate(&environment()).unwrap();
        let mut case = Case::new(&[0.0; 4]);
        case.moment = Moment { now_ms, seed };
        let first = case.score(&mut *instance).unwrap();
        assert_eq!(case.score(&mut *instance).unwrap(), first, "each call begins anew");
        first
    };
    let first = look(5_999, 1);
    assert_eq!((first[0], first[3]), (5.0, 0.0));
    assert_eq!(look(5_999, 1), first, "the same moment, the same answers");
    let other = look(5_999, 2);
    assert!(other[1] != first[1] && other[2] != first[2], "another seed, other numbers");
    assert_ne!(first[1], first[2]);
}

#[test]
fn a_guest_that_exits_has_trapped() {
    let policy = component(
        r#";;; imports
(import "wasi:cli/exit@0.2.0" (instance $exit
  (export "exit" (func (param "status" (result))))))
;;; end
;;; lowered
(alias export $exit "exit" (func $leave))
(core func $leave' (canon lower (func $leave)))
(core instance $wasi (export "exit" (func $leave')))
;;; end
;;; core-imports
(import "wasi" "exit" (func $exit (param i32)))
;;; end
;;; with
(with "wasi" (instance $wasi))
;;; end
;;; score
(func $score (result i32)
  (call $exit (i32.const 1))
  unreachable)
;;; end
"#,
    );
    let mut instance = policy.instantiate(&environment()).unwrap();
    let error = Case::new(&[1.0]).score(&mut *instance).unwrap_err();
    assert_eq!(error.cause, Cause::Trap);
    assert!(error.detail.contains("exit status 1"), "{error}");
}
