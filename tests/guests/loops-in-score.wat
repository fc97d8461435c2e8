;; An endless loop in a scorer.
;; Promise: stopped by fuel at every call, and the decision is made otherwise.
;;; score
(func $score (result i32)
  (call $loop-for-ever)
  unreachable)
;;; end
