//! What is taken, refused and answered, in words: JSON in, JSON out.

use super::*;

#[tokio::test]
async fn every_json_answer_is_indented_and_ends_its_last_line() {
    let fixture = Fixture::new().await;
    let facts = json!({ "model": MODEL, "prompt_tokens": 1_000 });
    let mut answers = vec![fixture.send(Method::POST, "/v1/route", &facts).await];
    let paths = [
        "/health",
        "/ready",
        "/nowhere",
        "/v1/workers",
        "/v1/workers/1",
        "/v1/workers/9",
        "/v1/loads",
        "/v1/sessions",
        "/v1/sessions?limit=x",
        "/v1/policies",
        "/v1/receipts",
        "/v1/receipts?limit=x",
    ];
    for path in paths {
        answers.push(fixture.get(path).await);
    }
    for answer in answers {
        assert_eq!(answer.header("content-type"), "application/json");
        let text = answer.text();
        assert!(text.starts_with("{\n  ") && text.ends_with("}\n"), "{text:?}");
    }
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn what_takes_64_bits_is_a_text_and_is_taken_as_one() {
    let fixture = Fixture::new().await;
    let facts = json!({ "model": MODEL, "prompt_tokens": 1_000 });
    let receipt = fixture.send(Method::POST, "/v1/route", &facts).await.json();
    let seed = receipt["seed"].as_str().unwrap();
    assert!(seed.parse::<u64>().is_ok(), "{seed}");
    assert!(receipt["worker_id"].is_u64(), "small ids are numbers: {receipt}");

    let large = u64::MAX.to_string();
    for (nth, id) in [json!(u64::MAX), json!(large)].into_iter().enumerate() {
        let described =
            json!({ "worker_id": id, "endpoint": "http://127.0.0.1:10", "model": "large" });
        let answer = fixture.send(Method::POST, "/v1/workers", &described).await;
        assert_eq!(answer.status, [StatusCode::CREATED, StatusCode::OK][nth], "{}", answer.text());
        assert_eq!(answer.json()["worker_id"], json!(large));
        let facts = json!({ "model": "large", "prompt_tokens": 1, "pinned_worker": { "worker_id": id },
            "affinity_target": { "worker_id": id, "dp_rank": 0 }, "allowed_worker_ids": [id] });
        let answer = fixture.send(Method::POST, "/v1/route", &facts).await;
        assert_eq!(answer.json()["worker_id"], json!(large), "{}", answer.text());
        assert_eq!(answer.json()["rows"][0]["worker_id"], json!(large));
    }
    let loads = fixture.get("/v1/loads").await.text();
    assert!(loads.contains(&format!("\"{large}\"")), "{loads}");
    let gone = fixture.send(Method::DELETE, &format!("/v1/workers/{large}"), &json!({})).await;
    assert_eq!(gone.json()["worker_id"], json!(large));
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn all_that_is_wrong_with_a_requests_facts_is_said_in_words_that_name_it() {
    let fixture = Fixture::new().await;
    let bad = json!({
        "prompt_tokens": "many", "role": "both", "priority_jump": -1, "strict_priority": 1.5,
        "router_temperature": "hot", "session_id": 5, "allowed_worker_ids": [1, "one"],
        "pinned_worker": { "dp_rank": -1, "rank": 0 }, "affinity_target": [7, 0],
        "routing_constraints": { "required_taints": "a", "preferred_taints": { "b": "much" } },
        "colour": "red",
    });
    let answer = fixture.send(Method::POST, "/v1/route", &bad).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let problems: Vec<_> = answer.json()["details"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            format!("{} {}", one["field"].as_str().unwrap(), one["problem"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        problems,
        [
            "model is missing; expected a model that a worker serves",
            "prompt_tokens is \"many\"; expected a whole number of at least 0",
            "role is \"both\"; known: aggregated, prefill, decode, encode",
            "session_id is 5; expected a text",
            "priority_jump is -1; expected a number of at least 0",
            "strict_priority is 1.5; expected a whole number of at least 0",
            "router_temperature is \"hot\"; expected a number of at least 0",
            "affinity_target is a list; expected a JSON object",
            "pinned_worker.worker_id is missing",
            "pinned_worker.dp_rank is -1; expected a whole number of at least 0",
            "pinned_worker.rank is unknown; known: worker_id, dp_rank",
            "allowed_worker_ids entry 1 is \"one\"; expected a whole number from 0 to 18446744073709551615",
            "routing_constraints.required_taints is \"a\"; expected a list",
            "routing_constraints.preferred_taints has \"much\" for \"b\"; expected a number",
            "colour is unknown; known: model, model_name, token_ids, prompt_tokens, lora_name, cache_salt, \
             routing_group, role, session_id, expected_output_tokens, priority_jump, strict_priority, policy_class, router_temperature, affinity_target, \
             pinned_worker, allowed_worker_ids, routing_constraints",
        ]
    );
    let words = answer.json()["error"].as_str().unwrap().to_owned();
    assert!(words.contains("15 problem(s), the first: model is missing"), "{words}");
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn a_list_is_no_object_wherever_one_is_wanted() {
    let fixture = Fixture::new().await;
    for (method, path, body) in [
        (Method::POST, "/v1/route", json!(["m", null, "aggregated", 5])),
        (Method::POST, "/v1/route", json!("m")),
        (
            Method::POST,
            "/v1/route",
            json!({ "model": MODEL, "prompt_tokens": 1, "pinned_worker": [1] }),
        ),
        (Method::POST, "/v1/route", json!({ "model": MODEL, "messages": [], "nvext": [null] })),
        (Method::POST, "/v1/workers", json!([7, "http://127.0.0.1:9"])),
        (Method::PATCH, "/v1/workers/1", json!([])),
        (Method::PATCH, "/v1/workers/1", json!({ "labels": ["a"] })),
    ] {
        let answer = fixture.send(method.clone(), path, &body).await;
        assert_eq!(
            answer.status,
            StatusCode::BAD_REQUEST,
            "{method} {path} {body}: {}",
            answer.text()
        );
        for ours in ["struct", "invalid type", "u64"] {
            assert!(!answer.text().contains(ours), "{}", answer.text());
        }
    }
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn a_dry_run_takes_a_clients_body_as_the_public_listener_does() {
    let fixture = Fixture::new().await;
    let body = format!("{{\"model\":\"{MODEL}\",\"prompt\":\"12345678\\ud800\"}}");
    let headers = [("content-type", "application/json")];
    let sent = fixture.admin.send_bytes(Method::POST, "/v1/route", &headers, Bytes::from(body));
    let answer = sent.await.unwrap();
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(answer.json()["prompt_tokens"], 3);
    for name in ["model", "model_name"] {
        let facts = json!({ name: MODEL, "prompt_tokens": 1 });
        let answer = fixture.send(Method::POST, "/v1/route", &facts).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    }
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn half_of_a_surrogate_pair_is_named_as_what_is_wrong_where_it_is_ours_to_read() {
    let fixture = Fixture::new().await;
    let headers = [("content-type", "application/json")];
    for (path, body) in [
        ("/v1/route", r#"{"model":"m","prompt_tokens":1,"session_id":"\ud800"}"#),
        ("/v1/overlap", r#"{"model":"m","token_ids":[1],"cache_salt":"\ud800"}"#),
        ("/v1/workers", r#"{"worker_id":7,"endpoint":"http://127.0.0.1:9","model":"\udc00"}"#),
        ("/v1/route", r#"{"model":"m","messages":[],"cache_salt":"\ud800"}"#),
        ("/v1/route", r#"{"model":"m","messages":[],"lora_name":"\ud800"}"#),
    ] {
        let sent = fixture.admin.send_bytes(Method::POST, path, &headers, Bytes::from(body));
        let answer = sent.await.unwrap();
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {body}: {}", answer.text());
        assert!(answer.text().contains("half of a surrogate pair"), "{}", answer.text());
        assert!(answer.text().contains("send whole characters"), "{}", answer.text());
    }
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn a_tunnel_is_refused_with_the_methods_that_are_taken() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let fixture = Fixture::new().await;
    for line in ["CONNECT 127.0.0.1:9090", "TRACE /v1/workers", "POST /health"] {
        let mut stream = tokio::net::TcpStream::connect(fixture.server.admin_addr()).await.unwrap();
        let head = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 405"), "{line}: {answer}");
        assert!(answer.contains("\r\nallow: "), "{line}: {answer}");
    }
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn a_field_that_stands_twice_is_refused_wherever_it_stands() {
    let fixture = Fixture::new().await;
    for (method, path, body) in [
        (
            Method::POST,
            "/v1/workers",
            r#"{"worker_id":7,"worker_id":8,"endpoint":"http://127.0.0.1:9"}"#,
        ),
        (Method::PATCH, "/v1/workers/1", r#"{"labels":{"worker_id":"a","worker_id":"b"}}"#),
        (
            Method::POST,
            "/v1/route",
            r#"{"model":"m","prompt_tokens":1,"pinned_worker":{"worker_id":1,"worker_id":2}}"#,
        ),
    ] {
        let headers = [("content-type", "application/json")];
        let sent = fixture.admin.send_bytes(method.clone(), path, &headers, Bytes::from(body));
        let answer = sent.await.unwrap();
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{method} {path}: {}", answer.text());
        assert!(answer.text().contains("\\\"worker_id\\\" twice"), "{}", answer.text());
    }
    // What clients may say twice in what only engines read, they may here.
    let body = r#"{"model":"m","messages":[{"role":"user","role":"user","content":"x"}]}"#;
    let headers = [("content-type", "application/json")];
    let sent = fixture.admin.send_bytes(Method::POST, "/v1/route", &headers, Bytes::from(body));
    assert_eq!(sent.await.unwrap().status, StatusCode::OK);
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn what_came_with_a_request_is_not_echoed_at_length() {
    let fixture = Fixture::new().await;
    let long = "x".repeat(10_000);
    let facts = json!({ "model": MODEL, "prompt_tokens": 1, long.clone(): long });
    let client = json!({ "model": long, "messages": [] });
    for body in [facts, client] {
        let answer = fixture.send(Method::POST, "/v1/route", &body).await;
        assert!(!answer.status.is_success() && answer.text().len() < 2_000, "{}", answer.text());
    }
    let asked =
        ["/", "/v1/workers/", "/v1/workers?", "/v1/receipts?limit="].map(|at| (Method::GET, at));
    let told = ["/v1/workers/1?force=", "/v1/workers/", "/"].map(|at| (Method::DELETE, at));
    for (method, path) in asked.into_iter().chain(told) {
        let path = format!("{path}{long}");
        let answer = fixture.admin.send(method, &path, &[], None).await.unwrap();
        assert!(answer.status.is_client_error());
        assert!(answer.text().len() < 600, "{}", answer.text());
    }
    fixture.server.shutdown().await;
}
