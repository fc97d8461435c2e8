//! A small API server: lists and watches of one namespace's pods and pools.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream;
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// One thing that happened.
#[derive(Clone, Debug)]
struct Happened {
    at: u64,
    plural: &'static str,
    kind: &'static str,
    object: Value,
}

/// How it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mood {
    #[default]
    Well,
    /// Errors without words.
    Fails,
    /// The account may not see them.
    Forbids,
    /// Errors as it has them, and that versions are too old.
    Gone,
    /// It lists, and ends each watch at once.
    EndsWatches,
    /// Not at all.
    Hangs,
}

#[derive(Debug, Default)]
struct Objects {
    version: u64,
    /// By plural and name.
    all: BTreeMap<(&'static str, String), Value>,
    happened: Vec<Happened>,
    /// Watches from before this are refused.
    oldest: u64,
    mood: Mood,
    asked: u64,
    cut: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    objects: Mutex<Objects>,
    changes: watch::Sender<u64>,
}

/// The server. It ends with this.
pub(super) struct ApiServer {
    shared: Arc<Shared>,
    port: u16,
    _task: JoinSet<()>,
}

impl ApiServer {
    pub(super) async fn start() -> Self {
        let shared = Arc::new(Shared { objects: Mutex::default(), changes: watch::Sender::new(0) });
        let routes = Router::new()
            .route("/api/v1/namespaces/serving/{plural}", get(objects))
            .route("/apis/inference.networking.k8s.io/v1/namespaces/serving/{plural}", get(objects))
            .with_state(shared.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { shared, port, _task: task }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The pool is so, or there is none.
    pub(super) fn pool(&self, spec: Option<Value>) {
        let object = spec.map(|spec| {
            json!({ "apiVersion": "inference.networking.k8s.io/v1",
            "kind": "InferencePool", "metadata": {}, "spec": spec })
        });
        self.set("inferencepools", "models", object);
    }

    /// A pod is so, or gone.
    pub(super) fn pod(&self, name: &str, pod: Option<Value>) {
        self.set("pods", name, pod);
    }

    /// Answers so from now on.
    pub(super) fn is(&self, mood: Mood) {
        let mut objects = self.shared.objects.lock();
        (objects.mood, objects.asked) = (mood, 0);
    }

    /// How often it was asked since it is so.
    pub(super) fn asked(&self) -> u64 {
        self.shared.objects.lock().asked
    }

    /// Breaks all watches off.
    pub(super) fn cut(&self) {
        let mut objects = self.shared.objects.lock();
        std::mem::take(&mut objects.cut).cancel();
    }

    /// Until somebody has asked since it failed, for either.
    pub(super) async fn asked_again(&self) {
        while self.asked() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(super) fn forget_events(&self) {
        let mut objects = self.shared.objects.lock();
        objects.oldest = objects.version;
        objects.happened.clear();
    }

    fn set(&self, plural: &'static str, name: &str, object: Option<Value>) {
        let mut objects = self.shared.objects.lock();
        objects.version += 1;
        let at = objects.version;
        let key = (plural, name.to_owned());
        let before = objects.all.remove(&key);
        let (kind, object) = match object {
            Some(mut object) => {
                let uid = before.as_ref().map(|before| before["metadata"]["uid"].clone());
                object["metadata"]["name"] = json!(name);
                object["metadata"]["namespace"] = json!("serving");
                object["metadata"]["uid"] = uid.unwrap_or_else(|| json!(format!("uid-{at}")));
                object["metadata"]["resourceVersion"] = json!(at.to_string());
                objects.all.insert(key, object.clone());
                (if before.is_some() { "MODIFIED" } else { "ADDED" }, object)
            }
            None => ("DELETED", before.unwrap()),
        };
        objects.happened.push(Happened { at, plural, kind, object });
        drop(objects);
        self.shared.changes.send_replace(at);
    }
}

/// A pod of the pool.
pub(super) fn pod(ip: &str, ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "labels": { "app": "engine" } },
        "status": { "podIP": ip, "conditions": [{ "type": "Ready", "status": status }] } })
}

async fn objects(
    State(shared): State<Arc<Shared>>,
    Path(plural): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let watches = query.get("watch").is_some_and(|watch| watch == "true");
    let mood = shared.objects.lock().mood;
    if mood == Mood::Hangs {
        shared.objects.lock().asked += 1;
        return std::future::pending().await;
    }
    let (cut, items, version) = {
        let mut objects = shared.objects.lock();
        objects.asked += 1;
        match mood {
            Mood::Fails => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
            Mood::Forbids => {
                return (StatusCode::FORBIDDEN, axum::Json(forbidden())).into_response();
            }
            Mood::Gone if watches => {
                return (StatusCode::GONE, axum::Json(gone())).into_response();
            }
            Mood::EndsWatches if watches => return StatusCode::OK.into_response(),
            _ => {}
        }
        let items: Vec<Value> = objects
            .all
            .iter()
            .filter(|((its, _), object)| *its == plural && selected(object, &query))
            .map(|(_, object)| object.clone())
            .collect();
        (objects.cut.clone(), items, objects.version)
    };
    if !watches {
        let list = json!({ "kind": "List", "apiVersion": "v1", "items": items,
            "metadata": { "resourceVersion": version.to_string() } });
        return axum::Json(list).into_response();
    }
    let since: u64 = query["resourceVersion"].parse().unwrap();
    let changes = shared.changes.subscribe();
    let events = stream::unfold((since, changes), move |(since, mut changes)| {
        let (shared, plural, query, cut) =
            (shared.clone(), plural.clone(), query.clone(), cut.clone());
        async move {
            loop {
                changes.mark_unchanged();
                // What happens afterwards is not told on it.
                if cut.is_cancelled() {
                    return None;
                }
                if let Some((line, at)) = next(&shared, since, &plural, &query) {
                    return Some((Ok::<_, std::io::Error>(line), (at, changes)));
                }
                tokio::select! {
                    () = cut.cancelled() => return None,
                    changed = changes.changed() => changed.unwrap(),
                }
            }
        }
    });
    Response::new(Body::from_stream(events))
}

fn next(
    shared: &Shared,
    since: u64,
    plural: &str,
    query: &HashMap<String, String>,
) -> Option<(Bytes, u64)> {
    let objects = shared.objects.lock();
    let line = |event: Value| Bytes::from(format!("{event}\n"));
    if since < objects.oldest {
        return Some((line(json!({ "type": "ERROR", "object": gone() })), u64::MAX));
    }
    let next = objects
        .happened
        .iter()
        .find(|one| one.at > since && one.plural == plural && selected(&one.object, query))?;
    Some((line(json!({ "type": next.kind, "object": next.object })), next.at))
}

fn forbidden() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "User \"system:serviceaccount:prod:router\" cannot list resource \"pods\"",
    })
}

fn gone() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
        "reason": "Expired", "code": 410, "message": "too old resource version" })
}

fn selected(object: &Value, query: &HashMap<String, String>) -> bool {
    let labels = query.get("labelSelector").map(String::as_str).unwrap_or_default();
    let labelled = labels.split(',').filter(|one| !one.is_empty()).all(|one| {
        let (key, value) = one.split_once('=').unwrap();
        object["metadata"]["labels"][key] == value
    });
    let name = query.get("fieldSelector").and_then(|one| one.strip_prefix("metadata.name="));
    labelled && name.is_none_or(|name| object["metadata"]["name"] == name)
}
