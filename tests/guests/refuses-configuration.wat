;; A policy that refuses whatever it is configured with.
;; Promise: the load is refused in its own words, and what served before goes on serving.
;;; configure
(func $configure
    (param i32 i32 i32 i32 i32 i32) (param i32 i32) (param i32 i32) (param i64) (result i32)
  (call $refuse))
;;; end
