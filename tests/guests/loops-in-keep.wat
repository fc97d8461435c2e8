;; An endless loop in a filter.
;; Promise: stopped by fuel at every call, and the decision is made otherwise.
;;; keep
(func $keep (result i32)
  (call $loop-for-ever)
  unreachable)
;;; end
