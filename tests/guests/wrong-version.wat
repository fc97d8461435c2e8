;; A policy built for a later, incompatible contract.
;; Promise: refused at load, in a sentence with both versions.
;;; exports
(export "pointsman:policy/worker-selection@0.2.0" (instance $selection))
;;; end
