//! A small client of the OpenAI-shaped API: what the demo and the tests send traffic with.
//!
//! It reads an answer to its end and says whether it was whole. Not a benchmark tool: it keeps what
//! it read.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pointsman_core::clock::Stopwatch;
use serde_json::{Value, json};

/// An answer that doesn't end by then is an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request to `/v1/chat/completions`.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The model.
    pub model: String,
    /// What the user says.
    pub prompt: String,
    /// The session's id; sent as `x-session-id`.
    pub session: Option<String>,
    /// Whether the answer streams.
    pub stream: bool,
    /// The answer's length in tokens.
    pub max_tokens: u32,
    /// Whether the last message is a tool's result.
    pub tool_result: bool,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
}

impl Ask {
    /// A short streamed question.
    #[must_use]
    pub fn new(model: &str, prompt: impl Into<String>) -> Self {
        Self {
            model: model.to_owned(),
            prompt: prompt.into(),
            session: None,
            stream: true,
            max_tokens: 8,
            tool_result: false,
            headers: Vec::new(),
        }
    }

    fn body(&self) -> Value {
        let mut messages = vec![json!({ "role": "user", "content": self.prompt })];
        if self.tool_result {
            messages.push(json!({ "role": "assistant", "tool_calls": [
                { "id": "call_1", "type": "function", "function": { "name": "look", "arguments": "{}" } }
            ] }));
            messages.push(json!({ "role": "tool", "tool_call_id": "call_1", "content": "found" }));
        }
        json!({
            "model": self.model,
            "messages": messages,
            "stream": self.stream,
            "max_tokens": self.max_tokens,
        })
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Whether a stream ended with its terminator, or a plain answer was JSON.
    pub whole: bool,
    /// From sending to the end.
    pub took: Duration,
}

impl Answer {
    /// Whether it is what the client wanted.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.status.is_success() && self.whole
    }

    /// A header's text; empty if it isn't there.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The worker that answered.
    #[must_use]
    pub fn worker(&self) -> &str {
        self.header("x-pointsman-worker")
    }

    /// The policy that chose it, with its digest.
    #[must_use]
    pub fn policy(&self) -> &str {
        self.header("x-pointsman-policy")
    }

    /// The body as JSON; null if it isn't.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The body as text, with what isn't UTF-8 replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The request could not be made.
    #[error("the request could not be made: {0}")]
    Request(#[from] http::Error),
    /// No answer came.
    #[error("no answer: {0}")]
    Send(#[from] hyper_util::client::legacy::Error),
    /// The answer broke off.
    #[error("the answer broke off: {0}")]
    Body(#[from] hyper::Error),
    /// It took too long.
    #[error("no end of the answer within {PATIENCE:?}")]
    Patience,
}

/// The client of one listener.
#[derive(Clone, Debug)]
pub struct LoadClient {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
}

impl LoadClient {
    /// A client of the listener at `address`.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client =
            Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Self { client, base: format!("http://{address}") }
    }

    /// Asks, and reads the answer to its end.
    pub async fn ask(&self, ask: &Ask) -> Result<Answer, AskError> {
        let mut headers: Vec<(&str, &str)> =
            ask.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if let Some(session) = &ask.session {
            headers.push(("x-session-id", session));
        }
        self.send(Method::POST, "/v1/chat/completions", &headers, Some(&ask.body())).await
    }

    /// Gets a path.
    pub async fn get(&self, path: &str) -> Result<Answer, AskError> {
        self.send(Method::GET, path, &[], None).await
    }

    /// Posts JSON to a path.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, AskError> {
        self.send(Method::POST, path, &[], Some(body)).await
    }

    /// Sends anything, and reads the answer to its end.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer, AskError> {
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        self.send_bytes(method, path, headers, bytes).await
    }

    /// Sends any bytes as JSON, and reads the answer to its end.
    pub async fn send_bytes(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answer, AskError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if !body.is_empty() {
            request = request.header(http::header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body))?;
        let watch = Stopwatch::start();
        let read = async {
            let (head, body) = self.client.request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            let streams = head
                .headers
                .get(http::header::CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
            let whole = if streams {
                body.trim_ascii_end().ends_with(b"data: [DONE]")
            } else {
                serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok()
            };
            Ok(Answer {
                status: head.status,
                headers: head.headers,
                body,
                whole,
                took: watch.elapsed(),
            })
        };
        tokio::time::timeout(PATIENCE, read).await.unwrap_or(Err(AskError::Patience))
    }
}
