;; A whole policy, written by hand: one filter, one scorer, one picker over `active-requests`.
;;
;; It keeps every row, costs each what it has to do, and picks the cheapest. The parts between
;; `;;; name` and `;;; end` can be replaced by parts of the same name from another file: that is how
;; the bad guests beside this file are written. README.md has the layout of what the calls hand over.
(component
  ;; The contract's types.
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
    (type $input-trigger (enum "unknown" "user-message" "tool-result" "other"))
    (export "input-trigger" (type $input-trigger' (eq $input-trigger)))
    (type $session (record
      (field "id" string) (field "parent-id" (option string)) (field "final" (option bool))
      (field "evict" (option bool))))
    (export "session" (type $session' (eq $session)))
    (type $request-traits (flags "tracks-prefill-tokens" "has-tier-matches"))
    (export "request-traits" (type $request-traits' (eq $request-traits)))
    (type $detail (variant
      (case "session" $session') (case "affinity-target" $worker-target')
      (case "pinned-worker" $worker') (case "priority-jump" f64) (case "strict-priority" u32)
      (case "router-temperature" f64) (case "identity" (list u64))
      (case "prefix-hashes" (list u64))))
    (export "detail" (type $detail' (eq $detail)))
    (type $request (record
      (field "decision-id" u64) (field "prompt-tokens" u64) (field "expected-output-tokens" u32)
      (field "trigger" $input-trigger') (field "traits" $request-traits')
      (field "now-ms" u64) (field "seed" u64) (field "details" (option (list $detail')))))
    (export "request" (type (eq $request)))
    (type $candidates (record
      (field "rows" u32) (field "uniform" u64) (field "numbers" (list f64))))
    (export "candidates" (type (eq $candidates)))))
  ;; An import that names them. It holds no functions.
  (import "pointsman:policy/types@0.1.0" (instance $types (type $types)))
  (alias export $types "partition" (type $partition))
  (alias export $types "request" (type $request))
  (alias export $types "candidates" (type $candidates))

  ;;; imports
  ;;; end

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

  ;;; lowered
  ;;; end

  (core module $policy
    (import "libc" "memory" (memory 4))
    (import "libc" "top" (global $top (mut i32)))
    ;;; core-imports
    ;;; end

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
    ;; What a refusal says.
    (data (i32.const 1280) "not \"today\"\n") ;; 12 bytes

    ;;; data
    ;;; end

    ;; Answers are written at 512: ok or not, then the value.
    (func $ok-list (param $at i32) (param $length i32) (result i32)
      (global.set $top (i32.const 65536))
      (i32.store (i32.const 512) (i32.const 0))
      (i32.store (i32.const 516) (local.get $at))
      (i32.store (i32.const 520) (local.get $length))
      (i32.const 512))
    (func $ok-row (param $row i32) (result i32)
      (global.set $top (i32.const 65536))
      (i32.store (i32.const 512) (i32.const 0))
      (i32.store (i32.const 516) (local.get $row))
      (i32.const 512))
    (func $refuse (result i32)
      (global.set $top (i32.const 65536))
      (i32.store (i32.const 512) (i32.const 1))
      (i32.store (i32.const 516) (i32.const 1280))
      (i32.store (i32.const 520) (i32.const 12))
      (i32.const 512))
    (func $loop-for-ever (loop $again (br $again)))

    ;; What a call hands over; and of `pick`, the place of the costs.
    (global $decision (mut i64) (i64.const 0))
    (global $prompt (mut i64) (i64.const 0))
    (global $expected (mut i32) (i32.const 0))
    (global $trigger (mut i32) (i32.const 0))
    (global $traits (mut i32) (i32.const 0))
    (global $now (mut i64) (i64.const 0))
    (global $seed (mut i64) (i64.const 0))
    (global $has-details (mut i32) (i32.const 0))
    (global $details (mut i32) (i32.const 0))
    (global $of-details (mut i32) (i32.const 0))
    (global $rows (mut i32) (i32.const 0))
    (global $uniform (mut i64) (i64.const 0))
    (global $numbers (mut i32) (i32.const 0))
    (global $length (mut i32) (i32.const 0))
    (global $costs (mut i32) (i32.const 0))
    (func $given
        (param $decision i64) (param $prompt i64) (param $expected i32) (param $trigger i32)
        (param $traits i32) (param $now i64) (param $seed i64)
        (param $has-details i32) (param $details i32) (param $of-details i32)
        (param $rows i32) (param $uniform i64) (param $numbers i32) (param $length i32)
      (global.set $decision (local.get $decision))
      (global.set $prompt (local.get $prompt))
      (global.set $expected (local.get $expected))
      (global.set $trigger (local.get $trigger))
      (global.set $traits (local.get $traits))
      (global.set $now (local.get $now))
      (global.set $seed (local.get $seed))
      (global.set $has-details (local.get $has-details))
      (global.set $details (local.get $details))
      (global.set $of-details (local.get $of-details))
      (global.set $rows (local.get $rows))
      (global.set $uniform (local.get $uniform))
      (global.set $numbers (local.get $numbers))
      (global.set $length (local.get $length)))

    ;; partition: model, group, role, block size; parameters; router settings; seed
    ;;; configure
    (func $configure
        (param i32 i32 i32 i32 i32 i32) (param i32 i32) (param i32 i32) (param i64) (result i32)
      (global.set $top (i32.const 65536))
      (i32.const 1152))
    ;;; end

    ;; Every row is kept: one word for each 64 rows, the last one cut.
    ;;; keep
    (func $keep (result i32)
      (local $rows i32) (local $word i32)
      (local.set $rows (global.get $rows))
      (block $done (loop $next
        (br_if $done (i32.lt_u (local.get $rows) (i32.const 64)))
        (i64.store offset=2048 (i32.mul (local.get $word) (i32.const 8)) (i64.const -1))
        (local.set $word (i32.add (local.get $word) (i32.const 1)))
        (local.set $rows (i32.sub (local.get $rows) (i32.const 64)))
        (br $next)))
      (if (local.get $rows) (then
        (i64.store offset=2048 (i32.mul (local.get $word) (i32.const 8))
          (i64.sub (i64.shl (i64.const 1) (i64.extend_i32_u (local.get $rows))) (i64.const 1)))
        (local.set $word (i32.add (local.get $word) (i32.const 1)))))
      (call $ok-list (i32.const 2048) (local.get $word)))
    ;;; end

    ;; A row's cost is its only column, which is where the costs can stay.
    ;;; score
    (func $score (result i32)
      (call $ok-list (global.get $numbers) (global.get $length)))
    ;;; end

    ;; The first of the cheapest rows.
    ;;; pick
    (func $pick (result i32)
      (local $costs i32) (local $row i32) (local $best i32)
      (local.set $costs (global.get $costs))
      (block $done (loop $next
        (br_if $done (i32.ge_u (local.get $row) (global.get $rows)))
        (if (f64.lt
              (f64.load (i32.add (local.get $costs) (i32.shl (local.get $row) (i32.const 3))))
              (f64.load (i32.add (local.get $costs) (i32.shl (local.get $best) (i32.const 3)))))
          (then (local.set $best (local.get $row))))
        (local.set $row (i32.add (local.get $row) (i32.const 1)))
        (br $next)))
      (call $ok-row (local.get $best)))
    ;;; end

    ;;; start
    ;;; end

    (export "configure" (func $configure))
    (func (export "keep")
        (param $filter i32)
        (param $decision i64) (param $prompt i64) (param $expected i32) (param $trigger i32)
        (param $traits i32) (param $now i64) (param $seed i64)
        (param $has-details i32) (param $details i32) (param $of-details i32)
        (param $rows i32) (param $uniform i64) (param $numbers i32) (param $length i32) (result i32)
      (call $given
        (local.get $decision) (local.get $prompt) (local.get $expected) (local.get $trigger)
        (local.get $traits) (local.get $now) (local.get $seed)
        (local.get $has-details) (local.get $details) (local.get $of-details)
        (local.get $rows) (local.get $uniform) (local.get $numbers) (local.get $length))
      (call $keep))
    (func (export "score")
        (param $scorer i32)
        (param $decision i64) (param $prompt i64) (param $expected i32) (param $trigger i32)
        (param $traits i32) (param $now i64) (param $seed i64)
        (param $has-details i32) (param $details i32) (param $of-details i32)
        (param $rows i32) (param $uniform i64) (param $numbers i32) (param $length i32) (result i32)
      (call $given
        (local.get $decision) (local.get $prompt) (local.get $expected) (local.get $trigger)
        (local.get $traits) (local.get $now) (local.get $seed)
        (local.get $has-details) (local.get $details) (local.get $of-details)
        (local.get $rows) (local.get $uniform) (local.get $numbers) (local.get $length))
      (call $score))
    (func (export "pick")
        (param $decision i64) (param $prompt i64) (param $expected i32) (param $trigger i32)
        (param $traits i32) (param $now i64) (param $seed i64)
        (param $has-details i32) (param $details i32) (param $of-details i32)
        (param $rows i32) (param $uniform i64) (param $numbers i32) (param $length i32)
        (param $costs i32) (param $of-costs i32) (result i32)
      (call $given
        (local.get $decision) (local.get $prompt) (local.get $expected) (local.get $trigger)
        (local.get $traits) (local.get $now) (local.get $seed)
        (local.get $has-details) (local.get $details) (local.get $of-details)
        (local.get $rows) (local.get $uniform) (local.get $numbers) (local.get $length))
      (global.set $costs (local.get $costs))
      (call $pick)))
  (core instance $policy (instantiate $policy
    (with "libc" (instance $libc))
    ;;; with
    ;;; end
    ))

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
    (result (result (list u64) (error string)))
    (canon lift (core func $policy "keep") (memory $memory) (realloc $realloc)))
  ;;; lifted-score
  (func $score
    (param "scorer" u32) (param "request" $request) (param "candidates" $candidates)
    (result (result (list f64) (error string)))
    (canon lift (core func $policy "score") (memory $memory) (realloc $realloc)))
  ;;; end
  (func $pick
    (param "request" $request) (param "candidates" $candidates) (param "costs" (list f64))
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
      (result (result (list u64) (error string)))))
    ;;; imported-score
    (import "score" (func $score
      (param "scorer" u32) (param "request" $request') (param "candidates" $candidates')
      (result (result (list f64) (error string)))))
    ;;; end
    (import "pick" (func $pick
      (param "request" $request') (param "candidates" $candidates') (param "costs" (list f64))
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
      (result (result (list u64) (error string)))))
    ;;; exported-score
    (export "score" (func $score) (func
      (param "scorer" u32) (param "request" $request'') (param "candidates" $candidates'')
      (result (result (list f64) (error string)))))
    ;;; end
    (export "pick" (func $pick) (func
      (param "request" $request'') (param "candidates" $candidates'') (param "costs" (list f64))
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
  ;;; exports
  (export "pointsman:policy/worker-selection@0.1.0" (instance $selection))
  ;;; end
)
