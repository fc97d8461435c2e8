;; A scorer that calls itself until the stack is used up.
;; Promise: a trap like any other; the host's own stack is not touched.
;;; score
(func $score (result i32)
  (i32.add (call $score) (i32.const 1)))
;;; end
