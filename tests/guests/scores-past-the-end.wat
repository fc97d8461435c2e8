;; A scorer whose list lies outside its memory.
;; Promise: the call fails, and nothing of the host's is read.
;;; score
(func $score (result i32)
  (call $ok-list (i32.const 0x7ffffff8) (i32.const 0x1000000)))
;;; end
