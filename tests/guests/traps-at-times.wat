;; A scorer that traps whenever the request's prompt has a multiple of ten tokens.
;; Promise: nine of ten decisions are its own; each trap is followed by a new instance.
;;; score
(func $score (param $call i32) (result i32)
  (if (i64.eqz (i64.rem_u (i64.load offset=16 (local.get $call)) (i64.const 10)))
    (then unreachable))
  (call $ok-list
    (i32.load offset=180 (local.get $call)) (i32.load offset=184 (local.get $call))))
;;; end
