//! What is counted, as it is shown.

use super::*;

#[test]
fn what_is_counted_is_shown() {
    let metrics = Metrics::new();
    metrics.request_began();
    metrics.request_ended("m", "completions", "200", Duration::from_millis(3));
    metrics.first_token("m", "completions", Duration::from_millis(1));
    metrics.undecided("no_endpoints");
    metrics.retried("connect");
    metrics.upstream_failed("connect");
    metrics.answer_ended(true, Outcome::Truncated);
    let text = metrics.encode();
    for line in [
        r#"pointsman_requests_total{model="m",route="completions",status="200"} 1"#,
        "pointsman_requests_in_flight 0",
        r#"pointsman_undecided_total{kind="no_endpoints"} 1"#,
        r#"pointsman_answers_total{outcome="truncated",shape="stream"} 1"#,
        r#"pointsman_request_seconds_bucket{model="m",route="completions",le="0.005"} 1"#,
    ] {
        assert!(text.contains(line), "{line}\nin\n{text}");
    }
}

#[test]
fn what_was_counted_for_a_model_goes_with_it() {
    let metrics = Metrics::new();
    let count = |model: &str| {
        metrics.request_began();
        metrics.request_ended(model, "completions", "200", Duration::from_millis(3));
        metrics.first_token(model, "completions", Duration::from_millis(1));
        metrics.predictions().prompted(model, "text");
        metrics.predictions().estimated(model, "busy");
    };
    ["stays", names::NO_MODEL].into_iter().for_each(count);
    let before = metrics.encode();
    ["gone", "gone too"].into_iter().for_each(count);
    metrics.request_began();
    metrics.request_ended("gone", "embeddings", "499", Duration::from_millis(3));
    assert!(metrics.encode().contains(r#"model="gone too""#));
    metrics.keep_models(|model| model == "stays");
    assert_eq!(metrics.encode(), before);
}
