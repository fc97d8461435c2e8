;; An endless loop in `configure`.
;; Promise: stopped by fuel at every call, and the decision is made otherwise.
;;; configure
(func $configure
    (param i32 i32 i32 i32 i32 i32) (param i32 i32) (param i32 i32) (param i64) (result i32)
  (call $loop-for-ever)
  unreachable)
;;; end
