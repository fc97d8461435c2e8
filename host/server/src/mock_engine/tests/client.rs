//! A minimal HTTP client: one connection, one request at a time, nothing hidden.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// A connection. Dropped, it is closed at once.
pub(super) struct Client {
    sender: SendRequest<Full<Bytes>>,
    /// Its one task ends with it.
    _connection: JoinSet<()>,
}

/// An answer read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// An answer whose head has arrived.
pub(super) struct Started {
    pub(super) headers: HeaderMap,
    body: Incoming,
}

impl Started {
    /// The next piece of the body: `None` at its proper end, an error when it breaks off.
    pub(super) async fn piece(&mut self) -> Option<Result<String, hyper::Error>> {
        let frame = self.body.frame().await?;
        Some(frame.map(|frame| String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()))
    }

    /// Everything up to the end, and whether that was a proper one.
    pub(super) async fn rest(&mut self) -> (String, bool) {
        let mut text = String::new();
        loop {
            match self.piece().await {
                Some(Ok(piece)) => text.push_str(&piece),
                Some(Err(_)) => return (text, false),
                None => return (text, true),
            }
        }
    }

    /// Reads until so many events have arrived.
    pub(super) async fn events(&mut self, count: usize) -> String {
        let mut text = String::new();
        while text.matches("\n\n").count() < count {
            text.push_str(&self.piece().await.unwrap().unwrap());
        }
        text
    }
}

impl Client {
    pub(super) async fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(connection.await) });
        Self { sender, _connection: tasks }
    }

    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Started> {
        self.sender.ready().await?;
        let (parts, body) = self.sender.send_request(request).await?.into_parts();
        Ok(Started { headers: parts.headers, body })
    }

    pub(super) async fn whole(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Answer> {
        self.sender.ready().await?;
        let (parts, body) = self.sender.send_request(request).await?.into_parts();
        let text = String::from_utf8(body.collect().await?.to_bytes().to_vec()).unwrap();
        Ok(Answer { status: parts.status, headers: parts.headers, text })
    }

    pub(super) async fn get(&mut self, path: &str) -> Answer {
        self.whole(request(Method::GET, path, "")).await.unwrap()
    }

    pub(super) async fn post(&mut self, path: &str, body: &str) -> Answer {
        self.whole(request(Method::POST, path, body)).await.unwrap()
    }
}

pub(super) fn request(method: Method, path: &str, body: &str) -> Request<Full<Bytes>> {
    let builder = Request::builder().method(method).uri(path).header("host", "mock");
    builder
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap()
}

/// A streamed chat of so many tokens.
pub(super) fn chat_stream(tokens: u32) -> Request<Full<Bytes>> {
    let body = format!(
        r#"{{"model":"tiny-llama","messages":[{{"role":"user","content":"hi"}}],"max_tokens":{tokens},"stream":true}}"#
    );
    request(Method::POST, "/v1/chat/completions", &body)
}

/// A chat of so many tokens, in one piece.
pub(super) fn chat(tokens: u32) -> Request<Full<Bytes>> {
    let body =
        format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],"max_tokens":{tokens}}}"#);
    request(Method::POST, "/v1/chat/completions", &body)
}

/// Sends a streamed chat over a bare socket and reads to the end of the connection: what came, and how it ended.
pub(super) async fn raw_chat(addr: SocketAddr) -> (String, std::io::Result<usize>) {
    let body = r#"{"messages":[{"role":"user","content":"hi"}],"max_tokens":8,"stream":true}"#;
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).await;
    (String::from_utf8(bytes).unwrap(), ended)
}
