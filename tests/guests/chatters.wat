;; A scorer that writes as many log lines as it has fuel for.
;; Promise: a few lines reach the log, the rest is counted; the loop is ended as any other.
;;; imports
(import "pointsman:policy/log@0.1.0" (instance $log
  (type $level (enum "error" "warn" "info" "debug" "trace"))
  (export "level" (type $level' (eq $level)))
  (export "write" (func (param "level" $level') (param "message" string)))))
;;; end
;;; lowered
(alias export $log "write" (func $write))
(core func $write-lowered (canon lower (func $write) (memory $memory)))
(core instance $log (export "write" (func $write-lowered)))
;;; end
;;; core-imports
(import "log" "write" (func $write (param i32 i32 i32)))
;;; end
;;; with
(with "log" (instance $log))
;;; end
;;; score
(func $score (result i32)
  (loop $again
    ;; level `info`, the text of the refusal
    (call $write (i32.const 2) (i32.const 1280) (i32.const 12))
    (br $again))
  unreachable)
;;; end
