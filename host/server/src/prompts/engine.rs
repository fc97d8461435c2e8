//! Asks engines for tokens: one POST to `/tokenize` of some worker.
//!
//! Owns the connections for it, apart from those that requests are sent over, and the choice of the
//! worker: each of the ready ones in turn. Who asks bounds the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pointsman_core::fleet::{Availability, WorkerSpec};
use pointsman_core::partition::Partition;

use crate::config::Secret;
use crate::tokens::{Answer, RemoteError, TOKENIZE_PATH, Tokenize, most_answer_bytes};

/// How long an unused connection is kept: not longer than engines' web servers keep it.
const IDLE: Duration = Duration::from_secs(4);

/// The way to all engines.
#[derive(Debug)]
pub(super) struct Engines {
    client: Client<HttpConnector, Full<Bytes>>,
    authorization: Option<HeaderValue>,
    turn: AtomicUsize,
}

/// The way to one engine.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    engines: &'a Engines,
    worker: Arc<WorkerSpec>,
}

impl Engines {
    pub(super) fn new(connect_timeout: Duration, token: Option<&Secret>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(connect_timeout));
        connector.set_nodelay(true);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        let token = token.and_then(|Secret(token)| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self { client: builder.build(connector), authorization: token, turn: AtomicUsize::new(0) }
    }

    /// A ready worker of the partition, if there is one.
    pub(super) fn of(&self, partition: &Partition) -> Option<Engine<'_>> {
        let snapshot = partition.ledger().snapshot();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let workers = &snapshot.workers;
        let first = turn.checked_rem(workers.len())?;
        let mut in_turn = workers.iter().cycle().skip(first).take(workers.len());
        let worker = in_turn.find(|worker| worker.availability == Availability::Ready)?;
        Some(Engine { engines: self, worker: worker.spec.clone() })
    }
}

impl Engine<'_> {
    async fn ask(&self, question: Vec<u8>) -> Result<Vec<u8>, RemoteError> {
        let most = most_answer_bytes(&question);
        let endpoint = self.worker.endpoint.trim_end_matches('/');
        let mut request = Request::post(format!("{endpoint}{TOKENIZE_PATH}"))
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.engines.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request
            .body(Full::new(question.into()))
            .map_err(|error| RemoteError::Unreachable(error.to_string()))?;
        let sent = self.engines.client.request(request).await;
        let response = sent.map_err(|error| RemoteError::Unreachable(chain(&error)))?;
        if response.status() != StatusCode::OK {
            return Err(RemoteError::Status(response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), most).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => RemoteError::BadAnswer(format!("it has more than {most} bytes")),
            false => RemoteError::BadAnswer(error.to_string()),
        })?;
        Ok(body.to_bytes().into())
    }
}

impl Tokenize for Engine<'_> {
    fn tokenize(&self, body: Vec<u8>) -> Answer<'_> {
        Box::pin(self.ask(body))
    }
}

/// Whether an engine should have answered, so that asking it again soon is no use. What it refuses
/// it has read.
pub(super) fn is_its_fault(error: &RemoteError) -> bool {
    match error {
        RemoteError::NoQuestion => false,
        RemoteError::Status(status) => !matches!(status, 400 | 413 | 422),
        RemoteError::Unreachable(_) | RemoteError::TimedOut | RemoteError::BadAnswer(_) => true,
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
