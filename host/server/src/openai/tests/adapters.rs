//! Requests for LoRA adapters: where they go, and as what their prompts are known.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::rig::*;
use crate::load_client::Answer;
use crate::serve::testing::MODEL;

/// Three engines, of which the second has the adapter "sql".
async fn rig() -> Rig {
    Rig::with(3, |mock, config| {
        mock.models = vec![MODEL.to_owned(), "sql".to_owned()];
        if let Some(worker) = config.workers.get_mut(1) {
            worker.lora_adapters.insert("sql".to_owned());
        }
    })
    .await
}

async fn ask(rig: &Rig, headers: &[(&str, &str)], change: Value) -> Answer {
    let mut body = chat(false);
    let fields = body.as_object_mut().unwrap();
    fields.extend(change.as_object().cloned().unwrap());
    rig.client.send(Method::POST, "/v1/chat/completions", headers, Some(&body)).await.unwrap()
}

fn worker(answer: &Answer) -> &str {
    answer.headers.get("x-pointsman-worker").unwrap().to_str().unwrap()
}

#[tokio::test]
async fn an_adapters_name_is_as_good_as_a_models_and_goes_where_it_is_loaded() {
    let rig = rig().await;
    for _ in 0..6 {
        let by_model = ask(&rig, &[], json!({ "model": "sql" })).await;
        assert_eq!((by_model.status, worker(&by_model)), (StatusCode::OK, "2"));
        // The body goes out as it came: the engine was asked for the adapter.
        assert_eq!(by_model.json()["model"], "sql");
        let by_name = ask(&rig, &[], json!({ "lora_name": "sql" })).await;
        assert_eq!((by_name.status, worker(&by_name)), (StatusCode::OK, "2"));
    }
    // Which nobody has is for anybody; a pin is kept.
    let anybody = ask(&rig, &[], json!({ "lora_name": "poems" })).await;
    assert_eq!(anybody.status, StatusCode::OK);
    let pin = [("x-dynamo-worker-instance-id", "3")];
    assert_eq!(worker(&ask(&rig, &pin, json!({ "model": "sql" })).await), "3");
    // A name of neither is none; nor is one of another group.
    let unknown = ask(&rig, &[], json!({ "model": "poems" })).await;
    assert_eq!((unknown.status, &*kind_of(&unknown)), (StatusCode::NOT_FOUND, "no_such_model"));
    let elsewhere = [("x-pointsman-routing-group", "other")];
    assert_eq!(kind_of(&ask(&rig, &elsewhere, json!({ "model": "sql" })).await), "no_such_model");
    let listed = rig.client.get("/v1/models").await.unwrap().json();
    let ids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
    assert_eq!(ids, [json!(MODEL), json!("sql")]);
    rig.server.shutdown().await;
}
