;; A scorer that says no.
;; Promise: the cause is `refused`; its words are quoted in the log on one line, and it lives on.
;;; score
(func $score (result i32)
  (call $refuse))
;;; end
