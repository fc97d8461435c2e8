;; A scorer that answers one cost less than there are rows.
;; Promise: bad output that says how many came and how many were wanted.
;;; score
(func $score (param $call i32) (result i32)
  (call $ok-list
    (i32.load offset=180 (local.get $call))
    (i32.sub (i32.load offset=176 (local.get $call)) (i32.const 1))))
;;; end
