;; A policy built for a later contract that only grew.
;; Promise: it loads, and decides.
;;; exports
(export "pointsman:policy/worker-selection@0.1.7" (instance $selection))
;;; end
