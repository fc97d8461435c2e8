;; A policy that tells what has been called on it, call by call: each of its costs is the number whose
;; digits are 1 for `configure`, 2 `restore`, 3 `changed`, 4 `keep`, 5 `score`, 6 `pick`, 7 `observe`
;; and 8 `save`, from its first call to the one that is answered.
;; Promise: each comes in its turn, in the first instance, in one that is made anew and in one that takes
;; over. It traps when the request's prompt has a multiple of ten tokens, and keeps a mebibyte more when
;; it has a multiple of seven.
;;; data
(data (i32.const 1296) "observes")
(data (i32.const 1304) "follows-fleet")
(data (i32.const 1320) "hands-over")
(data (i32.const 1344) "\10\05\00\00\08\00\00\00\18\05\00\00\0d\00\00\00\28\05\00\00\0a\00\00\00")
(data (i32.const 1196) "\40\05\00\00\03\00\00\00") ;; the properties
(global $history (mut i64) (i64.const 0))
(func $note (param $call i64)
  (global.set $history (i64.add
    (i64.mul (global.get $history) (i64.const 10)) (local.get $call))))
;;; end
;;; configure
(func $configure
    (param i32 i32 i32 i32 i32 i32) (param i32 i32) (param i32 i32) (param i64) (result i32)
  (global.set $top (i32.const 65536))
  (call $note (i64.const 1))
  (i32.const 1152))
;;; end
;;; keep
(func $keep (result i32)
  (call $note (i64.const 4))
  (i64.store (i32.const 2048)
    (i64.sub (i64.shl (i64.const 1) (i64.extend_i32_u (global.get $rows))) (i64.const 1)))
  (call $ok-list (i32.const 2048) (i32.const 1)))
;;; end
;;; score
(func $score (result i32)
  (local $costs i32) (local $left i32)
  (call $note (i64.const 5))
  (if (i64.eqz (i64.rem_u (global.get $prompt) (i64.const 10)))
    (then unreachable))
  (if (i64.eqz (i64.rem_u (global.get $prompt) (i64.const 7)))
    (then (drop (memory.grow (i32.const 16)))))
  (local.set $costs (global.get $numbers))
  (local.set $left (global.get $rows))
  (loop $next
    (local.set $left (i32.sub (local.get $left) (i32.const 1)))
    (f64.store (i32.add (local.get $costs) (i32.shl (local.get $left) (i32.const 3)))
      (f64.convert_i64_u (global.get $history)))
    (br_if $next (local.get $left)))
  (call $ok-list (local.get $costs) (global.get $rows)))
;;; end
;;; pick
(func $pick (result i32)
  (call $note (i64.const 6))
  (call $ok-row (i32.const 0)))
;;; end
;;; start
(func (export "changed") (param $generation i64) (param $at i32) (param $length i32)
  (global.set $top (i32.const 65536))
  (call $note (i64.const 3)))
(func (export "observe") (param $at i32) (param $length i32)
  (global.set $top (i32.const 65536))
  (call $note (i64.const 7)))
(func (export "save") (result i32)
  (call $note (i64.const 8))
  (call $ok-list (i32.const 2048) (i32.const 0)))
(func (export "restore") (param $state i32) (param $length i32) (result i32)
  (call $note (i64.const 2))
  (call $ok-row (i32.const 0)))
;;; end
;;; exports
(alias export $types "worker" (type $worker))
(type $member (record
  (field "worker" $worker) (field "taints" (list string))
  (field "labels" (list (tuple string string))) (field "total-kv-blocks" (option u64))
  (field "max-batched-tokens" (option u64)) (field "device-kind" (option string))))
(func $changed (param "generation" u64) (param "members" (list $member))
  (canon lift (core func $policy "changed") (memory $memory) (realloc $realloc)))
(component $fleet-interface
  (import "types" (instance $types (type $types)))
  (alias export $types "worker" (type $worker'))
  (type $member (record
    (field "worker" $worker') (field "taints" (list string))
    (field "labels" (list (tuple string string))) (field "total-kv-blocks" (option u64))
    (field "max-batched-tokens" (option u64)) (field "device-kind" (option string))))
  (import "member" (type $member' (eq $member)))
  (import "changed" (func $changed (param "generation" u64) (param "members" (list $member'))))
  (export $worker'' "worker" (type $worker'))
  (type $member-out (record
    (field "worker" $worker'') (field "taints" (list string))
    (field "labels" (list (tuple string string))) (field "total-kv-blocks" (option u64))
    (field "max-batched-tokens" (option u64)) (field "device-kind" (option string))))
  (export $member'' "member" (type $member-out))
  (export "changed" (func $changed)
    (func (param "generation" u64) (param "members" (list $member'')))))
(instance $fleet (instantiate $fleet-interface
  (with "types" (instance $types))
  (with "member" (type $member))
  (with "changed" (func $changed))))
(export "pointsman:policy/fleet@0.1.0" (instance $fleet))
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
(func $save (result (result (list u8) (error string)))
  (canon lift (core func $policy "save") (memory $memory)))
(func $restore (param "state" (list u8)) (result (result (error string)))
  (canon lift (core func $policy "restore") (memory $memory) (realloc $realloc)))
(instance $handover (export "save" (func $save)) (export "restore" (func $restore)))
(export "pointsman:policy/handover@0.1.0" (instance $handover))
(export "pointsman:policy/worker-selection@0.1.0" (instance $selection))
;;; end
