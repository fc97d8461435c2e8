;; A policy that imports sockets from WASI, as a language's runtime may without using them, and uses
;; them in its scorer.
;; Promise: it loads; the call traps, and the trap names the function.
;;; imports
(import "wasi:sockets/instance-network@0.2.3" (instance $network
  (export "network" (type (sub resource)))
  (export "probe" (func (result u32)))))
;;; end
;;; lowered
(alias export $network "probe" (func $probe))
(core func $probe-lowered (canon lower (func $probe)))
(core instance $wasi (export "probe" (func $probe-lowered)))
;;; end
;;; core-imports
(import "wasi" "probe" (func $probe (result i32)))
;;; end
;;; with
(with "wasi" (instance $wasi))
;;; end
;;; score
(func $score (result i32)
  (drop (call $probe))
  unreachable)
;;; end
