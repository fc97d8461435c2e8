;; A filter that rejects every row of up to 64.
;; Promise: no failure of the policy; the request gets the "all eligible workers filtered" error.
;;; keep
(func $keep (result i32)
  (i64.store (i32.const 2048) (i64.const 0))
  (call $ok-list (i32.const 2048) (i32.const 1)))
;;; end
