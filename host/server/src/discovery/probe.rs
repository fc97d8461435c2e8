//! One health probe: a connection of its own, one GET, and the answer's status.

use std::io;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::config::Secret;
use crate::shortage;

/// What is probed.
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

    /// Asks once. A fresh connection each time: whether one can be made is half of the question.
    /// The caller bounds the time.
    pub(super) async fn ask(&self) -> Result<(), Unasked> {
        let stream = TcpStream::connect(&self.authority)
            .await
            .map_err(|error| Unasked::connecting(&self.authority, error))?;
        Ok(self.ask_over(stream).await?)
    }

    async fn ask_over(&self, stream: TcpStream) -> Result<(), String> {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.failed(&error))?;
        let mut request = Request::get(&self.path)
            .header(header::HOST, &self.authority)
            .header(header::CONNECTION, "close");
        if let Some(Secret(token)) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| self.failed(&error))?;
        // Dropping the connection with the rest of the answer unread is fine: it is ours alone.
        let mut answer = std::pin::pin!(sender.send_request(request));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            ended = connection => match ended {
                Ok(()) => answer.await,
                Err(error) => Err(error),
            },
        };
        let status = answer.map_err(|error| self.failed(&error))?.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(format!("GET {} answered {status}", self.path))
        }
    }

    fn failed(&self, error: &dyn std::error::Error) -> String {
        format!("GET {} failed: {error}", self.path)
    }
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
