//! Promises of the catalogue, of probes, and of who is let in.

use super::*;

#[tokio::test]
async fn a_worker_is_registered_changed_kept_by_its_lease_and_let_go() {
    let fixture = Fixture::new().await;
    let body = json!({
        "worker_id": 7, "model_name": MODEL, "endpoint": "http://127.0.0.1:9", "lease": "1h",
        "stable_routing_id": "w7", "is_eagle": false, "topology_domains": { "rack": "a" },
    });
    for _ in 0..2 {
        let answer = fixture.post("/workers", &body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
        assert_eq!(answer.json()["lifecycle"], "schedulable");
    }
    let changed = fixture.send(Method::PATCH, "/workers/7", &json!({ "taints": ["gold"] })).await;
    assert_eq!((changed.status, &changed.json()["taints"]), (StatusCode::OK, &json!(["gold"])));
    assert_eq!(fixture.good("/workers/7/heartbeat", &Value::Null).await["lease_ms"], 3_600_000);
    let wants_gold = asking(json!({ "routing_constraints": { "required_taints": ["gold"] } }));
    assert_eq!(fixture.good("/select", &wants_gold).await["worker_id"], 7);
    let odd = json!({ "worker_id": 8, "model_name": MODEL, "endpoint": "http://127.0.0.1:9", "block_size": 32 });
    assert_eq!(fixture.post("/workers", &odd).await.status, StatusCode::CONFLICT);
    let listed = fixture.get("/workers?model_name=m&routing_group=default").await;
    assert_eq!(listed.as_array().unwrap().len(), 3);
    assert_eq!(fixture.get("/workers?model_name=another").await, json!([]));
    fixture
        .good(
            "/select_and_reserve",
            &asking(json!({ "selection_id": "a", "pinned_worker": { "worker_id": 7 } })),
        )
        .await;
    let going = fixture.send(Method::DELETE, "/workers/7", &Value::Null).await;
    assert_eq!((going.status, &going.json()["lifecycle"]), (StatusCode::OK, &json!("draining")));
    let gone = fixture.send(Method::DELETE, "/workers/7?force=true", &Value::Null).await;
    assert_eq!(gone.status, StatusCode::OK);
    for (method, path) in [
        (Method::DELETE, "/workers/7"),
        (Method::PATCH, "/workers/7"),
        (Method::POST, "/workers/7/heartbeat"),
    ] {
        assert_eq!(fixture.send(method, path, &json!({})).await.status, StatusCode::NOT_FOUND);
    }
    // What was reserved on it ends in peace.
    assert_eq!(
        fixture.send(Method::DELETE, "/reservations/a", &Value::Null).await.status,
        StatusCode::OK
    );
    fixture.stop().await;
}

#[tokio::test]
async fn a_worker_without_an_endpoint_gets_nothing_until_somebody_says_where_it_is() {
    let fixture = Fixture::new().await;
    let registered =
        fixture.post("/workers", &json!({ "worker_id": 7, "model_name": "later" })).await;
    assert_eq!(
        (registered.status, &registered.json()["lifecycle"]),
        (StatusCode::CREATED, &json!("incomplete"))
    );
    assert_eq!(fixture.get("/workers?model_name=later").await[0]["lifecycle"], "incomplete");
    let ask = json!({ "model_name": "later", "token_ids": [1] });
    assert_eq!(fixture.refused("/select", &ask).await.0, 404);
    let still = fixture.send(Method::PATCH, "/workers/7", &json!({ "taints": ["a"] })).await;
    assert_eq!((still.status, &still.json()["lifecycle"]), (StatusCode::OK, &json!("incomplete")));
    let bad = fixture.send(Method::PATCH, "/workers/7", &json!({ "endpoint": "nowhere" })).await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    let whole = fixture
        .send(Method::PATCH, "/workers/7", &json!({ "endpoint": "http://127.0.0.1:9" }))
        .await;
    assert_eq!(
        (&whole.json()["lifecycle"], &whole.json()["taints"]),
        (&json!("schedulable"), &json!(["a"]))
    );
    assert_eq!(fixture.good("/select", &ask).await["worker_id"], 7);
    assert_eq!(fixture.get("/workers?model_name=later").await.as_array().unwrap().len(), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn it_is_ready_while_somebody_can_be_selected() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.get("/health").await, json!({ "status": "ok" }));
    let ready = fixture.get("/ready").await;
    assert_eq!((&ready["ready"], &ready["schedulable_workers"]), (&json!(true), &json!(2)));
    assert_eq!(ready["workers"][0]["lifecycle"], "schedulable");
    for id in [1, 2] {
        fixture.send(Method::DELETE, &format!("/workers/{id}?force=true"), &Value::Null).await;
    }
    let answer = fixture.client.get("/ready").await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.json(), json!({ "ready": false, "schedulable_workers": 0, "workers": [] }));
    fixture.app().draining.cancel();
    assert_eq!(fixture.client.get("/ready").await.unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(fixture.post("/select", &ask()).await.status, StatusCode::SERVICE_UNAVAILABLE);
    fixture.stop().await;
}

#[tokio::test]
async fn a_token_that_is_configured_is_asked_for_everywhere_but_by_probes() {
    let mut config = settings();
    config.select.as_mut().unwrap().listener.tokens = vec![Secret("door".to_owned())];
    let fixture = Fixture::with(config).await;
    for path in ["/health", "/ready", "/openapi.json"] {
        fixture.get(path).await;
    }
    for path in ["/workers", "/loads", "/dump"] {
        let refused = fixture.client.get(path).await.unwrap();
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(refused.header("www-authenticate"), "Bearer");
        let let_in = [("authorization", "Bearer door")];
        let good = fixture.client.send(Method::GET, path, &let_in, None).await.unwrap();
        assert_eq!(good.status, StatusCode::OK, "{path}");
    }
    assert_eq!(fixture.post("/select", &ask()).await.status, StatusCode::UNAUTHORIZED);
    fixture.stop().await;
}

#[tokio::test]
async fn without_tokens_strangers_are_kept_out() {
    let mut config = settings();
    config.select.as_mut().unwrap().listener.address = ([0, 0, 0, 0], 0).into();
    let refused = Server::start(config, None).await.unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("select listener") && refused.contains("select.tokens"), "{refused}");
    let fixture = Fixture::new().await;
    let host = [("host", "evil.example")];
    let answer = fixture.client.send(Method::GET, "/loads", &host, None).await.unwrap();
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text());
    fixture.stop().await;
}
