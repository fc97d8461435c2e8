//! A small registry for tests: what it holds, and how it misbehaves, is up to them.

#![expect(clippy::unwrap_used, reason = "a test's panic is its message")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::hex;

/// The repository of all tests.
pub(crate) const REPOSITORY: &str = "acme/least-busy";

/// The name and the password that it may want, as Basic has them: `user:pass word`.
const BASIC: &str = "Basic dXNlcjpwYXNzIHdvcmQ=";

/// What stands at a path.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    /// This.
    Whole(Vec<u8>),
    /// This, with a digest of another.
    Called(Vec<u8>, String),
    /// This, though more was announced.
    Short(Vec<u8>, usize),
    /// Zeroes without an end, and without a length.
    Endless,
    /// A place elsewhere.
    Elsewhere(String),
    /// Nothing, ever.
    Silence,
}

#[derive(Debug, Default)]
struct Shared {
    held: Mutex<BTreeMap<String, Held>>,
    /// The path and the authorization of each question.
    seen: Mutex<Vec<(String, Option<String>)>>,
    /// Whether it wants a token; and whether that is had for a name and a password alone.
    challenge: Mutex<Option<String>>,
    private: Mutex<bool>,
}

/// The registry. It ends with it.
#[derive(Debug)]
pub(crate) struct Registry {
    address: String,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl Registry {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared::default());
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, _tasks: tasks }
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A reference to what is under a tag, or a digest with its `@`.
    pub(crate) fn reference(&self, rest: &str) -> String {
        format!("{}/{REPOSITORY}{rest}", self.address)
    }

    /// Puts something at a path.
    pub(crate) fn hold(&self, path: &str, held: Held) {
        self.shared.held.lock().insert(path.to_owned(), held);
    }

    /// Puts a blob there, and gives its descriptor.
    pub(crate) fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = sha256(bytes);
        self.hold(&blob_path(&digest), Held::Whole(bytes.to_owned()));
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    /// Puts a manifest there, under a tag and its digest, which it gives with its `sha256:`.
    pub(crate) fn manifest(&self, tag: &str, manifest: &Value) -> String {
        let bytes = manifest.to_string().into_bytes();
        let digest = sha256(&bytes);
        for name in [tag, &digest] {
            self.hold(&manifest_path(name), Held::Whole(bytes.clone()));
        }
        digest
    }

    /// Puts a component there, under a tag.
    pub(crate) fn component(&self, tag: &str, bytes: &[u8]) -> String {
        let layer = self.blob("application/wasm", bytes);
        self.manifest(tag, &of_layers(&[layer]))
    }

    /// From now on it asks for a token; if `private`, of which it knows the owner.
    pub(crate) fn challenge(&self, private: bool) {
        let realm = format!("http://{}/token", self.address);
        let text = format!("Bearer realm=\"{realm}\",service=\"made up\"");
        *self.shared.challenge.lock() = Some(text);
        *self.shared.private.lock() = private;
    }

    /// From now on it asks so.
    pub(crate) fn challenge_by(&self, text: &str) {
        *self.shared.challenge.lock() = Some(text.to_owned());
    }

    /// What it was asked, with what authorization.
    pub(crate) fn seen(&self) -> Vec<(String, Option<String>)> {
        self.shared.seen.lock().clone()
    }
}

/// A manifest of these layers.
pub(crate) fn of_layers(layers: &[Value]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": { "mediaType": "application/vnd.wasm.config.v0+json", "digest": sha256(b"{}"), "size": 2 },
        "layers": layers,
    })
}

pub(crate) fn manifest_path(name: &str) -> String {
    format!("/v2/{REPOSITORY}/manifests/{name}")
}

pub(crate) fn blob_path(digest: &str) -> String {
    format!("/v2/{REPOSITORY}/blobs/{digest}")
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path_and_query().unwrap().to_string();
    let authorization = request.headers().get(header::AUTHORIZATION);
    let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
    shared.seen.lock().push((path.clone(), authorization.clone()));
    let private = *shared.private.lock();
    if path.starts_with("/token?") {
        if private && authorization.as_deref() != Some(BASIC) {
            return complaint(StatusCode::UNAUTHORIZED, "who are you?");
        }
        return Response::new(Body::from(r#"{"token":"secret-token"}"#));
    }
    if let Some(challenge) = shared.challenge.lock().clone()
        && !path.starts_with("/store/")
        && !matches!(authorization.as_deref(), Some("Bearer secret-token" | BASIC))
    {
        let mut response = complaint(StatusCode::UNAUTHORIZED, "authentication required");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.parse().unwrap());
        return response;
    }
    let held = shared.held.lock().get(&path).cloned();
    let response = Response::builder();
    match held {
        None => complaint(StatusCode::NOT_FOUND, "manifest unknown"),
        Some(Held::Whole(bytes)) => {
            let digest = sha256(&bytes);
            response.header("docker-content-digest", digest).body(Body::from(bytes)).unwrap()
        }
        Some(Held::Called(bytes, digest)) => {
            response.header("docker-content-digest", digest).body(Body::from(bytes)).unwrap()
        }
        Some(Held::Short(bytes, length)) => {
            // A stream, so that its length isn't known.
            let body = stream::iter([Ok::<_, std::io::Error>(Bytes::from(bytes))]);
            let response = response.header(header::CONTENT_LENGTH, length);
            response.body(Body::from_stream(body)).unwrap()
        }
        Some(Held::Endless) => {
            let zeroes = || Ok::<_, std::io::Error>(Bytes::from_static(&[0; 4_096]));
            Response::new(Body::from_stream(stream::repeat_with(zeroes).boxed()))
        }
        Some(Held::Elsewhere(to)) => {
            let response = response.status(StatusCode::TEMPORARY_REDIRECT);
            response.header(header::LOCATION, to).body(Body::empty()).unwrap()
        }
        Some(Held::Silence) => {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Response::new(Body::empty())
        }
    }
}

fn complaint(status: StatusCode, message: &str) -> Response {
    let body = json!({ "errors": [{ "code": "MADE_UP", "message": message }] });
    Response::builder().status(status).body(Body::from(body.to_string())).unwrap()
}
