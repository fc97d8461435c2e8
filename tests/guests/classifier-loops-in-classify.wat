;; An endless loop when it is asked about a request.
;; Promise: stopped by fuel; the request is admitted as it is, or refused, as its owner wants.
;;; classify
(func $classify (param $request i32) (result i32)
  (call $loop-for-ever)
  unreachable)
;;; end
