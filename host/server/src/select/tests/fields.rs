//! The document and the code have the same fields: none may come or go in one of them alone.
//!
//! Of what is taken, the router itself tells which fields it knows, when it is sent one that it doesn't. Of
//! what is answered, every answer in these tests is held to the document, and here all fields are answered.

use std::collections::BTreeSet;

use super::document::Document;
use super::*;

/// The field that nobody knows.
const STRANGE: &str = "strange";

fn nested(path: &[String]) -> Value {
    path.iter().rev().fold(json!({ STRANGE: 1 }), |inner, field| json!({ field: inner }))
}

/// The names that a sentence lists after these words.
fn listed(words: &str, after: &str) -> BTreeSet<String> {
    let list = words.split_once(after).map_or("", |(_, list)| list);
    list.split(", ").filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_body_takes_the_fields_that_the_document_has_and_no_others() {
    let fixture = Fixture::new().await;
    let document = Document::read();
    let mut looked_at = 0;
    for (method, path, operation) in document.operations() {
        let describes_a_worker = ["/workers", "/workers/{id}"].contains(&path);
        let url = path.replace("{id}", "1");
        let objects = document.objects_of_body(operation);
        assert_eq!(objects.is_empty(), operation["requestBody"].is_null(), "{url}");
        for (within, properties) in objects {
            let method: Method = method.to_uppercase().parse().unwrap();
            let answer = fixture.send(method, &url, &nested(&within)).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{url} {within:?}");
            let strange = [&within[..], &[STRANGE.to_owned()]].concat().join(".");
            let problems = answer.json();
            let problems = problems["details"].as_array().unwrap().clone();
            let problem = problems.iter().find(|one| one["field"] == json!(strange));
            let problem = problem.unwrap_or_else(|| panic!("{url} {within:?}: {problems:?}"));
            let mut known = listed(problem["problem"].as_str().unwrap(), "known: ");
            if describes_a_worker && within.is_empty() {
                known.extend(incomplete::FOREIGN.map(|(name, ..)| name.to_owned()));
            }
            let told = properties.as_object().into_iter().flatten();
            let told: BTreeSet<String> = told.map(|(name, _)| name.clone()).collect();
            assert_eq!(told, known, "{url} {within:?}");
            looked_at += 1;
        }
    }
    assert!(looked_at > 25, "{looked_at}");
    fixture.stop().await;
}

#[tokio::test]
async fn a_query_takes_the_parameters_that_the_document_has_and_no_others() {
    let fixture = Fixture::new().await;
    let document = Document::read();
    for (method, path, operation) in document.operations() {
        let told = document.in_query(operation);
        if told.is_empty() {
            continue;
        }
        let url = format!("{}?{STRANGE}=1", path.replace("{id}", "1"));
        let method: Method = method.to_uppercase().parse().unwrap();
        let answer = fixture.send(method, &url, &Value::Null).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{url}");
        let words = answer.json()["error"].as_str().unwrap().to_owned();
        let known = words.split('`').skip(3).step_by(2);
        // Another name of the same.
        let known = known.take_while(|name| !name.contains(' ')).filter(|name| *name != "model");
        let known: BTreeSet<String> = known.map(str::to_owned).collect();
        assert_eq!(told, known, "{url}: {words}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn all_that_the_document_has_of_answers_is_answered() {
    let mut config = settings();
    let rule = &mut Arc::make_mut(&mut config.settings).conditional_disagg;
    (rule.prefill_busy_threshold, rule.decode_busy_threshold) = (Some(0.5), Some(0.5));
    let fixture = Fixture::with(config).await;
    let worker = json!({
        "worker_id": 7, "model_name": "all", "endpoint": "http://127.0.0.1:9", "role": "prefill",
        "total_kv_blocks": 100, "max_num_batched_tokens": 100, "lora_adapters": ["a"],
        "disaggregation": { "protocol": "sglang", "bootstrap_port": 9 },
        "kv_event_source_mode": "zmq", "kv_events_endpoint": "tcp://127.0.0.1:9",
        "replay_endpoint": "tcp://127.0.0.1:99", "kv_events_topic": "kv", "taints": ["t"],
    });
    fixture.good("/workers", &worker).await;
    fixture.good("/workers", &json!({ "worker_id": 8, "model_name": "all" })).await;
    while fixture.get("/workers?model_name=all").await[0]["last_probe"].is_null() {
        tokio::task::yield_now().await;
    }
    let ask = |more: Value| {
        let mut ask = asking(json!({
            "model_name": "all", "role": "prefill", "receipt": true,
            "router_config_override": { "prefill_load_scale": 1 },
        }));
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    fixture.good("/select", &ask(json!({ "selection_id": "a", "advisory": true }))).await;
    let of = json!({ "model_name": "all", "role": "prefill", "selection_id": "a" });
    fixture.good("/reservations", &of).await;
    fixture.get("/reservations/a").await;
    fixture.good("/reservations/heartbeat", &json!({ "selection_ids": ["a", "b"] })).await;
    fixture.good("/select_and_reserve", &ask(json!({ "selection_id": "b" }))).await;
    fixture.good("/select/batch", &json!({ "requests": [ask(json!({})), {}] })).await;
    fixture.send(Method::DELETE, "/reservations/a", &Value::Null).await;
    fixture.refused("/reservations", &of).await;
    cached(&fixture);
    let prompt =
        json!({ "model_name": "all", "role": "prefill", "token_ids": ask(json!({}))["token_ids"] });
    fixture.good("/overlap_scores", &prompt).await;
    for path in ["/ready", "/loads", "/dump", "/health"] {
        fixture.get(path).await;
    }
    let seen = fixture.seen.lock().clone();
    let missing: Vec<_> = fixture
        .document
        .fields_of_answers()
        .into_iter()
        .filter(|one| !seen.contains(one))
        .collect();
    assert_eq!(missing, [""; 0]);
    fixture.stop().await;
}

/// A worker has told of a block that it holds.
fn cached(fixture: &Fixture) {
    use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank};
    use pointsman_core::index::{CacheEvent, Content, Stored, Tier};
    let key =
        PartitionKey { model: "all".into(), routing_group: "default".into(), role: Role::Prefill };
    let partition = fixture.app().dispatcher.router().partition(&key).unwrap();
    let tokens: Vec<u32> = (0..16).collect();
    let content = Content::Tokens { tokens: &tokens, media: &[], scope: Default::default() };
    let stored = Stored { parent: None, engines: &[1], content, tier: Tier::Device };
    let rank = WorkerRank { worker_id: WorkerId(7), dp_rank: DpRank(0) };
    partition.cache().apply(rank, CacheEvent::Stored(stored));
}
