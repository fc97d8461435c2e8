//! Promises about what is found on engines' pages, whatever else they have.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use proptest::prelude::*;

use super::*;

fn said(running: u64, waiting: u64, usage: f64) -> Said {
    Said { running: Some(running), waiting: Some(waiting), usage: Some(usage) }
}

const VLLM: &str = r#"# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \"b\" }"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:e2e_request_latency_seconds_bucket{engine="0",le="0.3",model_name="m"} what
"#;

const SGLANG: &str = r#"sglang:num_running_reqs{dp_rank="4",model_name="m",priority="",tp_rank="0"} 5.0
sglang:num_running_reqs{dp_rank="4",model_name="m",priority="7",tp_rank="0"} 1.0
sglang:num_queue_reqs{dp_rank="4",model_name="m",tp_rank="0"} 0.0
sglang:token_usage{dp_rank="4",model_name="m",tp_rank="0"} 0.5
sglang:token_usage{dp_rank="4",model_name="m",tp_rank="1"} 0.75
sglang:num_running_reqs{dp_rank="5",model_name="m",tp_rank="0"} 1.0
sglang:num_queue_reqs{dp_rank="5",model_name="m",tp_rank="0"} 8.0
sglang:token_usage{dp_rank="5",model_name="m",tp_rank="0"} 0.125 1790347303000
"#;

#[test]
fn what_vllm_and_sglang_say_is_found_among_all_else() {
    assert_eq!(read(VLLM, 9, 1).unwrap(), [(9, said(3, 2, 0.25))].into());
    let old = "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\nvllm:num_requests_running 1\n";
    let expected = Said { running: Some(1), waiting: None, usage: Some(0.5) };
    assert_eq!(read(old, 0, 1).unwrap(), [(0, expected)].into());
    let both: BTreeMap<_, _> = [(4, said(5, 0, 0.75)), (5, said(1, 8, 0.125))].into();
    assert_eq!(read(SGLANG, 4, 2).unwrap(), both);
    assert_eq!(read(SGLANG, 0, 8).unwrap(), both);
    let unsure = "sglang:token_usage NaN\nsglang:num_running_reqs 2\n";
    let expected = Said { running: Some(2), ..Said::default() };
    assert_eq!(read(unsure, 0, 1).unwrap(), [(0, expected)].into());
}

#[test]
fn ranks_are_numbered_over_all_engines_or_within_one() {
    let page = |ranks: &[u32]| -> String {
        let line = |rank| format!("vllm:num_requests_running{{engine=\"{rank}\"}} {rank}\n");
        ranks.iter().map(line).collect()
    };
    let read = |ranks: &[u32], first, size| {
        let read = read(&page(ranks), first, size);
        read.map(|read| read.into_iter().map(|(rank, said)| (rank, said.running.unwrap())))
    };
    let ranks =
        |ranks: &[u32], first, size| -> Vec<_> { read(ranks, first, size).unwrap().collect() };
    assert_eq!(ranks(&[0, 1], 0, 2), [(0, 0), (1, 1)]);
    assert_eq!(ranks(&[8, 9], 8, 2), [(8, 8), (9, 9)]);
    assert_eq!(ranks(&[0, 1], 8, 2), [(8, 0), (9, 1)]);
    assert_eq!(ranks(&[9], 8, 2), [(9, 9)], "one of two");
    assert_eq!(ranks(&[7], 3, 1), [(3, 7)], "the only one");
    for (ranks, first, size) in [(&[0, 1][..], 0, 1), (&[8, 9], 4, 2), (&[7, 8], 8, 2)] {
        let error = read(ranks, first, size).err().unwrap();
        assert!(matches!(error, Unreadable::Ranks(_)), "{ranks:?}: {error}");
    }
    let none = super::read("vllm:num_requests_running 1\n", 0, 2).unwrap_err();
    assert!(none.to_string().contains("doesn't tell ranks apart"), "{none}");
}

#[test]
fn a_line_that_is_none_is_named() {
    for (line, what) in [
        // Another name, for all that is known.
        ("vllm:num_requests_running", None),
        ("vllm:num_requests_running ", Some("it has no value")),
        ("vllm:num_requests_running{engine=\"0\"}", Some("it has no value")),
        ("vllm:num_requests_running many", Some("its value is no number")),
        ("vllm:num_requests_running -1", Some("its value is no number of at least 0")),
        ("vllm:num_requests_running +Inf", Some("its value is no number of at least 0")),
        ("vllm:num_requests_running 1 now", Some("what follows its value is no time")),
        ("vllm:num_requests_running 1 2 3", Some("something follows its time")),
        ("vllm:num_requests_running{engine=0} 1", Some("a label has no value in quotes")),
        ("vllm:num_requests_running{engine=\"0", Some("a label has no end")),
        ("vllm:num_requests_running{engine=\"0\\\"} 1", Some("a label has no end")),
        ("vllm:num_requests_running{engine=\"0\" 1", Some("its labels have no end")),
        ("vllm:num_requests_running{engine=\"one\"} 1", Some("its rank is no whole number")),
    ] {
        let page = format!("# a page\n{line}\nvllm:kv_cache_usage_perc 0.5\n");
        let error = read(&page, 0, 1).err();
        let expected = what.map(|what| Unreadable::Malformed { line: 2, what });
        assert_eq!(error, expected, "{line}");
    }
    assert_eq!(read("up 1\n", 0, 1), Err(Unreadable::Nothing));
    assert_eq!(read("", 0, 1), Err(Unreadable::Nothing));
}

proptest! {
    #[test]
    fn no_page_is_too_odd(
        lines in proptest::collection::vec(
            (
                "(vllm:num_requests_running|sglang:token_usage|vllm:x|)",
                r#"(\{engine="[0-9]{0,3}"\} [0-9.eInfNa-]{1,5}|[{}=,"\\ a-zé0-9.+-]{0,40})"#,
            ),
            0..8,
        ),
        first in 0_u32..,
        size in 1_u32..=4_096,
    ) {
        let page: String = lines.into_iter().map(|(name, rest)| format!("{name}{rest}\n")).collect();
        for (rank, said) in read(&page, first, size).unwrap_or_default() {
            prop_assert!(rank.saturating_sub(first) < size);
            prop_assert!(said.usage.is_none_or(|usage| usage.is_finite() && usage >= 0.0));
        }
    }
}
