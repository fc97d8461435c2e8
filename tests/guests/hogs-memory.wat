;; A scorer that takes memory until there is none, and then can't go on.
;; Promise: the cause is memory, not a trap; no more than the limit is ever taken.
;;; score
(func $score (result i32)
  (loop $more
    (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
  unreachable)
;;; end
