//! Promises about clients that hang up midway.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tower::ServiceExt;

use super::*;

fn request(path: &str, body: &Value) -> Request<Body> {
    let request = Request::post(path).header("content-type", "application/json");
    request.body(Body::from(body.to_string())).unwrap()
}

#[tokio::test]
async fn what_nobody_can_be_told_of_is_given_back_at_once() {
    let fixture = Fixture::new().await;
    let (app, config) = (fixture.app().clone(), settings().select.unwrap());
    let select = asking(json!({ "selection_id": "a" }));
    fixture.good("/select", &asking(json!({ "selection_id": "c" }))).await;
    let batch = json!({ "requests": [ask(), ask()] });
    let booking = json!({ "selection_id": "c", "model_name": MODEL });
    for (path, body) in [
        ("/select_and_reserve", select),
        ("/select_and_reserve/batch", batch),
        ("/reservations", booking),
    ] {
        let router = router(app.clone(), config.clone());
        let answer = router.oneshot(request(path, &body)).await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        assert!(!app.selections.is_empty(), "{path}");
        // Its connection is gone before any of it is sent.
        drop(answer);
        assert!(app.selections.is_empty(), "{path}");
        assert_eq!(fixture.loads().await, IDLE, "{path}");
    }
    let told = router(app.clone(), config).oneshot(request("/select_and_reserve", &ask())).await;
    told.unwrap().into_body().collect().await.unwrap();
    assert_eq!(app.selections.len(), 1, "whoever was told has it");
    assert!(app.metrics.encode().contains("pointsman_reservations_abandoned_total 4"));
    fixture.stop().await;
}

#[tokio::test]
async fn who_has_a_name_by_now_keeps_it_when_an_earlier_owner_of_it_could_not_be_told() {
    let fixture = Fixture::new().await;
    let (app, config) = (fixture.app().clone(), settings().select.unwrap());
    let select = asking(json!({ "selection_id": "a" }));
    let untold = router(app.clone(), config).oneshot(request("/select_and_reserve", &select)).await;
    let freed = fixture.send(Method::DELETE, "/reservations/a", &Value::Null).await;
    assert_eq!(freed.status, StatusCode::OK);
    fixture.good("/select_and_reserve", &select).await;
    // Only now the first one's connection is found to be gone.
    drop(untold.unwrap());
    assert_eq!(fixture.get("/reservations/a").await["selection_id"], json!("a"));
    assert_eq!(app.selections.len(), 1);
    assert!(app.metrics.encode().contains("pointsman_reservations_abandoned_total 0"));
    fixture.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_the_line_leaves_nothing_behind() {
    let mut config = settings();
    config.queue = Arc::new(pointsman_core::queue::QueueSettings {
        default: Arc::new(pointsman_core::queue::Profile::of_threshold(
            Some(0.0),
            pointsman_core::queue::QueuePolicy::default(),
        )),
        ..Default::default()
    });
    let fixture = Fixture::with(config).await;
    for id in ["a", "b"] {
        fixture.good("/select_and_reserve", &asking(json!({ "selection_id": id }))).await;
    }
    let pending = async || fixture.get("/loads").await[0]["pending_count"].as_u64().unwrap();
    let waits_for = async |wanted: u64| {
        let wait = async {
            while pending().await != wanted {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), wait).await.unwrap();
    };
    let mut client = TcpStream::connect(fixture.server.select_addr().unwrap()).await.unwrap();
    let body = ask().to_string();
    let head = format!(
        "POST /select_and_reserve HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    waits_for(1).await;
    drop(client);
    waits_for(0).await;
    for id in ["a", "b"] {
        let path = format!("/reservations/{id}");
        assert_eq!(fixture.send(Method::DELETE, &path, &Value::Null).await.status, StatusCode::OK);
    }
    assert_eq!((fixture.loads().await, fixture.app().selections.len()), (IDLE.to_vec(), 0));
    fixture.stop().await;
}
