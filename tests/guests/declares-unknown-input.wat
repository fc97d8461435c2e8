;; A policy whose only input is one that no host knows.
;; Promise: refused in a sentence that names it, and those that there are.
;;; data
(data (i32.const 1072) "active-reqwests")
;;; end
