;; A component that isn't a policy.
;; Promise: refused at load, in a sentence that names what is missing.
;;; exports
;;; end
