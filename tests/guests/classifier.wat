;; A whole request classifier, written by hand: it admits everything, and takes note of nothing.
;;
;; As with `template.wat`, the parts between `;;; name` and `;;; end` can be replaced by parts of the same
;; name from another file, whose name begins with `classifier-`. README.md has the layout of what the
;; calls hand over.
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
    (export "worker" (type (eq $worker)))
    (type $worker-target (record (field "id" u64) (field "dp-rank" (option u32))))
    (export "worker-target" (type (eq $worker-target)))
    (type $input-trigger (enum "unknown" "user-message" "tool-result" "other"))
    (export "input-trigger" (type (eq $input-trigger)))
    (type $session (record
      (field "id" string) (field "parent-id" (option string)) (field "final" (option bool))
      (field "evict" (option bool))))
    (export "session" (type (eq $session)))))
  ;; An import that names them. It holds no functions.
  (import "pointsman:policy/types@0.1.0" (instance $types (type $types)))
  (alias export $types "partition" (type $partition))
  (alias export $types "worker" (type $worker))
  (alias export $types "worker-target" (type $worker-target))
  (alias export $types "input-trigger" (type $input-trigger))
  (alias export $types "session" (type $session))

  ;; The memory, and an allocator that only ever goes up. Each call sets it back.
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
      (block $enough (loop $more
        (br_if $enough (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
        (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
        unreachable))
      (local.get $at)))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))

  (core module $classifier
    (import "libc" "memory" (memory 4))
    (import "libc" "top" (global $top (mut i32)))

    ;; What a refusal says.
    (data (i32.const 1280) "not \"today\"\n") ;; 12 bytes
    ;; The id of nobody.
    (data (i32.const 1296) "nobody") ;; 6 bytes

    ;;; data
    ;;; end

    ;; Answers are written at 512, where all is zero: ok or not, then the value.
    (func $clear
      (global.set $top (i32.const 65536))
      (memory.fill (i32.const 512) (i32.const 0) (i32.const 512)))
    (func $admit (result i32)
      (call $clear)
      (i32.const 512))
    (func $hold (result i32)
      (call $clear)
      (i32.store8 (i32.const 520) (i32.const 1))
      (i32.const 512))
    (func $refuse (result i32)
      (call $clear)
      (i32.store (i32.const 512) (i32.const 1))
      (i32.store (i32.const 520) (i32.const 1280))
      (i32.store (i32.const 524) (i32.const 12))
      (i32.const 512))
    ;; No release, or so many of those that stand at 1536: 88 bytes each, an id and a verdict.
    (func $releases (param $count i32) (result i32)
      (call $clear)
      (i32.store (i32.const 516) (i32.const 1536))
      (i32.store (i32.const 520) (local.get $count))
      (i32.const 512))
    (func $loop-for-ever (loop $again (br $again)))

    ;; partition: model, group, role, block size; parameters; router settings; classes; workers; seed
    ;;; configure
    (func $configure
        (param i32 i32 i32 i32 i32 i32) (param i32 i32) (param i32 i32) (param i32 i32)
        (param i32 i32) (param i64) (result i32)
      (call $clear)
      ;; No ticks; at most 1,000 held.
      (i32.store (i32.const 520) (i32.const 1000))
      (i32.const 512))
    ;;; end

    ;;; classify
    (func $classify (param $request i32) (result i32)
      (call $admit))
    ;;; end

    ;; The event, and the time.
    ;;; on-event
    (func $on-event (param $call i32) (result i32)
      (call $releases (i32.const 0)))
    ;;; end

    (export "configure" (func $configure))
    (export "classify" (func $classify))
    (export "on-event" (func $on-event)))
  (core instance $classifier (instantiate $classifier (with "libc" (instance $libc))))

  (type $capacity (record
    (field "worker" $worker) (field "total-kv-blocks" (option u64))))
  (type $classifier-environment (record
    (field "partition" $partition) (field "parameters" string) (field "router-config" string)
    (field "policy-classes" (list string)) (field "workers" (list $capacity)) (field "seed" u64)))
  (type $classifier-declaration (record (field "tick-ms" u32) (field "most-held" u32)))
  (type $classify-request (record
    (field "request-id" string) (field "policy-class" string) (field "input-tokens" u64)
    (field "progress-tokens" u64) (field "session" (option $session))
    (field "trigger" $input-trigger) (field "pinned-worker" (option $worker-target))
    (field "expected-output-tokens" (option u32)) (field "priority-jump" f64)
    (field "strict-priority" u32) (field "due-at-ms" (option u64))
    (field "scheduling-cost-tokens" u64) (field "arrived-at-ms" u64) (field "now-ms" u64)))
  (type $admission (record
    (field "policy-class" (option string)) (field "due-at-ms" (option u64))
    (field "scheduling-cost-tokens" (option u64)) (field "selection-target" (option $worker-target))))
  (type $verdict (variant
    (case "admit" $admission) (case "hold") (case "reject" string)))
  (type $release (record (field "request-id" string) (field "verdict" $verdict)))
  (type $live-request (record
    (field "request" $classify-request) (field "worker" (option $worker)) (field "responding" bool)))
  (type $lifecycle-event (variant
    (case "inherited" $live-request) (case "admitted" string)
    (case "sent" (tuple string $worker)) (case "responding" string)
    (case "completed" (tuple string (option u64))) (case "aborted" (tuple string (option $worker)))
    (case "fleet-changed" (list $capacity)) (case "tick")))

  (func $configure-classifier
    (param "environment" $classifier-environment) (result (result $classifier-declaration (error string)))
    (canon lift (core func $classifier "configure") (memory $memory) (realloc $realloc)))
  (func $classify
    (param "request" $classify-request) (result (result $verdict (error string)))
    (canon lift (core func $classifier "classify") (memory $memory) (realloc $realloc)))
  (func $on-event
    (param "event" $lifecycle-event) (param "now-ms" u64) (result (result (list $release) (error string)))
    (canon lift (core func $classifier "on-event") (memory $memory) (realloc $realloc)))

  ;; An exported function may only use types that have a name out there, so that the interface is
  ;; put together by a component of its own.
  (component $interface
    (import "types" (instance $types (type $types)))
    (alias export $types "partition" (type $partition'))
    (alias export $types "worker" (type $worker'))
    (alias export $types "worker-target" (type $worker-target'))
    (alias export $types "input-trigger" (type $input-trigger'))
    (alias export $types "session" (type $session'))
    (type $capacity (record
      (field "worker" $worker') (field "total-kv-blocks" (option u64))))
    (import "capacity" (type $capacity' (eq $capacity)))
    (type $classifier-environment (record
      (field "partition" $partition') (field "parameters" string) (field "router-config" string)
      (field "policy-classes" (list string)) (field "workers" (list $capacity')) (field "seed" u64)))
    (import "classifier-environment" (type $classifier-environment' (eq $classifier-environment)))
    (type $classifier-declaration (record (field "tick-ms" u32) (field "most-held" u32)))
    (import "classifier-declaration" (type $classifier-declaration' (eq $classifier-declaration)))
    (type $classify-request (record
      (field "request-id" string) (field "policy-class" string) (field "input-tokens" u64)
      (field "progress-tokens" u64) (field "session" (option $session'))
      (field "trigger" $input-trigger') (field "pinned-worker" (option $worker-target'))
      (field "expected-output-tokens" (option u32)) (field "priority-jump" f64)
      (field "strict-priority" u32) (field "due-at-ms" (option u64))
      (field "scheduling-cost-tokens" u64) (field "arrived-at-ms" u64) (field "now-ms" u64)))
    (import "classify-request" (type $classify-request' (eq $classify-request)))
    (type $admission (record
      (field "policy-class" (option string)) (field "due-at-ms" (option u64))
      (field "scheduling-cost-tokens" (option u64)) (field "selection-target" (option $worker-target'))))
    (import "admission" (type $admission' (eq $admission)))
    (type $verdict (variant
      (case "admit" $admission') (case "hold") (case "reject" string)))
    (import "verdict" (type $verdict' (eq $verdict)))
    (type $release (record (field "request-id" string) (field "verdict" $verdict')))
    (import "release" (type $release' (eq $release)))
    (type $live-request (record
      (field "request" $classify-request') (field "worker" (option $worker')) (field "responding" bool)))
    (import "live-request" (type $live-request' (eq $live-request)))
    (type $lifecycle-event (variant
      (case "inherited" $live-request') (case "admitted" string)
      (case "sent" (tuple string $worker')) (case "responding" string)
      (case "completed" (tuple string (option u64))) (case "aborted" (tuple string (option $worker')))
      (case "fleet-changed" (list $capacity')) (case "tick")))
    (import "lifecycle-event" (type $lifecycle-event' (eq $lifecycle-event)))
    (import "configure-classifier" (func $configure-classifier
      (param "environment" $classifier-environment') (result (result $classifier-declaration' (error string)))))
    (import "classify" (func $classify
      (param "request" $classify-request') (result (result $verdict' (error string)))))
    (import "on-event" (func $on-event
      (param "event" $lifecycle-event') (param "now-ms" u64) (result (result (list $release') (error string)))))
    ;; What is exported speaks of exported types only.
    (export $partition'' "partition" (type $partition'))
    (export $worker'' "worker" (type $worker'))
    (export $worker-target'' "worker-target" (type $worker-target'))
    (export $input-trigger'' "input-trigger" (type $input-trigger'))
    (export $session'' "session" (type $session'))
    (type $capacity-out (record
      (field "worker" $worker'') (field "total-kv-blocks" (option u64))))
    (export $capacity'' "capacity" (type $capacity-out))
    (type $classifier-environment-out (record
      (field "partition" $partition'') (field "parameters" string) (field "router-config" string)
      (field "policy-classes" (list string)) (field "workers" (list $capacity'')) (field "seed" u64)))
    (export $classifier-environment'' "classifier-environment" (type $classifier-environment-out))
    (type $classifier-declaration-out (record (field "tick-ms" u32) (field "most-held" u32)))
    (export $classifier-declaration'' "classifier-declaration" (type $classifier-declaration-out))
    (type $classify-request-out (record
      (field "request-id" string) (field "policy-class" string) (field "input-tokens" u64)
      (field "progress-tokens" u64) (field "session" (option $session''))
      (field "trigger" $input-trigger'') (field "pinned-worker" (option $worker-target''))
      (field "expected-output-tokens" (option u32)) (field "priority-jump" f64)
      (field "strict-priority" u32) (field "due-at-ms" (option u64))
      (field "scheduling-cost-tokens" u64) (field "arrived-at-ms" u64) (field "now-ms" u64)))
    (export $classify-request'' "classify-request" (type $classify-request-out))
    (type $admission-out (record
      (field "policy-class" (option string)) (field "due-at-ms" (option u64))
      (field "scheduling-cost-tokens" (option u64)) (field "selection-target" (option $worker-target''))))
    (export $admission'' "admission" (type $admission-out))
    (type $verdict-out (variant
      (case "admit" $admission'') (case "hold") (case "reject" string)))
    (export $verdict'' "verdict" (type $verdict-out))
    (type $release-out (record (field "request-id" string) (field "verdict" $verdict'')))
    (export $release'' "release" (type $release-out))
    (type $live-request-out (record
      (field "request" $classify-request'') (field "worker" (option $worker'')) (field "responding" bool)))
    (export $live-request'' "live-request" (type $live-request-out))
    (type $lifecycle-event-out (variant
      (case "inherited" $live-request'') (case "admitted" string)
      (case "sent" (tuple string $worker'')) (case "responding" string)
      (case "completed" (tuple string (option u64))) (case "aborted" (tuple string (option $worker'')))
      (case "fleet-changed" (list $capacity'')) (case "tick")))
    (export $lifecycle-event'' "lifecycle-event" (type $lifecycle-event-out))
    (export "configure-classifier" (func $configure-classifier) (func
      (param "environment" $classifier-environment'') (result (result $classifier-declaration'' (error string)))))
    (export "classify" (func $classify) (func
      (param "request" $classify-request'') (result (result $verdict'' (error string)))))
    (export "on-event" (func $on-event) (func
      (param "event" $lifecycle-event'') (param "now-ms" u64) (result (result (list $release'') (error string)))))
  )
  (instance $exported (instantiate $interface
    (with "types" (instance $types))
    (with "capacity" (type $capacity))
    (with "classifier-environment" (type $classifier-environment))
    (with "classifier-declaration" (type $classifier-declaration))
    (with "classify-request" (type $classify-request))
    (with "admission" (type $admission))
    (with "verdict" (type $verdict))
    (with "release" (type $release))
    (with "live-request" (type $live-request))
    (with "lifecycle-event" (type $lifecycle-event))
    (with "configure-classifier" (func $configure-classifier))
    (with "classify" (func $classify))
    (with "on-event" (func $on-event))
    ))
  (export "pointsman:policy/request-classifier@0.1.0" (instance $exported)))
