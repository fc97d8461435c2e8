;; An endless loop in a scorer.
;; Promise: stopped by fuel at every call, and the decision is made otherwise.
;;; score
(func $score (param $call i32) (result i32)
  (call $loop-for-ever)
  unreachable)
;;; end
