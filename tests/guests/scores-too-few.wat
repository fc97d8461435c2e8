;; A scorer that answers one cost less than there are rows.
;; Promise: bad output that says how many came and how many were wanted.
;;; score
(func $score (result i32)
  (call $ok-list
    (global.get $numbers)
    (i32.sub (global.get $rows) (i32.const 1))))
;;; end
