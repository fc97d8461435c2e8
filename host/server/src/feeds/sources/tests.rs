//! What engines tell of themselves, read.

use super::*;

fn parse(text: &str) -> Address {
    text.parse().expect("an endpoint")
}

#[test]
fn vllms_answer_is_read_with_the_workers_host_for_any() {
    // As a real engine gave it.
    let answer = r#"{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557",
        "replay_endpoint":"tcp://*:5558","buffer_steps":10000,"hwm":100000,"max_queue_size":100000,
        "topic":"kv-events"}}"#;
    let expected = Source {
        rank: 0,
        attach: Attach::Connect,
        endpoint: parse("tcp://10.0.0.5:5557"),
        replay_endpoint: Some(parse("tcp://10.0.0.5:5558")),
        topic: "kv-events".to_owned(),
        block_size: None,
    };
    assert_eq!(vllm(answer, "10.0.0.5"), Ok(vec![expected]));
}

#[test]
fn where_vllm_names_a_host_we_wait_there() {
    let answer = r#"{
        "10": {"publisher": "zmq", "endpoint": "tcp://10.0.0.9:6010", "topic": ""},
        "9": {"publisher": "zmq", "endpoint": "tcp://10.0.0.9:6009", "replay_endpoint": null},
        "11": {"publisher": "zmq", "endpoint": "ipc:///run/kv.sock"}
    }"#;
    let sources = vllm(answer, "10.0.0.5").expect("sources");
    let found: Vec<_> = sources
        .iter()
        .map(|source| (source.rank, source.attach, source.endpoint.to_string()))
        .collect();
    assert_eq!(
        found,
        [
            (9, Attach::Bind, "tcp://10.0.0.9:6009".to_owned()),
            (10, Attach::Bind, "tcp://10.0.0.9:6010".to_owned()),
            (11, Attach::Connect, "ipc:///run/kv.sock".to_owned()),
        ]
    );
}

#[test]
fn sglangs_answer_is_read_for_each_rank() {
    let answer = r#"{"version": "0.5.23", "kv_events": {"publisher": "zmq", "endpoint_host": "*",
        "endpoint_port_base": 5557, "topic": "t", "block_size": 16, "dp_size": 2,
        "replay_endpoint_port_base": 5657, "load_endpoint_port_base": 5757, "load_topic": "load"}}"#;
    let sources = sglang(answer, "[fd00::5]").expect("sources");
    assert_eq!(sources.len(), 2);
    let second = &sources[1];
    assert_eq!((second.rank, second.block_size, second.topic.as_str()), (1, Some(16), "t"));
    assert_eq!(second.endpoint, parse("tcp://[fd00::5]:5558"));
    assert_eq!(second.replay_endpoint, Some(parse("tcp://[fd00::5]:5658")));
    // A named host is the engine's own, unless it says that it doesn't bind.
    let answer =
        r#"{"kv_events": {"endpoint_host": "fd00::6", "endpoint_port_base": 1, "bind": false}}"#;
    let sources = sglang(answer, "h").expect("sources");
    assert_eq!(sources[0].attach, Attach::Bind);
    assert_eq!(sources[0].endpoint, parse("tcp://[fd00::6]:1"));
}

#[test]
fn an_engine_that_publishes_nothing_says_so() {
    for answer in [
        "{}",
        r#"{"0": {"enable_kv_cache_events": false, "endpoint": "tcp://*:5557"}}"#,
        r#"{"0": {"publisher": "null", "endpoint": "tcp://*:5557"}}"#,
    ] {
        assert_eq!(vllm(answer, "h"), Err(SourcesError::Silent), "{answer}");
    }
    for answer in ["{}", r#"{"kv_events": null}"#, r#"{"kv_events": {"publisher": "null"}}"#] {
        assert_eq!(sglang(answer, "h"), Err(SourcesError::Silent), "{answer}");
    }
}

#[test]
fn what_cant_be_read_is_an_error_with_its_place() {
    for (answer, place) in [
        ("<html>", "isn't JSON"),
        ("[]", "object of up to 4096 ranks at the top"),
        (r#"{"x": {}}"#, "rank at key \"x\""),
        (r#"{"0": {}}"#, "endpoint at 0.endpoint"),
        (r#"{"0": {"endpoint": 5}}"#, "text at 0.endpoint"),
        (r#"{"0": {"endpoint": "tcp://*:x"}}"#, "0.endpoint: "),
    ] {
        let error = vllm(answer, "h").expect_err(answer).to_string();
        assert!(error.contains(place), "{error}");
    }
    for (config, place) in [
        ("5", "port at kv_events.endpoint_port_base"),
        (r#"{"endpoint_port_base": 0}"#, "kv_events.endpoint_host: "),
        (r#"{"endpoint_port_base": 5557, "dp_size": 4294967295}"#, "kv_events.dp_size"),
        (r#"{"endpoint_port_base": 65535, "dp_size": 2}"#, "rank 1's endpoint: "),
    ] {
        let error = sglang(&format!(r#"{{"kv_events": {config}}}"#), "h").expect_err(config);
        assert!(error.to_string().contains(place), "{error}");
    }
}

#[test]
fn the_ranks_of_one_endpoint_count_up_and_may_not_collide() {
    let configured = |replay: &str| Configured {
        endpoint: parse("tcp://*:5557"),
        replay_endpoint: Some(parse(replay)),
        attach: Attach::Connect,
        topic: String::new(),
    };
    let sources = configured("tcp://*:5657").of_ranks("h", 8..10).expect("sources");
    let found: Vec<_> = sources.iter().map(|s| (s.rank, s.endpoint.to_string())).collect();
    assert_eq!(found, [(8, "tcp://h:5565".to_owned()), (9, "tcp://h:5566".to_owned())]);

    let error = configured("tcp://*:5558").of_ranks("h", 0..2).expect_err("they collide");
    assert_eq!(
        error.to_string(),
        "rank 0's replays and rank 1's events would share tcp://h:5558; choose ports further \
         apart, such as 5557 and 5657"
    );
    assert!(configured("tcp://*:5558").of_ranks("h", 0..1).is_ok());
}

#[test]
fn an_answer_without_end_is_refused_in_a_sentence() {
    let ranks = |count: u32| {
        let rank = |rank| format!(r#""{rank}":{{"endpoint":"ipc:///{rank}"}}"#);
        format!("{{{}}}", (0..count).map(rank).collect::<Vec<_>>().join(","))
    };
    assert_eq!(vllm(&ranks(MOST_RANKS), "h").expect("few enough").len(), MOST_RANKS as usize);
    let zeros = "0".repeat(10_000);
    for answer in [
        ranks(MOST_RANKS + 1),
        format!(r#"{{"{}":{{}}}}"#, "x".repeat(10_000)),
        format!(r#"{{"{zeros}":{{}}}}"#),
        format!(r#"{{"{zeros}":{{"endpoint":7}}}}"#),
        format!(r#"{{"0":{{"endpoint":"{zeros}"}}}}"#),
    ] {
        let told = vllm(&answer, "h").expect_err("it is no answer").to_string();
        assert!(told.len() < 300, "{told:.400}");
    }
}
