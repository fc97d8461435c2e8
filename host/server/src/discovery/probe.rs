//! One question to a worker: a connection of its own, one GET, and the answer.
//!
//! Health probes go by the answer's status, and by whether it says that the engine sleeps; where an
//! engine publishes its cache events, and how much it has to do, is read from the answer's body.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::Secret;
use crate::shortage;

/// The longest body of a probe's answer that is looked at.
const MOST_WORDS: usize = 4 << 10;

/// How long such a body may take once the answer's head is there.
const WORDS_TIME: Duration = Duration::from_millis(500);

/// How a worker that answers a probe well is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulse {
    /// It takes requests.
    Awake,
    /// It says that it sleeps: `{"is_sleeping": true}`, as vLLM does at `/is_sleeping`. It has given
    /// up its cache.
    Asleep,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// `host:port`, as it goes into `Host`.
    authority: String,
    path: String,
    token: Option<Secret>,
}

/// Why there is no good answer.
#[derive(Debug)]
pub(super) enum Unasked {
    /// It may be the worker's fault, in these words.
    Worker(String),
    /// The router lacked something: that says nothing about the worker.
    Shortage(io::Error),
}

impl Unasked {
    fn connecting(authority: &str, error: io::Error) -> Self {
        if shortage::is_ours(&error) {
            return Self::Shortage(error);
        }
        Self::Worker(format!("can't connect to {authority}: {error}"))
    }
}

impl From<String> for Unasked {
    fn from(words: String) -> Self {
        Self::Worker(words)
    }
}

impl Target {
    /// The worker behind an endpoint; the endpoint was checked at registration.
    pub(super) fn new(endpoint: &str, path: &str, token: Option<Secret>) -> Self {
        let authority = endpoint.strip_prefix("http://").unwrap_or(endpoint);
        let authority = authority.trim_end_matches('/');
        let port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if port { authority.to_owned() } else { format!("{authority}:80") };
        Self { authority, path: path.to_owned(), token }
    }

    /// The worker's host, an IPv6 address in brackets.
    pub(super) fn host(&self) -> &str {
        self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host)
    }

    /// Probes once. The caller bounds the time.
    pub(super) async fn ask(&self) -> Result<Pulse, Unasked> {
        let (status, words) = self
            .exchange(&self.path, async |answer| {
                let status = answer.status();
                let reads = status.is_success() && is_short_json(answer.headers());
                let words =
                    async { Limited::new(answer.into_body(), MOST_WORDS).collect().await.ok() };
                let words = if reads { timeout(WORDS_TIME, words).await.ok() } else { None };
                Ok((status, words.flatten().map(|words| words.to_bytes())))
            })
            .await?;
        if !status.is_success() {
            return Err(format!("GET {} answered {status}", self.path).into());
        }
        let words = words.and_then(|words| serde_json::from_slice::<Value>(&words).ok());
        let asleep =
            words.is_some_and(|words| words.get("is_sleeping") == Some(&Value::Bool(true)));
        Ok(if asleep { Pulse::Asleep } else { Pulse::Awake })
    }

    /// Asks for what is at a path, of at most so many bytes. The caller bounds the time.
    pub(super) async fn get(
        &self,
        path: &str,
        most_bytes: usize,
    ) -> Result<(StatusCode, Bytes), Unasked> {
        self.exchange(path, async |answer| {
            let status = answer.status();
            if !status.is_success() {
                return Ok((status, Bytes::new()));
            }
            let body = Limited::new(answer.into_body(), most_bytes).collect().await;
            let body = body.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    return format!("GET {path}: the answer has more than {most_bytes} bytes");
                }
                format!("GET {path}: can't read the answer: {error}")
            })?;
            Ok((status, body.to_bytes()))
        })
        .await
    }

    /// A fresh connection each time: whether one can be made is half of the question.
    async fn exchange<T>(
        &self,
        path: &str,
        take: impl AsyncFnOnce(Response<Incoming>) -> Result<T, String>,
    ) -> Result<T, Unasked> {
        let stream = TcpStream::connect(&self.authority)
            .await
            .map_err(|error| Unasked::connecting(&self.authority, error))?;
        Ok(self.exchange_over(stream, path, take).await?)
    }

    async fn exchange_over<T>(
        &self,
        stream: TcpStream,
        path: &str,
        take: impl AsyncFnOnce(Response<Incoming>) -> Result<T, String>,
    ) -> Result<T, String> {
        let failed = |error: hyper::Error| format!("GET {path} failed: {error}");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let mut request = Request::get(path)
            .header(header::HOST, &self.authority)
            .header(header::CONNECTION, "close");
        if let Some(Secret(token)) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .body(Empty::<Bytes>::new())
            .map_err(|error| format!("GET {path} failed: {error}"))?;
        let exchange = async { take(sender.send_request(request).await.map_err(failed)?).await };
        // Dropping the connection with the rest of the answer unread is fine: it is ours alone.
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            biased;
            done = &mut exchange => done,
            ended = connection => match ended {
                Ok(()) => exchange.await,
                Err(error) => Err(failed(error)),
            },
        }
    }
}

fn is_short_json(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"))
        && length.is_some_and(|length| length <= MOST_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_without_a_port_is_probed_at_80() {
        let authority = |endpoint| Target::new(endpoint, "/health", None).authority;
        assert_eq!(authority("http://10.0.0.1:8000"), "10.0.0.1:8000");
        assert_eq!(authority("http://[::1]:8000/"), "[::1]:8000");
        assert_eq!(authority("http://engine"), "engine:80");
        assert_eq!(Target::new("http://[::1]:8000", "/", None).host(), "[::1]");
        assert_eq!(Target::new("http://engine:1", "/", None).host(), "engine");
    }

    #[test]
    fn a_router_that_can_open_nothing_more_does_not_blame_the_worker() {
        let connecting = |code| Unasked::connecting("w:80", io::Error::from_raw_os_error(code));
        assert!(matches!(connecting(23), Unasked::Shortage(_)));
        assert!(matches!(connecting(24), Unasked::Shortage(_)));
        let refused = Unasked::connecting("w:80", io::ErrorKind::ConnectionRefused.into());
        assert!(matches!(refused, Unasked::Worker(words) if words.contains("w:80")));
    }
}
