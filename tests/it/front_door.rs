//! Every route of the public listener, over real TCP.

use anyhow::Result;
use http::{Method, StatusCode};
use pointsman::load_client::Ask;
use pointsman_tests::rig::{MODEL, Plan};
use serde_json::json;

#[tokio::test]
async fn a_streamed_chat_is_decided_by_the_component_in_the_folder() -> Result<()> {
    let rig = Plan::new(2).with_least_busy()?.start().await?;
    let digest = pointsman_build::digest(&std::fs::read(pointsman_tests::guests::least_busy())?);

    let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;

    assert!(answer.is_good(), "{} {}", answer.status, answer.text());
    assert_eq!(answer.policy(), format!("it@{}", &digest[..12]));
    assert!(["1", "2"].contains(&answer.worker()), "worker {:?}", answer.worker());
    assert!(!answer.header("x-request-id").is_empty());
    let receipts = rig.admin_json("/v1/receipts?limit=1").await?;
    let receipt = &receipts["receipts"][0];
    assert_eq!(receipt["policy"]["digest"], digest);
    assert_eq!(receipt["worker_id"].to_string(), answer.worker());
    assert_eq!(receipt["fallback"], json!(null));
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn every_route_answers_as_the_engine_does() -> Result<()> {
    let rig = Plan::new(1).with_least_busy()?.start().await?;
    let chat = json!({ "model": MODEL, "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 3 });
    let cases = [
        ("/v1/chat/completions", chat, "choices"),
        (
            "/v1/completions",
            json!({ "model": MODEL, "prompt": "one two", "max_tokens": 3 }),
            "choices",
        ),
        (
            "/v1/completions",
            json!({ "model": MODEL, "prompt": [1, 2, 3], "max_tokens": 3 }),
            "choices",
        ),
        ("/v1/embeddings", json!({ "model": MODEL, "input": "one two" }), "data"),
    ];
    for (path, body, key) in cases {
        let answer = rig.public.post(path, &body).await?;
        assert!(answer.is_good(), "{path}: {} {}", answer.status, answer.text());
        assert!(answer.json()[key].is_array(), "{path}: {}", answer.text());
        assert_eq!(answer.worker(), "1", "{path}");
    }
    let models = rig.public.get("/v1/models").await?.json();
    assert_eq!(models["object"], "list");
    assert_eq!(models["data"][0]["id"], MODEL);
    assert_eq!(models["data"].as_array().unwrap().len(), 1);
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn other_paths_below_v1_reach_an_engine_and_the_rest_does_not() -> Result<()> {
    let rig = Plan::new(1).start().await?;
    // The engine knows no such path either, and says so in its own words: they come through.
    let through =
        rig.public.send(Method::POST, "/v1/rerank", &[], Some(&json!({ "model": MODEL }))).await?;
    assert_eq!(through.status, StatusCode::NOT_FOUND);
    assert_eq!(through.json()["detail"], "Not Found");
    assert_eq!(rig.engines[0].last_request().unwrap().path, "/v1/rerank");

    let outside = rig.public.get("/metrics").await?;
    assert_eq!(outside.status, StatusCode::NOT_FOUND);
    assert!(outside.json()["error"]["message"].is_string(), "{}", outside.text());
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn bad_requests_get_errors_in_the_engines_shape_and_book_nothing() -> Result<()> {
    let rig = Plan::new(1).with_least_busy()?.start().await?;
    let cases: [(&[u8], StatusCode); 5] = [
        (b"{ not json", StatusCode::BAD_REQUEST),
        (b"[]", StatusCode::BAD_REQUEST),
        (br#"{"model":7,"messages":[]}"#, StatusCode::BAD_REQUEST),
        (br#"{"model":"nobody-serves-this","messages":[]}"#, StatusCode::NOT_FOUND),
        (b"\xff\xfe", StatusCode::BAD_REQUEST),
    ];
    for (body, status) in cases {
        let answer = rig
            .public
            .send_bytes(Method::POST, "/v1/chat/completions", &[], body.to_vec().into())
            .await?;
        let text = String::from_utf8_lossy(body);
        assert_eq!(answer.status, status, "{text}: {}", answer.text());
        let error = &answer.json()["error"];
        assert!(
            error["message"].is_string() && error["type"].is_string(),
            "{text}: {}",
            answer.text()
        );
    }
    assert_eq!(rig.engines[0].stats().received, 0, "no bad request reached the engine");
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_dry_run_books_nothing_and_tells_every_row() -> Result<()> {
    let rig = Plan::new(3).with_least_busy()?.start().await?;
    let body = json!({ "model": MODEL, "messages": [{ "role": "user", "content": "where to?" }] });
    let answer = rig.admin.post("/v1/route", &body).await?;
    assert!(answer.is_good(), "{} {}", answer.status, answer.text());
    let receipt = answer.json();
    let rows = receipt["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3, "{receipt}");
    assert!(rows.iter().all(|row| row["kept"] == true && row["cost"].is_number()), "{receipt}");
    assert_eq!(rig.active_requests().await?, 0);
    assert!(rig.engines.iter().all(|engine| engine.stats().received == 0));
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_worker_that_is_the_router_itself_ends_the_request_and_not_the_router() -> Result<()> {
    let rig = Plan::new(1).start().await?;
    let own = format!("http://{}", rig.server.public_addr());
    let body = json!({ "worker_id": 9, "endpoint": own, "model": "circle" });
    let added = rig.admin.post("/v1/workers", &body).await?;
    assert!(added.status.is_success(), "{}", added.text());
    let answer = rig.public.ask(&Ask::new("circle", "hello")).await?;
    assert_eq!(answer.status, StatusCode::LOOP_DETECTED, "{}", answer.text());
    assert!(rig.public.ask(&Ask::new(MODEL, "hello")).await?.is_good());
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}
