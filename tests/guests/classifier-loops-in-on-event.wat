;; Holds everything, and loops for ever when it is told of anything.
;; Promise: stopped by fuel at every event; what it held is admitted, and no request waits for it.
;;; classify
(func $classify (param $request i32) (result i32)
  (call $hold))
;;; end
;;; on-event
(func $on-event (param $call i32) (result i32)
  (call $loop-for-ever)
  unreachable)
;;; end
