//! Promises of the documents: what they have there is, and what there is they have.

use super::*;

/// Every (path, methods) of the router, read from its own source.
fn routes() -> BTreeSet<(String, String)> {
    let source = include_str!("../../select.rs");
    let mut routes = BTreeSet::new();
    for route in source.split(".route(").skip(1) {
        let path = route.split('"').nth(1).unwrap();
        let end = route
            .find(".route")
            .unwrap_or(route.len())
            .min(route.find(";\n").unwrap_or(route.len()));
        for method in ["get", "post", "patch", "delete"] {
            if route[..end].contains(&format!("{method}(")) {
                routes.insert((path.to_owned(), method.to_owned()));
            }
        }
    }
    routes
}

#[test]
fn the_document_has_every_route_and_no_other() {
    let document = Document::read();
    let told = document.operations().into_iter();
    let told: BTreeSet<(String, String)> =
        told.map(|(method, path, _)| (path.to_owned(), method.to_owned())).collect();
    let mut there = routes();
    there.remove(&("/openapi.json".to_owned(), "get".to_owned()));
    assert_eq!(told, there);
}

#[test]
fn every_reference_of_the_document_leads_somewhere() {
    let Document(document) = Document::read();
    let references = openapi::TEXT.split("\"$ref\": \"#").skip(1);
    let references: BTreeSet<&str> = references.filter_map(|rest| rest.split('"').next()).collect();
    assert!(references.len() > 20, "{}", references.len());
    for reference in references {
        assert!(document.pointer(reference).is_some(), "{reference}");
    }
}

#[test]
fn the_users_page_names_every_path() {
    let page = include_str!("../../../SELECTION.md");
    for (path, _) in routes() {
        assert!(page.contains(&path), "{path}");
    }
}

#[tokio::test]
async fn every_error_is_json_with_a_reason() {
    let fixture = Fixture::new().await;
    for (method, path, body, status, reason) in [
        (Method::GET, "/nowhere", Value::Null, 404, "nothing is at /nowhere"),
        (Method::PUT, "/select", json!({}), 405, "doesn't take PUT"),
        (Method::POST, "/select", Value::Null, 415, "content-type: application/json"),
        (Method::PATCH, "/workers/seven", json!({}), 400, "not a worker's id"),
        (Method::DELETE, "/reservations/none", Value::Null, 404, "isn't reserved"),
        (Method::POST, "/reservations", json!({ "selection_id": "x" }), 404, "select again"),
        (Method::POST, "/replica_sync/register_peer", json!({}), 501, "in this version"),
        (Method::POST, "/replica_sync/deregister_peer", json!({}), 501, "in this version"),
        (Method::GET, "/replica_sync/peers", Value::Null, 501, "in this version"),
    ] {
        let answer = fixture.send(method.clone(), path, &body).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {}", answer.text());
        let error = answer.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(reason), "{method} {path}: {}", answer.text());
    }
    let document = fixture.get("/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    let metrics = fixture.app().metrics.encode();
    let line = "pointsman_select_requests_total{path=\"/workers/{id}\",status=\"400\"} 1";
    assert!(metrics.contains(line) && metrics.contains("path=\"unknown\",status=\"404\""));
    fixture.stop().await;
}
