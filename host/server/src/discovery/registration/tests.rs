//! What is taken, and what is refused, of a worker's description.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use serde_json::json;

use super::*;
use crate::json::Problem;

fn problems(description: Value) -> Vec<(String, String)> {
    let Problems(problems) = Registration::read(&description).unwrap_err();
    problems.into_iter().map(|Problem { field, problem }| (field, problem)).collect()
}

#[test]
fn what_is_left_out_takes_its_default() {
    let read = Registration::read(&json!({"worker_id": 7, "endpoint": "http://10.0.0.1:8000/"}));
    let Registration { spec, lease } = read.unwrap();
    assert_eq!(spec, plain(WorkerId(7), "http://10.0.0.1:8000".to_owned()));
    assert_eq!(spec.partition.to_string(), "default/default/aggregated");
    assert_eq!(lease, None);
}

#[test]
fn every_field_arrives() {
    let read = Registration::read(&json!({
        "worker_id": 7, "endpoint": "http://e:1", "model": "m", "routing_group": "g",
        "role": "decode", "data_parallel_start_rank": 2, "data_parallel_size": 4,
        "block_size": 32, "taints": ["a", "b"], "labels": {"zone": "x"},
        "total_kv_blocks": 100, "max_num_batched_tokens": 8192, "device_kind": "h100",
        "lease": "30s",
    }));
    let Registration { spec, lease } = read.unwrap();
    assert_eq!(spec.partition.to_string(), "m/g/decode");
    assert_eq!((spec.data_parallel_start_rank, spec.data_parallel_size.get()), (2, 4));
    assert_eq!(spec.block_size.get(), 32);
    assert_eq!(spec.taints.len(), 2);
    assert_eq!(spec.labels["zone"], "x");
    assert_eq!((spec.total_kv_blocks, spec.max_num_batched_tokens), (Some(100), Some(8192)));
    assert_eq!(spec.device_kind.as_deref(), Some("h100"));
    assert_eq!(lease, Some(Duration::from_secs(30)));
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = problems(json!({
        "endpoint": "https://e:1/v1", "role": "both", "data_parallel_size": 5000,
        "block_size": 0, "taints": "a", "total_kv_blocks": 0, "max_num_batched_tokens": 0,
        "lease": 30, "kv_events_socket": "tcp://e:2",
    }));
    let fields: Vec<_> = found.iter().map(|(field, _)| field.as_str()).collect();
    let expected = [
        "worker_id",
        "endpoint",
        "role",
        "data_parallel_size",
        "block_size",
        "taints",
        "total_kv_blocks",
        "max_num_batched_tokens",
        "lease",
        "kv_events_socket",
    ];
    assert_eq!(fields, expected);
    assert_eq!(found[0].1, "is missing");
    assert_eq!(found[2].1, "is \"both\"; known: aggregated, prefill, decode, encode");
    assert_eq!(found[6].1, "is 0; expected at least 1, or leave it out where it isn't known");
    assert!(found[9].1.starts_with("is unknown; known: worker_id, endpoint, model_name"));
}

#[test]
fn endpoints_are_plain_http_without_a_path() {
    for good in ["http://e:80", "http://[::1]:8000", "http://10.1.2.3:1/"] {
        assert!(fields::endpoint(&json!(good)).is_ok(), "{good}");
    }
    for bad in [
        "",
        "e:80",
        "https://e",
        "http://",
        "http://e",
        "http://e/v1",
        "http://e:99999",
        "http://e:1#x",
        "http://e:0",
        "http://u@e",
        "http://e?x",
    ] {
        assert!(fields::endpoint(&json!(bad)).is_err(), "{bad}");
    }
}

#[test]
fn leases_have_units_and_bounds() {
    assert_eq!(fields::lease(&json!("1500ms")).unwrap(), Duration::from_millis(1500));
    assert_eq!(fields::lease(&json!("2m")).unwrap(), Duration::from_secs(120));
    for bad in [
        json!("30"),
        json!("s"),
        json!("-1s"),
        json!("99ms"),
        json!("25h"),
        json!("99999999999999999999s"),
        json!(30),
    ] {
        assert!(fields::lease(&bad).is_err(), "{bad}");
    }
}

#[test]
fn a_change_keeps_what_it_leaves_out_and_null_clears() {
    let before = Registration::read(&json!({
        "worker_id": 7, "endpoint": "http://e:1", "taints": ["a"], "device_kind": "h100",
    }));
    let before = before.unwrap();
    let lease = Some(Duration::from_secs(5));
    let changes = json!({"taints": null, "labels": {"zone": "x"}});
    let after = Registration::changed(&before.spec, lease, &changes).unwrap();
    assert!(after.spec.taints.is_empty());
    assert_eq!(after.spec.labels["zone"], "x");
    assert_eq!(after.spec.device_kind.as_deref(), Some("h100"));
    assert_eq!(after.lease, lease);
    let refused = json!({"worker_id": 8, "endpoint": null});
    let Problems(refused) = Registration::changed(&before.spec, lease, &refused).unwrap_err();
    assert_eq!(refused.len(), 2, "{refused:?}");
}

#[test]
fn a_description_that_is_no_object_is_refused() {
    assert_eq!(problems(json!([]))[0].1, "is a list; expected a JSON object");
}

#[test]
fn where_events_come_from_is_read_as_in_the_file() {
    let read = Registration::read(&json!({
        "worker_id": 7, "endpoint": "http://e:1", "data_parallel_size": 2,
        "kv_events_endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5657",
        "kv_events_topic": "t", "kv_event_source_mode": "zmq",
    }));
    let feed = read.unwrap().spec.cache_feed;
    assert_eq!(feed.kv_events_endpoints[&1], "tcp://*:5558");
    assert_eq!(feed.replay_endpoints[&1], "tcp://*:5658");
    assert_eq!(feed.kv_events_topic, "t");
    let read = Registration::read(&json!({
        "worker_id": 7, "endpoint": "http://e:1", "kv_events_endpoints": { "0": "ipc:///run/e" },
    }));
    let before = read.unwrap();
    assert_eq!(before.spec.cache_feed.kv_events_endpoints[&0], "ipc:///run/e");
    let changes = json!({ "kv_events_endpoint": null, "kv_event_source_mode": "push" });
    let after = Registration::changed(&before.spec, None, &changes).unwrap().spec.cache_feed;
    assert!(after.kv_events_endpoints.is_empty());
    let grown =
        Registration::changed(&before.spec, None, &json!({ "data_parallel_start_rank": 1 }));
    let Problems(grown) = grown.unwrap_err();
    assert_eq!(grown[0].field, "kv_events_endpoints");
}

#[test]
fn what_contradicts_itself_about_events_is_told_with_what_to_do() {
    for (fields, field, words) in [
        (json!({ "kv_event_source_mode": "yes" }), "kv_event_source_mode", "known: auto, zmq"),
        (
            json!({ "kv_event_source_mode": "zmq" }),
            "kv_event_source_mode",
            "give kv_events_endpoint",
        ),
        (
            json!({ "kv_event_source_mode": "push", "kv_events_endpoint": "tcp://e:1" }),
            "kv_event_source_mode",
            "take these out, or set zmq",
        ),
        (json!({ "kv_events_endpoint": "e:1" }), "kv_events_endpoint", "write tcp://host:port"),
        (json!({ "kv_events_endpoint": 5557 }), "kv_events_endpoint", "expected tcp://host:port"),
        (
            json!({ "kv_events_endpoints": ["tcp://e:1"] }),
            "kv_events_endpoints",
            "an object of ranks",
        ),
        (json!({ "kv_events_endpoints": { "1": "tcp://e:1" } }), "kv_events_endpoints", "rank 1"),
        (
            json!({ "kv_events_endpoint": "tcp://e:1", "kv_events_endpoints": {} }),
            "kv_events_endpoints",
            "give one of them",
        ),
        (
            json!({ "replay_endpoint": "tcp://e:1" }),
            "replay_endpoint",
            "give kv_events_endpoint too",
        ),
        (
            json!({ "kv_events_endpoint": "tcp://e:1", "replay_endpoint": "tcp://e:1" }),
            "replay_endpoint",
            "would share tcp://e:1; choose ports further apart",
        ),
    ] {
        let mut description = json!({ "worker_id": 7, "endpoint": "http://e:1" });
        description.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let found = problems(description);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, field, "{found:?}");
        assert!(found[0].1.contains(words), "{words}: {found:?}");
    }
}

#[test]
fn who_shares_prompts_says_how_and_nobody_else_does() {
    let worker = |role: &str, said: Value| json!({"worker_id": 7, "endpoint": "http://e:1", "role": role, "disaggregation": said});
    let read = |role: &str, said: Value| Registration::read(&worker(role, said)).unwrap().spec;
    let met = read("prefill", json!({"protocol": "sglang", "bootstrap_port": 9000})).disaggregation;
    assert_eq!((met.protocol.as_str(), met.met_at()), ("sglang", 9_000));
    let plain = read("decode", json!({})).disaggregation;
    assert_eq!((plain.protocol.as_str(), plain.bootstrap_port), ("vllm", None));
    assert_eq!(read("aggregated", json!(null)).disaggregation, plain);
    for (role, said, field, problem) in [
        ("aggregated", json!({}), "disaggregation", "can't be: a worker that shares no prompt"),
        (
            "prefill",
            json!({"bootstrap_port": 1}),
            "disaggregation.bootstrap_port",
            "can't be: vllm",
        ),
        (
            "decode",
            json!({"protocol": "sglang", "bootstrap_port": 1}),
            "disaggregation.bootstrap_port",
            "can't be: workers meet at the prefill worker's port",
        ),
        (
            "prefill",
            json!({"protocol": "trt"}),
            "disaggregation.protocol",
            "is \"trt\"; known: vllm",
        ),
        (
            "prefill",
            json!({"bootstrap_port": 0}),
            "disaggregation.bootstrap_port",
            "is 0; expected",
        ),
        ("prefill", json!({"room": 0}), "disaggregation.room", "is unknown; known: protocol"),
        ("prefill", json!("sglang"), "disaggregation", "is "),
    ] {
        let found = problems(worker(role, said.clone()));
        assert_eq!(found.len(), 1, "{said}: {found:?}");
        assert_eq!(found[0].0, field, "{said}");
        assert!(found[0].1.starts_with(problem), "{said}: {found:?}");
    }
    // Who no longer shares, can't keep it.
    let spec = read("prefill", json!({"protocol": "sglang"}));
    assert!(Registration::changed(&spec, None, &json!({"role": "aggregated"})).is_err());
    let gone = json!({"role": "aggregated", "disaggregation": null});
    assert!(Registration::changed(&spec, None, &gone).is_ok());
    let kept = Registration::changed(&spec, None, &json!({"taints": ["a"]})).unwrap();
    assert_eq!(kept.spec.disaggregation, spec.disaggregation);
}
