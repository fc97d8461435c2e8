//! Thresholds set over the API, and engines' own reports.

use super::*;

const ALL: [&str; 3] = [
    "active_decode_blocks_threshold",
    "active_prefill_tokens_threshold",
    "active_prefill_tokens_threshold_frac",
];

fn three(of: &Value) -> [Value; 3] {
    ALL.map(|key| of[key].clone())
}

#[tokio::test]
async fn thresholds_are_set_shown_and_heeded() {
    let fixture = Fixture::new().await;
    let shown = fixture.get("/v1/busy_threshold").await.json();
    assert_eq!(three(&shown["partitions"][0]), [Value::Null, Value::Null, Value::Null]);
    let set = async |body: Value| fixture.send(Method::POST, "/busy_threshold", &body).await;
    let answer = set(json!({ "model": MODEL, ALL[0]: 0.5, ALL[2]: 2 })).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(three(&answer.json()), [json!(0.5), Value::Null, json!(2.0)]);
    // What is left out stays, what is null goes.
    let answer = set(json!({ "model": MODEL, ALL[0]: null, ALL[1]: 50 })).await;
    assert_eq!(three(&answer.json()), [Value::Null, json!(50), json!(2.0)]);
    let held = [fixture.book().await, fixture.book().await];
    let shown = fixture.get("/v1/busy_threshold").await.json();
    assert_eq!(shown["partitions"][0]["overloaded"], json!([1, 2]));
    let request = RouteRequest::new("r", partition(), 100);
    let dispatcher = &fixture.server.app().dispatcher;
    let refused = dispatcher.decide(request.into(), Mode::Book).await.unwrap_err();
    assert!(refused.to_string().contains("overloaded"), "{refused}");
    drop(held);
    drop(fixture.book().await);
    for (body, reason) in [
        (json!({ ALL[0]: 0.5 }), "model"),
        (json!({ "model": MODEL, ALL[0]: 1.5 }), "0 to 1"),
        (json!({ "model": MODEL, ALL[1]: -1 }), ALL[1]),
        (json!({ "model": MODEL, "colour": 1 }), "colour"),
    ] {
        let answer = set(body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert!(answer.text().contains(reason), "{}", answer.text());
    }
    assert_eq!(set(json!({ "model": "other" })).await.status, StatusCode::NOT_FOUND);
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn an_engines_report_counts_and_has_an_age() {
    let fixture = Fixture::new().await;
    let body = json!({ "model": MODEL, ALL[0]: 0.5 });
    let set = fixture.send(Method::POST, "/v1/busy_threshold", &body).await;
    assert_eq!(set.status, StatusCode::OK);
    let report = json!({ "used_kv_blocks": 60, "total_kv_blocks": 100 });
    let sent = fixture.send(Method::POST, "/v1/workers/1/load", &report).await;
    assert_eq!(sent.json(), json!({ "worker_id": 1, "dp_rank": 0 }), "{}", sent.text());
    let shown = fixture.get("/v1/busy_threshold").await.json()["partitions"][0].clone();
    assert_eq!(shown["overloaded"], json!([1]));
    let report = &shown["reports"][0];
    assert_eq!((&report["used_kv_blocks"], &report["stale"]), (&json!(60), &json!(false)));
    assert!(report["age_ms"].is_u64());
    for (path, body, status) in [
        ("/v1/workers/9/load", json!({ "used_kv_blocks": 1 }), 404),
        ("/v1/workers/1/load", json!({ "used_kv_blocks": 1, "dp_rank": 4 }), 400),
        ("/v1/workers/1/load", json!({}), 400),
    ] {
        let answer = fixture.send(Method::POST, path, &body).await;
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
    }
    fixture.server.shutdown().await;
}
