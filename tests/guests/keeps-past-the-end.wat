;; A filter whose only word has all 64 bits set, however many rows there are.
;; Promise: bad output, unless there are 64 rows.
;;; keep
(func $keep (result i32)
  (i64.store (i32.const 2048) (i64.const -1))
  (call $ok-list (i32.const 2048) (i32.const 1)))
;;; end
