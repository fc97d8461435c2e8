;; A picker alone, over active requests, of which several may serve a partition side by side.
;; Promise: it decides without the partition's lock. It traps when the request's prompt has a multiple
;; of ten tokens, which is then decided under the lock, where its failure has consequences.
;;; data
(data (i32.const 1088) "replicable")
(data (i32.const 1116) "\0a\00\00\00")
;; Neither filters nor scorers.
(data (i32.const 1160) "\00\00\00\00")
(data (i32.const 1168) "\00\00\00\00")
;;; end
;;; pick
(func $pick (result i32)
  (local $loads i32) (local $rows i32) (local $row i32) (local $best i32)
  (if (i64.eqz (i64.rem_u (global.get $prompt) (i64.const 10)))
    (then unreachable))
  (local.set $loads (global.get $numbers))
  (local.set $rows (global.get $rows))
  (block $done (loop $next
    (br_if $done (i32.ge_u (local.get $row) (local.get $rows)))
    (if (f64.lt
          (f64.load (i32.add (local.get $loads) (i32.shl (local.get $row) (i32.const 3))))
          (f64.load (i32.add (local.get $loads) (i32.shl (local.get $best) (i32.const 3)))))
      (then (local.set $best (local.get $row))))
    (local.set $row (i32.add (local.get $row) (i32.const 1)))
    (br $next)))
  (call $ok-row (local.get $best)))
;;; end
