;; A scorer that traps whenever the request's prompt has a multiple of ten tokens.
;; Promise: nine of ten decisions are its own; each trap is followed by a new instance.
;;; score
(func $score (result i32)
  (if (i64.eqz (i64.rem_u (global.get $prompt) (i64.const 10)))
    (then unreachable))
  (call $ok-list
    (global.get $numbers) (global.get $length)))
;;; end
