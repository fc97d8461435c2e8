//! What stands in quotes is a text, here as in `parameters`.

use super::*;

#[test]
fn a_number_in_quotes_is_a_text_and_refused_where_a_number_is_wanted() {
    let told = mistakes(
        r#"
router: { overlap_score_credit: "1.5", use_kv_events: "true", router_ttl_secs: '60' }
proxy: { retries: "1", max_body: "1048576" }
recording: { percent: "5" }
worker_selection:
  instances:
    - { name: a, type: random, decision_fuel: "1_000", breaker: { failures: '0x10' } }
tokenizers: [{ model: "7", utc_offset: "-3600" }]
workers: [{ worker_id: "1", endpoint: "http://a:1", block_size: '16', labels: { "zone": "1" } }]
"#,
    );
    let paths: Vec<_> = told.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    let expected = [
        "router.overlap_score_credit",
        "router.use_kv_events",
        "router.router_ttl_secs",
        "proxy.retries",
        "proxy.max_body",
        "recording.percent",
        "worker_selection.instances[0].decision_fuel",
        "worker_selection.instances[0].breaker.failures",
        "tokenizers[0].utc_offset",
        "workers[0].worker_id",
        "workers[0].block_size",
    ];
    assert_eq!(paths, expected, "{told}");
    let retries = "proxy.retries: expected a whole number, 0 to 10, found \"1\" in quotes, which is a \
                   text; take the quotes away";
    assert!(told.contains(retries), "{told}");
}

#[test]
fn texts_may_stand_in_quotes_whatever_they_look_like() {
    let long = "7".repeat(256);
    let config = good(&format!(
        r#"
listen: {{ address: "127.0.0.1:1", tokens: ["12345"] }}
proxy: {{ idle_timeout: "30s", max_body: "1MiB" }}
recording: {{ percent: "5%", file: "1" }}
workers: [{{ worker_id: 1, endpoint: "http://a:1", model: "{long}", role: "decode", taints: ["1", "true"] }}]
"#
    ));
    assert_eq!(&*config.workers[0].partition.model, long);
    assert_eq!((config.proxy.max_body, config.recording.share), (1 << 20, 0.05));
}
