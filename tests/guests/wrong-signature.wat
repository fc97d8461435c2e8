;; A policy whose scorer answers with a list of single floats.
;; Promise: refused at load, in a sentence that names the interface.
;;; lifted-score
(func $score
  (param "scorer" u32) (param "request" $request) (param "candidates" $candidates)
  (result (result (list f32) (error string)))
  (canon lift (core func $policy "score") (memory $memory) (realloc $realloc)))
;;; end
;;; imported-score
(import "score" (func $score
  (param "scorer" u32) (param "request" $request') (param "candidates" $candidates')
  (result (result (list f32) (error string)))))
;;; end
;;; exported-score
(export "score" (func $score) (func
  (param "scorer" u32) (param "request" $request'') (param "candidates" $candidates'')
  (result (result (list f32) (error string)))))
;;; end
