;; A scorer whose every cost is the number of members that the fleet has, as it was last told.
;; Promise: it is told before it is asked; and so is the instance that replaces it after a trap, which
;; comes when the request's prompt has a multiple of ten tokens.
;;; data
(data (i32.const 1088) "follows-fleet")
(data (i32.const 1116) "\0d\00\00\00")
;;; end
;;; score
(global $members (mut i32) (i32.const -1))
(func $score (result i32)
  (local $costs i32) (local $left i32)
  (if (i64.eqz (i64.rem_u (global.get $prompt) (i64.const 10)))
    (then unreachable))
  (local.set $costs (global.get $numbers))
  (local.set $left (global.get $rows))
  (loop $next
    (local.set $left (i32.sub (local.get $left) (i32.const 1)))
    (f64.store (i32.add (local.get $costs) (i32.shl (local.get $left) (i32.const 3)))
      (f64.convert_i32_s (global.get $members)))
    (br_if $next (local.get $left)))
  (call $ok-list (local.get $costs) (global.get $rows)))
;;; end
;;; start
(func (export "changed") (param $generation i64) (param $at i32) (param $length i32)
  (global.set $top (i32.const 65536))
  (global.set $members (local.get $length)))
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
(export "pointsman:policy/worker-selection@0.1.0" (instance $selection))
;;; end
