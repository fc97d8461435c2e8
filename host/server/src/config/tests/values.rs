//! What good texts mean.

use std::time::Duration;

use pointsman_core::ids::Role;
use pointsman_core::policy::selection::Recipe;
use pointsman_core::policy::{Limits, OnFailure};
use serde_json::json;

use super::*;
use crate::config::{Listener, LoadReportsConfig, SharedCacheConfig};

#[test]
fn an_empty_mapping_is_the_default_configuration() {
    assert_eq!(format!("{:?}", good("{}")), format!("{:?}", Config::default()));
    let Listener { address, .. } = Config::default().listen;
    assert!(address.ip().is_loopback());
}

#[test]
fn paths_begin_at_the_files_folder() {
    let config = good("policies_dir: policies\nwasm: { cache_dir: /var/cache/p }");
    assert_eq!(config.policies_dir.unwrap(), Path::new("/etc/pointsman/policies"));
    assert_eq!(config.wasm.cache_dir.unwrap(), Path::new("/var/cache/p"));
}

#[test]
fn numbers_sizes_and_times_are_read_as_written() {
    let config = good(
        "proxy: { max_body: 4KiB, idle_timeout: 250ms, total_timeout: 2h, retries: 0x3 }\n\
         wasm: { max_component_size: 1_048_576, pool_instances: 1_000, compile_timeout: 5s }\n\
         drain_timeout: 1_500 ms\n\
         router: { overlap_score_credit: 1.5e0, router_temperature: 2 }\n",
    );
    assert_eq!(config.proxy.max_body, 4096);
    assert_eq!(config.proxy.idle_timeout, Duration::from_millis(250));
    assert_eq!(config.proxy.total_timeout, Duration::from_secs(7_200));
    assert_eq!(config.proxy.retries, 3);
    assert_eq!(config.wasm.max_component_size, 1 << 20);
    assert_eq!(config.wasm.pool_instances, 1_000);
    assert_eq!(config.wasm.compile_timeout, Duration::from_secs(5));
    assert_eq!(config.drain_timeout, Duration::from_millis(1_500));
    assert_eq!(config.settings.overlap_score_credit, 1.5);
    assert_eq!(config.settings.router_temperature, 2.0);
}

#[test]
fn a_listener_is_an_address_or_a_mapping() {
    let config = good(
        "listen: \"[::]:8080\"\n\
         admin: { address: 0.0.0.0:9090, tokens: [one, two], token_env: TOKEN,\n\
         \x20        tls: { certificates: c.pem, key: k.pem } }\n",
    );
    assert_eq!(config.listen.address.to_string(), "[::]:8080");
    let tokens: Vec<_> = config.admin.tokens.iter().map(|token| token.0.as_str()).collect();
    assert_eq!(tokens, ["one", "two", "from-the-environment"]);
    assert_eq!(config.admin.tls.as_ref().unwrap().key, Path::new("/etc/pointsman/k.pem"));
    assert!(!format!("{config:?}").contains("from-the-environment"));
}

#[test]
fn a_worker_has_defaults_for_all_but_its_id_and_endpoint() {
    let config = good(
        "workers:\n\
         - { worker_id: 18446744073709551615, endpoint: http://engine:8000/ }\n\
         - worker_id: 2\n  endpoint: http://[::1]:8001\n  model: 405\n  role: decode\n  taints: [a, b]\n  \
           labels: { zone: 1 }\n  data_parallel_start_rank: 4\n  data_parallel_size: 4_096\n",
    );
    let [one, two] = config.workers.as_slice() else { panic!("two workers") };
    assert_eq!(one.worker_id.0, u64::MAX);
    assert_eq!(one.endpoint, "http://engine:8000");
    assert_eq!(one.partition.to_string(), "default/default/aggregated");
    assert_eq!((one.block_size.get(), one.total_kv_blocks), (16, None));
    assert_eq!(two.endpoint, "http://[::1]:8001");
    assert_eq!(two.partition.to_string(), "405/default/decode");
    assert_eq!(two.labels["zone"], "1");
    assert_eq!(two.data_parallel_size.get(), 4096);
}

#[test]
fn limits_are_what_is_given_and_the_rest_is_left_to_the_size() {
    let limits = |text: &str| {
        let config = good(&format!(
            "worker_selection: {{ instances: [ {{ name: a, type: t, limits: {text} }} ] }}"
        ));
        match &config.selection.instances[0].recipe {
            Recipe::Whole(whole) => whole.limits,
            Recipe::Composed { .. } => panic!("whole"),
        }
    };
    assert_eq!(limits("{}"), Limits::default());
    assert_eq!(limits("{ class: small }"), Limits::small());
    assert_eq!(limits("{ class: large }"), Limits::large());
    let memory = Some(64 << 20);
    let recycle_at = Some(48 << 20);
    let large = Limits { memory, recycle_at, ..Limits::large() };
    assert_eq!(limits("{ class: large, memory: 64MiB }"), large);
    assert_eq!(limits("{ recycle_at: 48MiB }"), Limits { recycle_at, ..Limits::default() });
    assert_eq!(limits("{ memory: 64MiB }"), Limits { memory, ..Limits::default() });
    // The deadline follows the fuel: here where there is a class, else where the instance is made.
    let (fuel, least) = (Some(50_000_000), Limits::least_deadline(50_000_000));
    assert_eq!(limits("{ fuel: 50_000_000 }"), Limits { fuel, ..Limits::default() });
    assert_eq!(limits("{ class: small, fuel: 50_000_000 }").deadline, Some(least));
    assert_eq!(limits("{ fuel: 1, deadline: 50ms }").deadline, Some(Limits::MIN_DEADLINE));
    let deadline = Some(Duration::from_millis(100));
    assert_eq!(limits("{ deadline: 100ms }"), Limits { deadline, ..Limits::default() });
    assert_eq!(limits("{ log_lines: 0 }").log_lines, 0);
    assert_eq!(
        limits("{ table_elements: 5, reply_bytes: 1KiB, log_line_bytes: 64 }"),
        Limits {
            table_elements: Some(5),
            reply_bytes: 1_024,
            log_line_bytes: 64,
            ..Limits::default()
        }
    );
}

#[test]
fn a_stage_takes_the_instances_on_failure_unless_it_has_its_own() {
    let config = good(
        "worker_selection:\n  decode: ' a '\n  instances:\n  - name: a\n    on_failure: reject\n    state: discard\n    \
           filters: [ { type: f } ]\n    scorers: [ { type: s, weight: -0.5, on_failure: skip } ]\n    \
           picker: { type: p, stage: one, on_failure: last-good }\n",
    );
    assert_eq!(config.selection.instance_name(Role::Decode), "a");
    assert_eq!(config.selection.instance_name(Role::Prefill), "default");
    let instance = &config.selection.instances[0];
    assert_eq!(instance.on_failure, OnFailure::Reject);
    assert!(instance.discard_state);
    let Recipe::Composed { filters, scorers, picker } = &instance.recipe else {
        panic!("composed")
    };
    assert_eq!(filters[0].on_failure, OnFailure::Reject);
    assert_eq!((scorers[0].on_failure, scorers[0].weight), (OnFailure::Skip, -0.5));
    let picker = picker.as_ref().unwrap();
    assert_eq!(picker.on_failure, OnFailure::LastGood);
    assert_eq!(picker.stage.as_deref(), Some("one"));
}

#[test]
fn parameters_become_json_by_the_core_schema() {
    let config = good(
        r#"
worker_selection:
  instances:
  - name: a
    type: t
    parameters:
      whole: 5_000
      negative: -7
      signed: +7
      hex: 0xff
      octal: 0o17
      largest: 18446744073709551615
      least: -9223372036854775808
      fraction: .5
      exponent: 1e3
      truth: true
      nothing: ~
      empty:
      text: hello world
      quoted: "12"
      yes is a text: yes
      version: 1.2.3
      date: 2024-01-01
      underscore: a_1
      list: [1, two, [three], { four: 4.0 }]
      1: a number as a key
      block: |
        two
        lines
"#,
    );
    let Recipe::Whole(whole) = &config.selection.instances[0].recipe else { panic!("whole") };
    assert_eq!(
        serde_json::Value::Object((*whole.parameters).clone()),
        json!({
            "whole": 5_000, "negative": -7, "signed": 7, "hex": 255, "octal": 15,
            "largest": u64::MAX, "least": i64::MIN, "fraction": 0.5, "exponent": 1000.0,
            "truth": true, "nothing": null, "empty": null, "text": "hello world",
            "quoted": "12", "yes is a text": "yes", "version": "1.2.3", "date": "2024-01-01",
            "underscore": "a_1", "list": [1, "two", ["three"], { "four": 4.0 }],
            "1": "a number as a key", "block": "two\nlines\n",
        })
    );
}

#[test]
fn the_room_for_all_bodies_has_room_for_the_largest() {
    let config = good("proxy: { max_body: 4MiB, body_budget: 4MiB }");
    assert_eq!((config.proxy.max_body, config.proxy.body_budget), (4 << 20, 4 << 20));
    assert_eq!(good("proxy: { max_body: 1GiB }").proxy.body_budget, 1 << 30);
    assert_eq!(
        mistakes("proxy:\n  max_body: 64MiB\n  body_budget: 32MiB\n"),
        "pointsman.yaml:3:16: proxy.body_budget: 32MiB have no room for one body of 64MiB, which \
         `max_body` allows; set at least 64MiB, or lower `max_body`"
    );
    // The default of the one counts against what is given of the other.
    let small = mistakes("proxy: { body_budget: 1MiB }");
    assert!(small.contains("set at least 32MiB"), "{small}");
}

#[test]
fn ejection_can_be_turned_off() {
    assert_eq!(good("{}").health.eject_after, 5);
    assert_eq!(good("health: { eject_after: 0 }").health.eject_after, 0);
}

#[test]
fn safeguards_are_read() {
    use pointsman_core::policy::{BreakerSpec, OnAllFiltered, Safeguards};
    let of = |safeguards: &str| {
        let instance = format!("{{ name: a, type: default{safeguards} }}");
        let text = format!("worker_selection: {{ aggregated: a, instances: [{instance}] }}");
        good(&text).selection.instances[0].safeguards
    };
    assert_eq!(of(""), Safeguards::default());
    let breaker = BreakerSpec {
        failures: 3,
        wait: Duration::from_millis(5),
        longest_wait: Duration::from_secs(60),
    };
    let told =
        of(", breaker: { failures: 3, wait: 5ms, longest_wait: 1m }, on_all_filtered: bypass, \
                   decision_fuel: 1_000");
    let on_all_filtered = OnAllFiltered::Bypass;
    assert_eq!(told, Safeguards { breaker, on_all_filtered, decision_fuel: Some(1_000) });
}

#[test]
fn settings_of_caches_are_read_and_a_shared_cache_has_its_usual_weight() {
    use pointsman_core::policy::settings::{ApproximateCachePolicy, SharedCacheType};
    let told =
        good("router: { router_predicted_ttl_secs: 2.5, shared_cache_type: hicache, shared_cache_url: http://c:1 }").settings;
    assert_eq!(told.router_predicted_ttl_secs, Some(2.5));
    assert_eq!(told.shared_cache_type, SharedCacheType::Hicache);
    assert_eq!(told.shared_cache_multiplier, 0.5);
    let guessed = good(
        "router: { use_kv_events: false, router_ttl_secs: 60, router_approximate_cache_policy: lru,
                   shared_cache_type: hicache, shared_cache_multiplier: 0.2,
                   shared_cache_url: 'http://[::1]:9400/', shared_cache_timeout: 20ms }",
    );
    let shared = SharedCacheConfig {
        url: Some("http://[::1]:9400".to_owned()),
        timeout: Duration::from_millis(20),
    };
    assert_eq!(guessed.shared_cache, shared);
    assert!(guessed.warnings().is_empty());
    let guessed = guessed.settings;
    assert_eq!((guessed.use_kv_events, guessed.router_ttl_secs), (false, 60.0));
    assert_eq!(guessed.router_approximate_cache_policy, ApproximateCachePolicy::Lru);
    assert_eq!(guessed.shared_cache_multiplier, 0.2);
}

#[test]
fn sessions_are_bound_hard_unless_said_otherwise() {
    use pointsman_core::affinity::{AffinityMode, AffinityTerms};
    let terms = |text| good(text).settings.session_affinity();
    assert_eq!(terms("router: {}"), None);
    let hard = AffinityTerms { mode: AffinityMode::Hard, ttl_ms: 60_000 };
    assert_eq!(terms("router: { router_session_affinity_ttl_secs: 60 }"), Some(hard));
    let text = "router: { router_session_affinity_ttl_secs: 31_536_000, \
                router_session_affinity_mode: soft }";
    let soft = AffinityTerms { mode: AffinityMode::Soft, ttl_ms: 31_536_000_000 };
    assert_eq!(terms(text), Some(soft));
}

#[test]
fn one_endpoint_stands_for_all_ranks_as_engines_count() {
    use pointsman_core::fleet::CacheFeedMode;
    let config = good(
        "workers:
- { worker_id: 1, endpoint: http://a:1, data_parallel_start_rank: 8, data_parallel_size: 2,
    kv_events_endpoint: 'tcp://*:5557', replay_endpoint: 'tcp://*:5657', kv_events_topic: t }
- { worker_id: 2, endpoint: http://b:1, data_parallel_size: 3, kv_event_source_mode: zmq,
    kv_events_endpoints: { 0: 'tcp://b:5557', 2: 'ipc:///run/b' }, replay_endpoint: 'tcp://b:5657' }
- { worker_id: 3, endpoint: http://c:1, kv_event_source_mode: push }
- { worker_id: 4, endpoint: http://d:1 }
",
    );
    let of = |worker: usize| config.workers[worker].cache_feed.clone();
    let texts = |endpoints: std::collections::BTreeMap<u32, String>| -> Vec<String> {
        endpoints.into_iter().map(|(rank, endpoint)| format!("{rank} {endpoint}")).collect()
    };
    assert_eq!(texts(of(0).kv_events_endpoints), ["8 tcp://*:5565", "9 tcp://*:5566"]);
    assert_eq!(texts(of(0).replay_endpoints), ["8 tcp://*:5665", "9 tcp://*:5666"]);
    assert_eq!(of(0).kv_events_topic, "t");
    assert_eq!(texts(of(1).kv_events_endpoints), ["0 tcp://b:5557", "2 ipc:///run/b"]);
    assert_eq!(texts(of(1).replay_endpoints), ["0 tcp://b:5657", "2 tcp://b:5659"]);
    assert_eq!(of(1).kv_event_source_mode, CacheFeedMode::Zmq);
    assert_eq!(of(2).kv_event_source_mode, CacheFeedMode::Push);
    assert_eq!(of(3), pointsman_core::fleet::CacheFeed::default());
}

#[test]
fn tokenizers_have_defaults_for_all_but_the_model_and_missing_files_are_told_with_their_place() {
    let config = good(
        "tokenizer_threads: 4
tokenizers:
- { model: a }
- { model: b, source: tokenizer, tokenizer: models/b, chat_template: /no/such/template,
    content_format: openai, template_defaults: { thinking: false }, utc_offset: -3600,
    limits: { cache_bytes: 0, text_bytes: 1MiB } }
",
    );
    let [(a, first), (b, second)] =
        ["a", "b"].map(|model| config.tokenizers.get_key_value(model).unwrap());
    assert_eq!((&**a, &**b), ("a", "b"));
    let limits = crate::tokens::Limits { threads: 4, ..crate::tokens::Limits::default() };
    assert_eq!(first.limits, limits);
    assert_eq!(config.tokenizer_pool.threads, 4);
    assert_eq!(second.tokenizer.as_deref(), Some(Path::new("/etc/pointsman/models/b")));
    assert_eq!(second.template_defaults["thinking"], json!(false));
    assert_eq!((second.utc_offset, second.limits.cache_bytes), (-3600, 0));
    let missing: Vec<_> = config.missing_files().iter().map(ToString::to_string).collect();
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(
        missing.iter().any(|one| {
            one.starts_with(
        "pointsman.yaml:4:45: tokenizers[1].tokenizer: nothing is at /etc/pointsman/models/b; name"
    )
        }),
        "{missing:?}"
    );
}

#[test]
fn a_tokenizer_for_nobody_is_taken_with_a_warning() {
    let workers = "workers: [{ worker_id: 1, endpoint: 'http://a:1', model: mine }]";
    let tokenizers = |model| format!("tokenizers: [{{ model: {model}, tokenizer: t }}]");
    let warnings = |text: &str| -> Vec<String> {
        good(text).warnings().iter().map(ToString::to_string).collect()
    };
    assert!(warnings(&format!("{workers}\n{}", tokenizers("mine"))).is_empty());
    assert!(warnings(&tokenizers("mien")).is_empty(), "it may come yet");
    let warned = warnings(&format!("{workers}\n{}", tokenizers("mien")));
    let [warning] = &warned[..] else { panic!("{warned:?}") };
    assert!(warning.contains(":2:14: tokenizers[0]: no worker of this file serves"), "{warning}");
    assert!(warning.contains("\"mien\"; served: mine"), "{warning}");
}

#[test]
fn a_place_that_nobody_asks_at_is_taken_with_a_warning() {
    for kind in ["", "shared_cache_type: none, "] {
        let config = good(&format!("router: {{ {kind}shared_cache_url: 'http://c:1' }}"));
        let [warning] = &config.warnings()[..] else { panic!("{:?}", config.warnings()) };
        let warning = warning.to_string();
        assert!(warning.contains("router.shared_cache_url: nobody asks there"), "{warning}");
    }
    assert_eq!(good("{}").shared_cache, SharedCacheConfig::default());
}

#[test]
fn engines_are_asked_for_their_load_only_where_the_file_says_so_and_in_time() {
    assert_eq!(good("{}").load_reports, None);
    let asked = good("load_reports: { interval: 2s, path: /prometheus }").load_reports;
    let expected = LoadReportsConfig {
        interval: Duration::from_secs(2),
        path: "/prometheus".to_owned(),
        ..LoadReportsConfig::default()
    };
    assert_eq!(asked, Some(expected));
    assert_eq!(good("load_reports: {}").load_reports, Some(LoadReportsConfig::default()));
    for (text, told) in [
        ("{ interval: 200ms }", "a timeout of 500ms is longer than the interval of 200ms"),
        ("{ timeout: 2s }", "load_reports.timeout: a timeout of 2s is longer"),
        ("{ interval: 6s }", "load_reports.interval"),
        ("{ path: metrics }", "load_reports.path"),
        ("{ every: 1s }", "load_reports.every: unknown key"),
    ] {
        let mistakes = mistakes(&format!("load_reports: {text}"));
        assert!(mistakes.contains(told), "{text}: {mistakes}");
    }
}

#[test]
fn thresholds_of_what_no_worker_says_are_taken_with_a_warning() {
    let warnings = |worker: &str, rest: &str| -> Vec<String> {
        let worker = format!("worker_id: 1, endpoint: 'http://a:1', model: mine{worker}");
        let config = good(&format!("workers: [{{ {worker} }}]\n{rest}"));
        config.warnings().iter().map(ToString::to_string).collect()
    };
    let queue = "router: { router_queue_threshold: 2 }";
    let share = "policy_classes: [{ name: a, quantum: 1, prefill_busy_threshold_frac: 0.5 }]";
    let tokens = "router: { active_prefill_tokens_threshold_frac: 2 }";
    for rest in [queue, share, tokens] {
        let warned = warnings("", rest);
        let [warning] = &warned[..] else { panic!("{rest}: {warned:?}") };
        assert!(
            warning.contains("share of `max_num_batched_tokens`, which no worker"),
            "{warning}"
        );
        assert!(warning.contains(":2:"), "it names the line: {warning}");
        assert!(warnings(", max_num_batched_tokens: 8192", rest).is_empty(), "{rest}");
    }
    let blocks = "router: { active_decode_blocks_threshold: 0.9 }";
    let warned = warnings("", blocks);
    assert!(warned.len() == 1 && warned[0].contains("share of `total_kv_blocks`"), "{warned:?}");
    assert!(warnings(", total_kv_blocks: 100", blocks).is_empty());
    assert!(warnings("", &format!("{blocks}\nload_reports: {{}}")).is_empty());
    let idle = "policy_classes: [{ name: a, quantum: 1 }]";
    assert!(warnings("", idle)[0].contains("no class has a busy threshold"));
    let class = "{ name: a, quantum: 1, prefill_busy_threshold: 1 }";
    let misspelt = format!("models: {{ mien: {{ policy_classes: [{class}] }} }}");
    assert!(warnings("", &misspelt)[0].contains("\"mien\"; served: mine"));
}
