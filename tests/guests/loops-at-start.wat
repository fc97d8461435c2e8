;; An endless loop before any call.
;; Promise: refused at load, within the fuel of one call.
;;; start
(start $loop-for-ever)
;;; end
