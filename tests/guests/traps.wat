;; A scorer that traps.
;; Promise: the cause is a trap; the next decisions get a new instance.
;;; score
(func $score (result i32)
  unreachable)
;;; end
