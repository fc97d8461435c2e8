;; A policy that tells the time, draws a random number, and sleeps for an hour, by WASI.
;; Promise: time and chance are the decision's own; the sleep is over at once, in a task of an async
;; runtime too. Costs: row 0 gets milliseconds, row 1 the random number's upper 53 bits.
;;; imports
(import "wasi:io/poll@0.2.3" (instance $poll
  (export "pollable" (type $pollable (sub resource)))
  (export "[method]pollable.block" (func (param "self" (borrow $pollable))))
  (export "[method]pollable.ready" (func (param "self" (borrow $pollable)) (result bool)))
  (export "poll" (func (param "in" (list (borrow $pollable))) (result (list u32))))))
(alias export $poll "pollable" (type $pollable))
(import "wasi:clocks/monotonic-clock@0.2.3" (instance $clock
  (alias outer 1 $pollable (type $pollable'))
  (export "pollable" (type $pollable'' (eq $pollable')))
  (export "now" (func (result u64)))
  (export "subscribe-duration" (func (param "when" u64) (result (own $pollable''))))))
(import "wasi:random/random@0.2.3" (instance $random
  (export "get-random-u64" (func (result u64)))))
;;; end
;;; lowered
(alias export $poll "[method]pollable.block" (func $block))
(core func $block-lowered (canon lower (func $block)))
(core func $drop-lowered (canon resource.drop $pollable))
(alias export $clock "now" (func $now))
(core func $now-lowered (canon lower (func $now)))
(alias export $clock "subscribe-duration" (func $subscribe))
(core func $subscribe-lowered (canon lower (func $subscribe)))
(alias export $random "get-random-u64" (func $random-u64))
(core func $random-lowered (canon lower (func $random-u64)))
(core instance $wasi
  (export "block" (func $block-lowered))
  (export "drop" (func $drop-lowered))
  (export "now" (func $now-lowered))
  (export "subscribe" (func $subscribe-lowered))
  (export "random" (func $random-lowered)))
;;; end
;;; core-imports
(import "wasi" "block" (func $block (param i32)))
(import "wasi" "drop" (func $drop (param i32)))
(import "wasi" "now" (func $now (result i64)))
(import "wasi" "subscribe" (func $subscribe (param i64) (result i32)))
(import "wasi" "random" (func $random (result i64)))
;;; end
;;; with
(with "wasi" (instance $wasi))
;;; end
;;; score
(func $score (result i32)
  (local $costs i32) (local $sleep i32)
  (local.set $costs (global.get $numbers))
  (local.set $sleep (call $subscribe (i64.const 3600000000000)))
  (call $block (local.get $sleep))
  (call $drop (local.get $sleep))
  (f64.store (local.get $costs)
    (f64.div (f64.convert_i64_u (call $now)) (f64.const 1000000)))
  (f64.store offset=8 (local.get $costs)
    (f64.convert_i64_u (i64.shr_u (call $random) (i64.const 11))))
  (call $ok-list (local.get $costs) (global.get $length)))
;;; end
