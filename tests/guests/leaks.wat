;; A picker that keeps a kibibyte more with every call, and picks rows in turn. It hands its turn over.
;; Promise: it is replaced before it runs out of memory, no call fails, and its turn goes on.
;;; data
(data (i32.const 1088) "hands-over")
(data (i32.const 1116) "\0a\00\00\00")
;;; end
;;; pick
(global $count (mut i32) (i32.const 0))
(global $leaked (mut i32) (i32.const 0))
(func $pick (result i32)
  (global.set $leaked (i32.add (global.get $leaked) (i32.const 1024)))
  (if (i32.ge_u (global.get $leaked) (i32.const 65536))
    (then
      (global.set $leaked (i32.const 0))
      (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then unreachable))))
  (global.set $count (i32.add (global.get $count) (i32.const 1)))
  (call $ok-row (i32.rem_u
    (i32.sub (global.get $count) (i32.const 1)) (global.get $rows))))
;;; end
;;; start
(func (export "save") (result i32)
  (i32.store (i32.const 2048) (global.get $count))
  (call $ok-list (i32.const 2048) (i32.const 4)))
(func (export "restore") (param $state i32) (param $length i32) (result i32)
  (if (i32.ne (local.get $length) (i32.const 4)) (then (return (call $refuse))))
  (global.set $count (i32.load (local.get $state)))
  (call $ok-row (i32.const 0)))
;;; end
;;; exports
(func $save (result (result (list u8) (error string)))
  (canon lift (core func $policy "save") (memory $memory)))
(func $restore (param "state" (list u8)) (result (result (error string)))
  (canon lift (core func $policy "restore") (memory $memory) (realloc $realloc)))
(instance $handover (export "save" (func $save)) (export "restore" (func $restore)))
(export "pointsman:policy/handover@0.1.0" (instance $handover))
(export "pointsman:policy/worker-selection@0.1.0" (instance $selection))
;;; end
