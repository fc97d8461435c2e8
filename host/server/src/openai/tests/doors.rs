//! Who comes in, what can be asked for, and what is refused at once.

use axum::body::Body;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use pointsman_core::ids::Role;
use serde_json::{Value, json};

use super::rig::*;
use crate::config::{DisaggregationMode, Secret};
use crate::serve::testing::MODEL;

#[tokio::test]
async fn models_with_a_worker_are_listed_and_others_are_unknown() {
    let rig = Rig::new(2).await;
    let answer = rig.client.get("/v1/models").await.unwrap();
    let list = answer.json();
    assert_eq!(list.get("object"), Some(&json!("list")));
    let ids: Vec<_> =
        list["data"].as_array().unwrap().iter().filter_map(|model| model["id"].as_str()).collect();
    assert_eq!(ids, [MODEL]);
    assert_eq!(rig.client.get("/v1/models/m").await.unwrap().json()["id"], json!(MODEL));
    assert_eq!(rig.client.get("/v1/models/a/b").await.unwrap().status, StatusCode::NOT_FOUND);
    let unknown = json!({ "model": "nope", "messages": [] });
    let answer = rig.client.post("/v1/chat/completions", &unknown).await.unwrap();
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    let error = error_of(&answer);
    assert!(error["message"].as_str().unwrap().starts_with("The model `nope` does not exist"));
    assert_eq!((&error["param"], &error["type"]), (&json!("model"), &json!("no_such_model")));
    // Names come from clients: they become no labels.
    rig.comes_to_rest().await;
    assert!(!rig.server.app().metrics.encode().contains("nope"));
}

#[tokio::test]
async fn a_model_is_listed_where_some_worker_of_it_answers() {
    let ids = async |mode| {
        let rig = Rig::with(4, |_, config| {
            config.proxy.disaggregation = mode;
            let roles = [Role::Aggregated, Role::Decode, Role::Prefill, Role::Encode];
            for (worker, role) in config.workers.iter_mut().zip(roles) {
                worker.partition.model = role.as_str().into();
                worker.partition.role = role;
                worker.lora_adapters.insert(format!("{role}-adapter"));
            }
        })
        .await;
        let list = rig.client.get("/v1/models").await.unwrap().json();
        let models = list["data"].as_array().unwrap().iter();
        let ids: Vec<_> = models.map(|one| one["id"].as_str().unwrap().to_owned()).collect();
        for role in Role::ALL {
            let path = format!("/v1/models/{role}");
            let listed = ids.contains(&role.to_string());
            assert_eq!(rig.client.get(&path).await.unwrap().status == StatusCode::OK, listed);
        }
        rig.server.shutdown().await;
        ids
    };
    let [whole, decode] =
        ["aggregated", "decode"].map(|role| [role.into(), format!("{role}-adapter")]);
    assert_eq!(ids(DisaggregationMode::Auto).await, [whole.clone(), decode].concat());
    assert_eq!(ids(DisaggregationMode::Off).await, whole);
}

#[tokio::test]
async fn what_a_client_names_is_not_echoed_at_length() {
    let rig = Rig::new(1).await;
    let long = "m".repeat(50_000);
    let body = json!({ "model": "m".repeat(1 << 20), "messages": [] });
    let group = [("x-pointsman-routing-group", &*long)];
    let (post, get) = (Method::POST, Method::GET);
    let answers = [
        rig.client.send(post.clone(), "/v1/chat/completions", &[], Some(&body)).await.unwrap(),
        rig.client
            .send(post.clone(), "/v1/chat/completions", &group, Some(&chat(false)))
            .await
            .unwrap(),
        rig.client.send(get.clone(), &format!("/v1/models/{long}"), &[], None).await.unwrap(),
        rig.client.send(get, &format!("/{long}"), &[], None).await.unwrap(),
        rig.client.send(Method::DELETE, &format!("/v1/models/{long}"), &[], None).await.unwrap(),
    ];
    for answer in answers {
        assert!(answer.status.is_client_error());
        let message = error_of(&answer)["message"].as_str().unwrap().to_owned();
        assert!(message.len() < 300 && message.contains('…'), "{message}");
    }
    let answer = rig.client.get("/v1/models/%ff").await.unwrap();
    assert_eq!((answer.status.as_u16(), &*kind_of(&answer)), (400, "invalid_request"));
}

#[tokio::test]
async fn a_request_that_nothing_can_be_opened_for_is_told_to_come_again() {
    let rig = Rig::new(1).await;
    let public = crate::openai::Public::new(rig.server.app().clone());
    let ask = Request::get("/v1/models").extension(crate::serve::Beyond);
    let answer = public.respond(ask.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("router_full"));
}

#[tokio::test]
async fn an_id_that_is_not_visible_is_replaced() {
    let rig = Rig::new(1).await;
    for (given, is_kept) in
        [("a-b_c:1", true), ("a\tb", false), ("a b", false), (&*"x".repeat(257), false)]
    {
        let answer = rig.chat(&[("x-request-id", given)], true).await;
        assert!(answer.is_good(), "{}", answer.text());
        assert_eq!(answer.header("x-request-id") == given, is_kept, "{given:?}");
    }
    let answer = rig.chat(&[("x-session-id", "a\tb")], true).await;
    assert_eq!(error_of(&answer)["param"], json!("x-session-id"));
}

#[tokio::test]
async fn the_only_model_needs_no_name() {
    let rig = Rig::new(1).await;
    let body = json!({ "messages": [{ "role": "user", "content": "x" }], "stream": true });
    let answer = rig.client.post("/v1/chat/completions", &body).await.unwrap();
    assert!(answer.is_good(), "{}", answer.text());
}

#[tokio::test]
async fn what_is_not_there_is_said_in_the_apis_own_shape() {
    let rig = Rig::new(1).await;
    let ask = |method, path| rig.client.send(method, path, &[], None);
    for path in ["/", "/v2/models", "/metrics", "/v1"] {
        let answer = ask(Method::GET, path).await.unwrap();
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(kind_of(&answer), "not_found", "{path}");
    }
    let answer = ask(Method::GET, "/v1/completions").await.unwrap();
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(answer.header("allow"), "POST");
    assert_eq!(kind_of(&answer), "method_not_allowed");
    assert_eq!(ask(Method::GET, "/health").await.unwrap().status, StatusCode::OK);
    assert_eq!(rig.engines[0].stats().received, 0);
    let mut climbing = RawClient::post(&rig, "/v1/x/%2e%2e/%2e%2e/metrics", &json!({})).await;
    climbing.reads("HTTP/1.1 400").await;
}

#[tokio::test]
async fn a_method_that_nothing_takes_is_refused_with_those_that_are() {
    let rig = Rig::new(1).await;
    let ask = async |line: &str| {
        let head = format!("{line} HTTP/1.1\r\nhost: router\r\nconnection: close\r\n\r\n");
        RawClient::raw(&rig, head.as_bytes()).await.rest().await.to_ascii_lowercase()
    };
    for line in [
        "CONNECT example.com:443",
        "CONNECT 127.0.0.1:1",
        "TRACE /v1/anything",
        "TRACE /v1/completions",
        "POST /health",
        "DELETE /health",
        "PUT /v1/completions",
        "POST /v1/models",
    ] {
        let answer = ask(line).await;
        assert!(answer.starts_with("http/1.1 405"), "{line}: {answer}");
        assert!(answer.contains("\r\nallow: "), "{line}: {answer}");
        assert!(answer.contains("\"type\":\"method_not_allowed\""), "{line}: {answer}");
    }
    assert!(ask("HEAD /health").await.starts_with("http/1.1 200"));
    assert_eq!(rig.engines[0].stats().received, 0);
}

#[tokio::test]
async fn half_a_surrogate_pair_goes_to_the_worker_as_it_came() {
    let rig = Rig::new(1).await;
    let body = format!("{{\"model\":\"{MODEL}\",\"prompt\":\"a \\ud800 b\",\"stream\":true}}");
    let path = "/v1/any/path";
    rig.client.send_bytes(Method::POST, path, &[], body.clone().into()).await.unwrap();
    assert_eq!(rig.engines[0].last_request().unwrap().body, body.as_bytes());
    let path = "/v1/completions";
    let answer = rig.client.send_bytes(Method::POST, path, &[], body.clone().into()).await.unwrap();
    assert!(!answer.worker().is_empty(), "it was for the engine to judge: {}", answer.text());
    assert_eq!(rig.engines[0].last_request().unwrap().body, body.as_bytes());
}

#[tokio::test]
async fn a_body_that_is_too_large_or_no_json_is_refused() {
    let rig = Rig::with(1, |_, config| config.proxy.max_body = 1_000).await;
    let path = "/v1/completions";
    let large = json!({ "model": MODEL, "prompt": "x".repeat(2_000) });
    let answer = rig.client.post(path, &large).await.unwrap();
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(kind_of(&answer), "request_too_large");
    for bad in ["{", "[]", "\"x\"", "{\"model\":5}", ""] {
        let answer =
            rig.client.send_bytes(Method::POST, path, &[], bad.to_owned().into()).await.unwrap();
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{bad:?}");
        assert_eq!(kind_of(&answer), "invalid_request", "{bad:?}");
    }
    assert_eq!(rig.engines[0].stats().received, 0);
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn a_token_opens_the_door_and_stays_there() {
    let token = || Secret("door".to_owned());
    let rig = Rig::with(1, |_, config| config.listen.tokens = vec![token()]).await;
    let answer = rig.chat(&[], true).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(answer.header("www-authenticate"), "Bearer");
    assert_eq!(kind_of(&answer), "unauthorized");
    let opened = [("authorization", "Bearer door")];
    assert!(rig.chat(&opened, true).await.is_good());
    let sent = |rig: &Rig| {
        let got = rig.engines[0].last_request().unwrap();
        got.values("authorization").map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(sent(&rig).is_empty(), "it is the router's, not the worker's");
    let rig = Rig::with(1, |_, config| {
        config.listen.tokens = vec![token()];
        config.proxy.worker_token = Some(Secret("worker".to_owned()));
    })
    .await;
    assert!(rig.chat(&opened, true).await.is_good());
    assert_eq!(sent(&rig), ["Bearer worker"]);
    assert_eq!(rig.client.get("/health").await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn a_draining_router_takes_nothing_new() {
    let rig = Rig::new(1).await;
    rig.server.app().draining.cancel();
    // Without a socket: what becomes of connections meanwhile is the listener's business.
    let public = crate::openai::Public::new(rig.server.app().clone());
    let request = Request::post("/v1/completions").body(Body::from("{}")).unwrap();
    let answer = public.respond(request).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["connection"], "close");
    assert_eq!(answer.headers()["retry-after"], "1");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["error"]["type"], json!("draining"));
    assert_eq!(rig.engines[0].stats().received, 0);
}
