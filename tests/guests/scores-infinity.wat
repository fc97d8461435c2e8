;; A scorer whose last row costs infinite.
;; Promise: bad output that names the row; nothing is booked.
;;; score
(func $score (result i32)
  (local $numbers i32) (local $rows i32)
  (local.set $numbers (global.get $numbers))
  (local.set $rows (global.get $rows))
  (f64.store
    (i32.add (local.get $numbers)
      (i32.shl (i32.sub (local.get $rows) (i32.const 1)) (i32.const 3)))
    (f64.const inf))
  (call $ok-list (local.get $numbers) (local.get $rows)))
;;; end
