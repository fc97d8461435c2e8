;; A policy that wants a network of its own.
;; Promise: refused at load, in a sentence that names the import.
;;; imports
(import "acme:net/http@1.0.0" (instance $net
  (export "get" (func (param "url" u32) (result u32)))))
;;; end
