;; A picker that picks the row of the number of events that it was told of, round and round; an answer
;; that ended well counts for as many more as it had tokens.
;; Promise: events come between decisions, whole and in order. It traps when the first of those that
;; it is told of is a failure, and then the instance that replaces it has heard of none.
;;; data
(data (i32.const 1088) "observes\00")
(data (i32.const 1116) "\08\00\00\00")
;;; end
;;; pick
(global $heard (mut i64) (i64.const 0))
(func $pick (result i32)
  (call $ok-row (i32.wrap_i64 (i64.rem_u
    (global.get $heard) (i64.extend_i32_u (global.get $rows))))))
;;; end
;;; start
(func (export "observe") (param $at i32) (param $length i32)
  (global.set $top (i32.const 65536))
  ;; An event: decision 8, worker 16, time 8, then what: a byte, and its value 8 bytes on.
  (if (i32.eq (i32.load8_u offset=32 (local.get $at)) (i32.const 3)) (then unreachable))
  (loop $next
    (if (local.get $length) (then
      (global.set $heard (i64.add (global.get $heard) (i64.const 1)))
      (if (i32.eq (i32.load8_u offset=32 (local.get $at)) (i32.const 2)) (then
        (global.set $heard (i64.add (global.get $heard) (i64.load offset=40 (local.get $at))))))
      (local.set $at (i32.add (local.get $at) (i32.const 48)))
      (local.set $length (i32.sub (local.get $length) (i32.const 1)))
      (br $next)))))
;;; end
;;; exports
(alias export $types "worker" (type $worker))
(type $event (variant
  (case "dispatched") (case "first-token") (case "completed" u64) (case "failed" string)
  (case "cancelled")))
(type $outcome (record
  (field "decision-id" u64) (field "worker" $worker) (field "at-ms" u64) (field "event" $event)))
(func $observe (param "outcomes" (list $outcome))
  (canon lift (core func $policy "observe") (memory $memory) (realloc $realloc)))
(component $observer-interface
  (import "types" (instance $types (type $types)))
  (alias export $types "worker" (type $worker'))
  (type $event (variant
    (case "dispatched") (case "first-token") (case "completed" u64) (case "failed" string)
    (case "cancelled")))
  (import "outcome-event" (type $event' (eq $event)))
  (type $outcome (record
    (field "decision-id" u64) (field "worker" $worker') (field "at-ms" u64)
    (field "event" $event')))
  (import "outcome" (type $outcome' (eq $outcome)))
  (import "observe" (func $observe (param "outcomes" (list $outcome'))))
  (export $worker'' "worker" (type $worker'))
  (export $event'' "outcome-event" (type $event))
  (type $outcome-out (record
    (field "decision-id" u64) (field "worker" $worker'') (field "at-ms" u64)
    (field "event" $event'')))
  (export $outcome'' "outcome" (type $outcome-out))
  (export "observe" (func $observe) (func (param "outcomes" (list $outcome'')))))
(instance $observer (instantiate $observer-interface
  (with "types" (instance $types))
  (with "outcome-event" (type $event))
  (with "outcome" (type $outcome))
  (with "observe" (func $observe))))
(export "pointsman:policy/observer@0.1.0" (instance $observer))
(export "pointsman:policy/worker-selection@0.1.0" (instance $selection))
;;; end
