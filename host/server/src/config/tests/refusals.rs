//! What an operator sees of mistakes: all of them, each with its place and what to do.

use insta::assert_snapshot;

use super::*;

#[test]
fn unknown_keys_are_refused_at_every_level_with_what_was_meant() {
    assert_snapshot!(mistakes(
        r"
listn: 127.0.0.1:8080
admin: { adress: 127.0.0.1:9090, tls: { certificate: a, key: b } }
policies-dir: policies
router: { overlap_score_credits: 1 }
worker_selection:
  agregated: default
  instances:
    - name: a
      typ: least-busy
      parameter: {}
    - name: b
      type: t
      limits: { fule: 1 }
    - name: c
      filters: [ { type: t, stge: s } ]
      scorers: [ { type: t, wieght: 1 } ]
      picker: { type: t, on_error: skip }
workers:
  - { worker_id: 1, endpoint: http://a:1, model_name: m }
proxy: { retry: 1 }
health: { interval_ms: 5 }
wasm: { cache: /tmp }
zzz: 1
"
    ));
}

#[test]
fn keys_of_linked_policies_that_are_not_supported_yet_say_so() {
    assert_snapshot!(mistakes(
        r"
router:
  router_event_threads: 4
  serve_indexer: false
  router_replica_sync: false
  router_overlap_refresh_after_secs: 10
  overlap_score_weight: 1
worker_selection:
  default: least-busy
  instances: [ { name: a, filters: [ { instance: b, type: t } ] } ]
workers:
  - { worker_id: 1, endpoint: http://a:1, lease: 30s }
"
    ));
}

#[test]
fn values_of_the_wrong_kind_are_shown_beside_what_was_expected() {
    assert_snapshot!(mistakes(
        r#"
listen: 8080
admin: localhost:9090
policies_dir:
router:
  overlap_score_credit: -1
  host_cache_hit_weight: 1.5
  prefill_load_scale: .nan
  router_temperature: hot
  router_track_prefill_tokens: yes
worker_selection: []
workers: {}
proxy:
  connect_timeout: 2
  idle_timeout: 1.5s
  total_timeout: 0s
  first_byte_timeout: 5 minutes
  retries: 11
  overload_backoff: 5s
  max_body: 32MB
health:
  path: health
  interval: [5s]
  unhealthy_after: 0
  healthy_after: -1
  timeout: ~
wasm:
  max_component_size: 1
  pool_instances: 1__0
  rescan_interval: 99999999999999999999h
  cache_dir: ""
drain_timeout: "a very long text that goes on and on and on and on, and\nthen has a second line"
"#
    ));
}

#[test]
fn listeners_are_checked_alone_and_together() {
    let all = [
        "admin: 0.0.0.0:9090",
        "admin: { address: \"[::]:9090\", tokens: [] }",
        "admin: { address: 0.0.0.0:9090, tokens: [\"\", \"two words\"] }",
        "admin: { address: 0.0.0.0:9090, tokens: secret }",
        "admin: { address: 0.0.0.0:9090, token_env: UNSET }",
        "admin: { address: 0.0.0.0:9090, token_env: BLANK }",
        "listen: [::1]:8080",
        "listen: [\"::1\", 8080]",
        "listen: :8080",
        "listen: 0.0.0.0:9090",
        "listen: { tls: {} }",
        "listen: {}\nadmin: 127.0.0.1:8080",
        "proxy: { worker_token: t, worker_token_env: TOKEN }",
        "proxy: { worker_token: [t] }",
    ];
    let all = all.map(|text| format!("--- {text}\n{}", mistakes(text)));
    let all = all.join("\n");
    assert!(!all.contains(": \"secret\"") && !all.contains("found \"two words\""), "{all}");
    assert_snapshot!(all);
}

#[test]
fn instances_and_roles_are_checked() {
    assert_snapshot!(mistakes(
        r"
worker_selection:
  aggregated: lest-busy
  prefill: nobody
  decode: twice
  encode: ''
  instances:
    - name: default
      type: t
    - name: least-busy
      type: t
    - name: twice
      type: t
    - name: twice
      type: u
    - type: t
    - name: has a blank
      type: t
    - name: both
      type: t
      scorers: [ { type: s } ]
    - name: neither
    - name: empty
      filters: []
    - name: misplaced
      parameters: { a: 1 }
      limits: { fuel: 1 }
      scorers: [ { type: s } ]
    - name: weights
      filters: [ { type: f, weight: 1 } ]
      scorers: [ { type: s, weight: .inf }, { weight: 1, parameters: { a: .NaN } } ]
      picker: { type: p, weight: 2 }
    - name: shapes
      filters: { type: f }
      picker: [ { type: p } ]
    - name: words
      type: t
      on_failure: ignore
      state: forget
      parameters: [1]
    - just a text
"
    ));
}

#[test]
fn parameters_that_json_does_not_have_are_refused_where_they_stand() {
    assert_snapshot!(mistakes(
        r"
worker_selection:
  instances:
    - name: a
      type: t
      parameters:
        deep: [1, { x: .nan }]
        infinite: -.inf
        huge: 1e999
        long: 18446744073709551616
        low: -9223372036854775809
        twice: 1
        twice: 2
    - name: b
      type: t
      parameters:
"
    ));
}

#[test]
fn limits_that_race_or_contradict_each_other_are_refused() {
    let all = [
        "{ fuel: 5_000_000, memory: 32MiB, deadline: 2ms }",
        "{ fuel: 10_000_000, deadline: 100ms }",
        "{ class: large, deadline: 1s }",
        "{ fuel: 0 }",
        "{ fuel: 30_000_000_001 }",
        "{ fuel: 5M }",
        "{ memory: 1KiB }",
        "{ memory: 5GiB }",
        "{ class: medium }",
        "{ class: small, memory: 64MiB }",
        "{ deadline: 1h }",
        "{ log_lines: 10_001 }",
        "{ log_line_bytes: 1MiB }",
        "{ table_elements: -1 }",
        "{ reply_bytes: 1GiB }",
        "5",
    ];
    let all = all.map(|limits| {
        let text = format!(
            "worker_selection:\n  instances:\n    - name: a\n      type: t\n      limits: {limits}\n"
        );
        format!("--- {limits}\n{}", mistakes(&text))
    });
    assert_snapshot!(all.join("\n"));
}

#[test]
fn workers_are_checked_alone_and_together() {
    assert_snapshot!(mistakes(
        r#"
workers:
  - { worker_id: 1, endpoint: http://a:1, model: m }
  - { worker_id: 1, endpoint: http://b:1, model: m }
  - { worker_id: 2, endpoint: http://c:1, model: m, block_size: 32 }
  - { worker_id: 3, endpoint: http://d:1, model: m, role: decode, block_size: 32 }
  - { worker_id: 4, endpoint: http://e:1, model: m, block_size: 64 }
  - { worker_id: -5, endpoint: "ftp://a:1" }
  - { worker_id: 6, endpoint: https://a:1 }
  - { worker_id: 7, endpoint: http://a }
  - { worker_id: 8, endpoint: http://a:0 }
  - { worker_id: 9, endpoint: http://a:1/v1 }
  - { worker_id: 10, endpoint: http://me:secret@a:1 }
  - { worker_id: 11, endpoint: a:1 }
  - { worker_id: 12, endpoint: http://a:99999 }
  - { worker_id: 13, endpoint: "http://a b:1" }
  - { endpoint: http://a:1, role: both }
  - { worker_id: 14 }
  - { worker_id: 15, endpoint: http://a:1, data_parallel_size: 0, block_size: 0 }
  - { worker_id: 16, endpoint: http://a:1, data_parallel_size: 4097 }
  - { worker_id: 17, endpoint: http://a:1, data_parallel_start_rank: 4294967294, data_parallel_size: 2 }
  - { worker_id: 18, endpoint: http://a:1, data_parallel_start_rank: 4294967295 }
  - { worker_id: 19, endpoint: http://a:1, taints: [a, a, ""], labels: { "": x, k: [1] } }
  - { worker_id: 20, endpoint: http://a:1, taints: a, labels: [a], model: "", device_kind: "a\nb" }
  - 21
"#
    ));
}

#[test]
fn a_type_where_an_instance_is_wanted_is_answered_with_the_instance_to_write() {
    let all = [
        "aggregated: least-loaded",
        "aggregated: leest-loaded",
        "aggregated: my-policy",
        "aggregated: { type: least-loaded }",
        "aggregated: [least-loaded]",
        "default: least-loaded",
        "default: { type: least-loaded }",
        "instances: least-loaded",
        "instances: { least-loaded: {} }",
        "instances: [least-loaded]",
    ];
    let all = all.map(|text| (text, format!("worker_selection:\n  {text}")));
    let whole = ["least-loaded", "default", "[least-loaded]", "two words"];
    let whole = whole.map(|text| (text, format!("worker_selection: {text}")));
    let all = all.into_iter().chain(whole);
    let all: Vec<_> =
        all.map(|(shown, text)| format!("--- {shown}\n{}", mistakes(&text))).collect();
    assert_snapshot!(all.join("\n"));
}

/// What is suggested is taken.
#[test]
fn the_instances_that_are_suggested_are_good() {
    for text in [
        "worker_selection: { aggregated: least-loaded, instances: [{ name: least-loaded, type: least-loaded }] }",
        "worker_selection:\n  aggregated: my-policy\n  instances:\n    - { name: my-policy, type: my-policy }",
    ] {
        good(text);
    }
}

#[test]
fn the_first_fifty_mistakes_are_told_and_the_others_counted() {
    let mut text = "listn: 1\n".to_owned();
    for i in 0..1_000 {
        text += &format!("key{i}: 1\n");
    }
    text += "workers:\n";
    for _ in 0..200 {
        text += "  - {}\n";
    }
    let ConfigErrors::Invalid { mistakes, more } = read(&text).unwrap_err() else {
        panic!("the text was read")
    };
    assert_eq!((mistakes.len(), more), (50, 1_001 + 400 - 50));
    let lines: Vec<_> = mistakes.iter().map(|mistake| mistake.at.place.line).collect();
    assert_eq!(lines, (1..=50).collect::<Vec<_>>());
    let told = ConfigErrors::Invalid { mistakes, more }.to_string();
    assert!(
        told.ends_with("\nand 1351 more, which are told once some of these are mended"),
        "{told}"
    );
}

/// Whatever is found first: what stands first is told.
#[test]
fn mistakes_are_told_in_the_order_of_their_places() {
    let mut text = "proxy: { retries: many }\nhealth: { interval: soon }\n".to_owned();
    text += &"a: &a 1\n".repeat(100);
    let errors = read(&text).unwrap_err();
    let told: Vec<_> = errors.mistakes().iter().map(|mistake| mistake.at.path.as_str()).collect();
    assert_eq!(told[..2], ["proxy.retries", "health.interval"]);
    assert_eq!(told.len(), 50);
}

#[test]
fn settings_of_caches_are_checked_alone_and_together() {
    let all = [
        "{ use_kv_events: yes }",
        "{ router_ttl_secs: 0 }",
        "{ router_ttl_secs: 2m }",
        "{ router_predicted_ttl_secs: -1 }",
        "{ router_approximate_cache_policy: lfu }",
        "{ router_approximate_cache_policy: lru }",
        "{ use_kv_events: false, router_predicted_ttl_secs: 5 }",
        "{ shared_cache_type: redis }",
        "{ shared_cache_type: hicache, shared_cache_multiplier: 2 }",
        "{ shared_cache_type: hicache, shared_cache_url: http://cache }",
        "{ shared_cache_url: https://cache:9400 }",
        "{ shared_cache_url: http://cache:9400/check_blocks }",
        "{ shared_cache_url: http://user:secret@cache:9400 }",
        "{ shared_cache_timeout: 5 }",
        "{ shared_cache_timeout: 2s }",
    ];
    let all = all.map(|text| format!("--- {text}\n{}", mistakes(&format!("router: {text}"))));
    assert_snapshot!(all.join("\n"));
}

#[test]
fn how_sessions_are_bound_is_checked_alone_and_together() {
    let all = [
        "{ router_session_affinity_ttl_secs: 0 }",
        "{ router_session_affinity_ttl_secs: 31_536_001 }",
        "{ router_session_affinity_ttl_secs: 1m }",
        "{ router_session_affinity_mode: soft }",
        "{ router_session_affinity_ttl_secs: 60, router_session_affinity_mode: sticky }",
    ];
    let all = all.map(|text| format!("--- {text}\n{}", mistakes(&format!("router: {text}"))));
    assert_snapshot!(all.join("\n"));
}

#[test]
fn where_events_come_from_is_checked_alone_and_together() {
    let all = [
        "kv_event_source_mode: zeromq",
        "kv_event_source_mode: zmq",
        "kv_event_source_mode: push, kv_events_endpoint: 'tcp://*:5557'",
        "kv_event_source_mode: none, kv_events_topic: t",
        "replay_endpoint: 'tcp://*:5557'",
        "kv_events_topic: t",
        "kv_events_endpoint: 'http://a:5557'",
        "kv_events_endpoint: 'tcp://a'",
        "kv_events_endpoint: 'tcp://me:secret@a:5557'",
        "kv_events_endpoint: 'tcp://a:1', kv_events_endpoints: { 0: 'tcp://a:1' }",
        "kv_events_endpoints: 'tcp://a:1'",
        "kv_events_endpoints: { first: 'tcp://a:1', 1: 'tcp://a' }",
        "data_parallel_size: 2, kv_events_endpoints: { 2: 'tcp://a:1' }",
        "data_parallel_size: 2, kv_events_endpoint: 'tcp://a:65535'",
        "data_parallel_size: 2, kv_events_endpoint: 'ipc:///run/a'",
        "data_parallel_size: 2, kv_events_endpoint: 'tcp://a:5557', replay_endpoint: 'tcp://a:5558'",
        "data_parallel_size: 2, kv_events_endpoints: { 0: 'tcp://a:1' }, replay_endpoints: { 1: 'tcp://a:2' }",
        "kv_events_endpoint: 'tcp://a:1', replay_endpoint: [1]",
    ];
    let all = all.map(|keys| {
        let text = format!("workers:\n  - {{ worker_id: 1, endpoint: http://a:1, {keys} }}\n");
        format!("--- {keys}\n{}", mistakes(&text))
    });
    let all = all.join("\n");
    assert!(!all.contains("found \"tcp://me"), "{all}");
    assert_snapshot!(all);
}

#[test]
fn safeguards_are_checked_alone_and_together() {
    let all = [
        "breaker: 5",
        "breaker: { failures: -1 }",
        "breaker: { wait: 100 }",
        "breaker: { wait: 2h, longest_wait: 0s }",
        "breaker: { wait: 1m }",
        "breaker: { tries: 3 }",
        "on_all_filtered: ignore",
        "decision_fuel: 0",
        "decision_fuel: 30_000_000_001",
    ];
    let all = all.map(|safeguard| {
        let text = format!(
            "worker_selection: {{ instances: [{{ name: a, type: default, {safeguard} }}] }}"
        );
        format!("--- {safeguard}\n{}", mistakes(&text))
    });
    assert_snapshot!(all.join("\n"));
}

#[test]
fn what_comes_after_an_instance_is_checked() {
    let all = [
        "shadow: b",
        "shadow: [c]",
        "shadow: [a]",
        "shadow: [b, b]",
        "shadow: [{ percent: 10 }]",
        "shadow: [{ instance: b, percent: 200 }]",
        "shadow: [{ instance: b, budget: 5 }]",
        "shadows: [b]",
        "canary: b",
        "canary: { instance: b }",
        "canary: { instance: least-loaded, percent: 5 }",
        "canary: { instance: b, percent: few, by: user, judged_by: 0, max_p99_us: 1ms }",
    ];
    let all = all.map(|after| {
        let text = format!(
            "worker_selection: {{ instances: [{{ name: a, type: default, {after} }}, {{ name: b, type: random }}] }}"
        );
        format!("--- {after}\n{}", mistakes(&text))
    });
    assert_snapshot!(all.join("\n"));
}

#[test]
fn trust_is_checked() {
    let all = [
        "{ keys: [] }",
        "{ keys: RWQ }",
        "{ keys: [RWQ, 5] }",
        "{ keys: [RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3, RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3] }",
        "{ pins: { a: 'sha256:00', 'b c': 'sha256:0000000000000000000000000000000000000000000000000000000000000000' } }",
        "{ pins: [a] }",
        "{ signatures: required }",
    ];
    let all =
        all.map(|text| format!("--- {text}\n{}", mistakes(&format!("wasm: {{ trust: {text} }}"))));
    assert_snapshot!(all.join("\n"));
}

#[test]
fn tokenizers_are_checked() {
    assert_snapshot!(mistakes(
        r"
tokenizer_threads: 0
tokenizer_queue: none
tokenizers:
  - { tokenizer: /models/a }
  - { model: a, source: guess, content_format: text, bytes_per_token: 0, utc_offset: 1h }
  - { model: b, source: tokenizer }
  - { model: c, source: text, tokenizer: /models/c }
  - { model: d, template_defaults: [a], limits: { text_bytes: 1, template_fuel: 1, inline_bytes: 1MiB, engine_timeout: 0s } }
  - { model: d }
  - { model: e, chat_templates: x }
"
    ));
}

#[test]
fn a_time_with_its_unit_is_answered_with_the_seconds_that_are_wanted() {
    let told = mistakes(
        "router: { router_session_affinity_ttl_secs: 1h, router_ttl_secs: 250ms, router_predicted_ttl_secs: soon }",
    );
    let [session, ttl, predicted] = &told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    let write = |number: &str| format!("; write {number}: the key's value is a number of seconds");
    assert!(session.ends_with(&format!("found \"1h\"{}", write("3600"))), "{told}");
    assert!(ttl.ends_with(&write("0.25")), "{told}");
    assert!(!predicted.contains("write"), "{told}");
}
