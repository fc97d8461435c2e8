;; Releases nobody's request, whatever it is told.
;; Promise: counted as a bad answer; nobody else's request suffers.
;;; data
;; A release: the id's place and length, then the verdict; all zero, it admits as it is.
(data (i32.const 1536) "\10\05\00\00\06\00\00\00")
;;; end
;;; on-event
(func $on-event (param $call i32) (result i32)
  (call $releases (i32.const 1)))
;;; end
