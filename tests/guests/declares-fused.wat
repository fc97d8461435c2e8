;; A policy that declares `fused` without exporting the interface.
;; Promise: refused in a sentence that names both.
;;; data
(data (i32.const 1088) "fused")
(data (i32.const 1116) "\05\00\00\00")
;;; end
