;; A scorer that does nothing but ask the host for 64 KiB of random bytes, again and again: a loop
;; that hardly runs an instruction of its own.
;; Promise: host calls cost fuel as well, so that the loop is ended as any other.
;;; imports
(import "wasi:random/random@0.2.3" (instance $random
  (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
;;; end
;;; lowered
(alias export $random "get-random-bytes" (func $bytes))
(core func $bytes-lowered (canon lower (func $bytes) (memory $memory) (realloc $realloc)))
(core instance $wasi (export "bytes" (func $bytes-lowered)))
;;; end
;;; core-imports
(import "wasi" "bytes" (func $bytes (param i64 i32)))
;;; end
;;; with
(with "wasi" (instance $wasi))
;;; end
;;; score
(func $score (result i32)
  (loop $again
    (global.set $top (i32.const 65536))
    (call $bytes (i64.const 65536) (i32.const 2048))
    (br $again))
  unreachable)
;;; end
