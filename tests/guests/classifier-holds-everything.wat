;; Holds everything and never lets go.
;; Promise: a held request whose due time comes is admitted, one whose client leaves is gone, and no
;; more are held than it declared.
;;; classify
(func $classify (param $request i32) (result i32)
  (call $hold))
;;; end
