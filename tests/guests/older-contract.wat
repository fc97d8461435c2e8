;; A whole policy for the contract 0.0.9 of `tests/contracts`, which was never released: a request has
;; no trigger, verdicts are one bool a row, costs are single floats.
;; Promise: refused at load, in a sentence with both versions; a host with an adapter takes it.
;;
;; It keeps every second row, costs each its `active-requests` plus the time of the request, and picks
;; the cheapest. Places in a call are eight bytes before those in README.md from the trigger on.
(component
  (type $types (instance
    (type $role (enum "aggregated" "prefill" "decode" "encode"))
    (export "role" (type $role' (eq $role)))
    (type $partition (record
      (field "model" string) (field "routing-group" string)
      (field "role" $role') (field "block-size" u32)))
    (export "partition" (type (eq $partition)))
    (type $worker (record (field "id" u64) (field "dp-rank" u32)))
    (export "worker" (type $worker' (eq $worker)))
    (type $worker-target (record (field "id" u64) (field "dp-rank" (option u32))))
    (export "worker-target" (type $worker-target' (eq $worker-target)))
    (type $session (record
      (field "id" string) (field "parent-id" (option string)) (field "final" (option bool))
      (field "evict" (option bool))))
    (export "session" (type $session' (eq $session)))
    (type $request (record
      (field "decision-id" u64) (field "prompt-tokens" u64) (field "request-blocks" u64)
      (field "tracks-prefill-tokens" bool) (field "has-tier-matches" bool)
      (field "session" (option $session'))
      (field "affinity-target" (option $worker-target'))
      (field "pinned-worker" (option $worker')) (field "expected-output-tokens" (option u32))
      (field "priority-jump" f64) (field "strict-priority" u32)
      (field "router-temperature" (option f64)) (field "now-ms" u64) (field "seed" u64)))
    (export "request" (type (eq $request)))
    (type $candidates (record
      (field "rows" u32) (field "numbers" (list f64)) (field "words" (list u64))))
    (export "candidates" (type (eq $candidates)))))
  (import "pointsman:policy/types@0.0.9" (instance $types (type $types)))
  (alias export $types "partition" (type $partition))
  (alias export $types "request" (type $request))
  (alias export $types "candidates" (type $candidates))

  ;; The memory, and an allocator that only ever goes up. Each call of the policy sets it back.
  (core module $libc
    (memory (export "memory") 4)
    (global $top (export "top") (mut i32) (i32.const 65536))
    (func (export "realloc")
        (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      ;; at = top, rounded up to the alignment; top = at + size
      (local.set $at (i32.and
        (i32.add (global.get $top) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
      (global.set $top (i32.add (local.get $at) (local.get $size)))
      ;; More pages as needed; without them there is nothing to be done.
      (block $enough (loop $more
        (br_if $enough (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
        (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
        unreachable))
      (local.get $at)))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))

  (core module $policy
    (import "libc" "memory" (memory 4))
    (import "libc" "top" (global $top (mut i32)))

    ;; The names that the declaration points at.
    (data (i32.const 1024) "everyone")        ;; 8 bytes
    (data (i32.const 1040) "load")            ;; 4 bytes
    (data (i32.const 1056) "lowest")          ;; 6 bytes
    (data (i32.const 1072) "active-requests") ;; 15 bytes
    (data (i32.const 1088) "stateless")       ;; 9 bytes
    ;; A list of one input: (1072, 15).
    (data (i32.const 1104) "\30\04\00\00\0f\00\00\00")
    ;; A list of one property: (1088, 9).
    (data (i32.const 1112) "\40\04\00\00\09\00\00\00")
    ;; Stages: name, then inputs, each as (at, length).
    (data (i32.const 1120) "\00\04\00\00\08\00\00\00\50\04\00\00\01\00\00\00") ;; the filter
    (data (i32.const 1136) "\10\04\00\00\04\00\00\00\50\04\00\00\01\00\00\00") ;; the scorer
    ;; What `configure` answers: ok; filters; scorers; some picker; no hashes; properties.
    (data (i32.const 1152)
      "\00\00\00\00"
      "\60\04\00\00\01\00\00\00"
      "\70\04\00\00\01\00\00\00"
      "\01\00\00\00\20\04\00\00\06\00\00\00\50\04\00\00\01\00\00\00"
      "\00\00\00\00"
      "\58\04\00\00\01\00\00\00")

    ;; Answers are written at 512: ok or not, then the value.
    (func $ok-list (param $at i32) (param $length i32) (result i32)
      (global.set $top (i32.const 65536))
      (i32.store (i32.const 512) (i32.const 0))
      (i32.store (i32.const 516) (local.get $at))
      (i32.store (i32.const 520) (local.get $length))
      (i32.const 512))

    (func $configure
        (param i32 i32 i32 i32 i32 i32) (param i32 i32) (param i32 i32) (param i64) (result i32)
      (global.set $top (i32.const 65536))
      (i32.const 1152))

    ;; One byte a row: 1, 0, 1, 0, ...
    (func $keep (param $call i32) (result i32)
      (local $rows i32) (local $row i32)
      (local.set $rows (i32.load offset=168 (local.get $call)))
      (block $done (loop $next
        (br_if $done (i32.ge_u (local.get $row) (local.get $rows)))
        (i32.store8 offset=2048 (local.get $row)
          (i32.eqz (i32.and (local.get $row) (i32.const 1))))
        (local.set $row (i32.add (local.get $row) (i32.const 1)))
        (br $next)))
      (call $ok-list (i32.const 2048) (local.get $rows)))

    ;; Four bytes a row: its only column, plus `now-ms`, which stands behind where the trigger was.
    (func $score (param $call i32) (result i32)
      (local $rows i32) (local $row i32)
      (local.set $rows (i32.load offset=168 (local.get $call)))
      (block $done (loop $next
        (br_if $done (i32.ge_u (local.get $row) (local.get $rows)))
        (f32.store offset=2048 (i32.shl (local.get $row) (i32.const 2))
          (f32.add
            (f32.convert_i64_u (i64.load offset=152 (local.get $call)))
            (f32.demote_f64 (f64.load (i32.add
              (i32.load offset=172 (local.get $call))
              (i32.shl (local.get $row) (i32.const 3)))))))
        (local.set $row (i32.add (local.get $row) (i32.const 1)))
        (br $next)))
      (call $ok-list (i32.const 2048) (local.get $rows)))

    ;; The first of the cheapest rows.
    (func $pick (param $call i32) (result i32)
      (local $costs i32) (local $rows i32) (local $row i32) (local $best i32)
      (local.set $costs (i32.load offset=180 (local.get $call)))
      (local.set $rows (i32.load offset=184 (local.get $call)))
      (block $done (loop $next
        (br_if $done (i32.ge_u (local.get $row) (local.get $rows)))
        (if (f32.lt
              (f32.load (i32.add (local.get $costs) (i32.shl (local.get $row) (i32.const 2))))
              (f32.load (i32.add (local.get $costs) (i32.shl (local.get $best) (i32.const 2)))))
          (then (local.set $best (local.get $row))))
        (local.set $row (i32.add (local.get $row) (i32.const 1)))
        (br $next)))
      (global.set $top (i32.const 65536))
      (i32.store (i32.const 512) (i32.const 0))
      (i32.store (i32.const 516) (local.get $best))
      (i32.const 512))

    (export "configure" (func $configure))
    (export "keep" (func $keep))
    (export "score" (func $score))
    (export "pick" (func $pick)))
  (core instance $policy (instantiate $policy (with "libc" (instance $libc))))

  (type $environment (record
    (field "partition" $partition) (field "parameters" string) (field "router-config" string)
    (field "seed" u64)))
  (type $stage (record (field "name" string) (field "inputs" (list string))))
  (type $declaration (record
    (field "filters" (list $stage)) (field "scorers" (list $stage)) (field "picker" (option $stage))
    (field "prefix-hash-blocks" u32) (field "properties" (list string))))

  (func $configure
    (param "environment" $environment) (result (result $declaration (error string)))
    (canon lift (core func $policy "configure") (memory $memory) (realloc $realloc)))
  (func $keep
    (param "filter" u32) (param "request" $request) (param "candidates" $candidates)
    (result (result (list bool) (error string)))
    (canon lift (core func $policy "keep") (memory $memory) (realloc $realloc)))
  (func $score
    (param "scorer" u32) (param "request" $request) (param "candidates" $candidates)
    (result (result (list f32) (error string)))
    (canon lift (core func $policy "score") (memory $memory) (realloc $realloc)))
  (func $pick
    (param "request" $request) (param "candidates" $candidates) (param "costs" (list f32))
    (result (result u32 (error string)))
    (canon lift (core func $policy "pick") (memory $memory) (realloc $realloc)))

  ;; An exported function may only use types that have a name out there, so that the interface is
  ;; put together by a component of its own.
  (component $interface
    (import "types" (instance $types (type $types)))
    (alias export $types "partition" (type $partition'))
    (alias export $types "request" (type $request'))
    (alias export $types "candidates" (type $candidates'))
    (type $environment (record
      (field "partition" $partition') (field "parameters" string) (field "router-config" string)
      (field "seed" u64)))
    (import "environment" (type $environment' (eq $environment)))
    (type $stage (record (field "name" string) (field "inputs" (list string))))
    (import "stage" (type $stage' (eq $stage)))
    (type $declaration (record
      (field "filters" (list $stage')) (field "scorers" (list $stage'))
      (field "picker" (option $stage'))
      (field "prefix-hash-blocks" u32) (field "properties" (list string))))
    (import "declaration" (type $declaration' (eq $declaration)))
    (import "configure" (func $configure
      (param "environment" $environment') (result (result $declaration' (error string)))))
    (import "keep" (func $keep
      (param "filter" u32) (param "request" $request') (param "candidates" $candidates')
      (result (result (list bool) (error string)))))
    (import "score" (func $score
      (param "scorer" u32) (param "request" $request') (param "candidates" $candidates')
      (result (result (list f32) (error string)))))
    (import "pick" (func $pick
      (param "request" $request') (param "candidates" $candidates') (param "costs" (list f32))
      (result (result u32 (error string)))))
    ;; What is exported speaks of exported types only.
    (export $partition'' "partition" (type $partition'))
    (export $request'' "request" (type $request'))
    (export $candidates'' "candidates" (type $candidates'))
    (type $environment-out (record
      (field "partition" $partition'') (field "parameters" string) (field "router-config" string)
      (field "seed" u64)))
    (export $environment'' "environment" (type $environment-out))
    (export $stage'' "stage" (type $stage))
    (type $declaration-out (record
      (field "filters" (list $stage'')) (field "scorers" (list $stage''))
      (field "picker" (option $stage''))
      (field "prefix-hash-blocks" u32) (field "properties" (list string))))
    (export $declaration'' "declaration" (type $declaration-out))
    (export "configure" (func $configure) (func
      (param "environment" $environment'')
      (result (result $declaration'' (error string)))))
    (export "keep" (func $keep) (func
      (param "filter" u32) (param "request" $request'') (param "candidates" $candidates'')
      (result (result (list bool) (error string)))))
    (export "score" (func $score) (func
      (param "scorer" u32) (param "request" $request'') (param "candidates" $candidates'')
      (result (result (list f32) (error string)))))
    (export "pick" (func $pick) (func
      (param "request" $request'') (param "candidates" $candidates'') (param "costs" (list f32))
      (result (result u32 (error string))))))
  (instance $selection (instantiate $interface
    (with "types" (instance $types))
    (with "environment" (type $environment))
    (with "stage" (type $stage))
    (with "declaration" (type $declaration))
    (with "configure" (func $configure))
    (with "keep" (func $keep))
    (with "score" (func $score))
    (with "pick" (func $pick))))
  (export "pointsman:policy/worker-selection@0.0.9" (instance $selection)))
