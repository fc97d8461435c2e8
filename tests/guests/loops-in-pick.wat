;; An endless loop in a picker.
;; Promise: stopped by fuel at every call, and the decision is made otherwise.
;;; pick
(func $pick (result i32)
  (call $loop-for-ever)
  unreachable)
;;; end
