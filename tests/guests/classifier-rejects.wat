;; Rejects what it is asked about with a prompt of more than 100 tokens.
;; Promise: such a request gets no worker and books nothing, whatever door it came by.
;;; classify
(func $classify (param $request i32) (result i32)
  (if (i64.le_u (i64.load offset=16 (local.get $request)) (i64.const 100))
    (then (return (call $admit))))
  (call $clear)
  (i32.store8 (i32.const 520) (i32.const 2))
  (i32.store (i32.const 528) (i32.const 1280))
  (i32.store (i32.const 532) (i32.const 12))
  (i32.const 512))
;;; end
