//! The connections to workers, and one exchange over them.
//!
//! Owns the pool of kept-alive connections, what a request looks like on its way to a worker, and
//! how an exchange fails. Dropping an exchange closes its connection, and that is how a worker
//! learns that nobody waits any more. It doesn't know decisions, retries elsewhere or clients.

mod connector;
mod failure;
mod headers;
mod sent;

use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::WorkerRank;

use crate::config::Secret;
use connector::{Connector, Used};
use sent::Announced;

pub(super) use failure::Failure;
pub(super) use headers::{Authorization, answer_headers, hops, request_headers};
pub(super) use sent::Sent;

/// How long an unused connection is kept. The web server of most engines closes its own after five
/// seconds, and a connection that is closed while a request is on its way costs a second try.
const IDLE: Duration = Duration::from_secs(4);

/// A request as it goes to workers, whichever it is.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    /// The path with its query, as the client sent it.
    pub(super) target: String,
    /// See [`request_headers`].
    pub(super) headers: HeaderMap,
    /// Shared, not copied, by every try.
    pub(super) body: Bytes,
}

/// The client of all workers.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    pooled: Client<Connector, Announced>,
    /// Makes a connection for each request: for one that an old connection failed.
    fresh: Client<Connector, Announced>,
}

impl Upstream {
    pub(super) fn new(connect_timeout: Duration) -> Self {
        let connector = Connector::new(connect_timeout);
        // The tasks that the pool starts end with their connections, and those with the pool.
        let mut builder = Client::builder(TokioExecutor::new());
        builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        let pooled = builder.build(connector.clone());
        let fresh = builder.pool_max_idle_per_host(0).build(connector);
        Self { pooled, fresh }
    }

    /// Sends a request to a worker and waits for the head of its answer. A connection that was idle
    /// may turn out to be closed just when the request goes out: then the same worker is asked once
    /// more, over a new one.
    pub(super) async fn send(
        &self,
        outgoing: &Outgoing,
        worker: &WorkerSpec,
        rank: WorkerRank,
        sent: &Sent,
        again: impl FnOnce(),
    ) -> Result<Response<Incoming>, Failure> {
        let request = outgoing.to(worker, rank, sent)?;
        match exchange(&self.pooled, request).await {
            Err(failure) if failure.is_stale() => {
                again();
                exchange(&self.fresh, outgoing.to(worker, rank, sent)?).await
            }
            done => done,
        }
    }
}

async fn exchange(
    client: &Client<Connector, Announced>,
    request: Request<Announced>,
) -> Result<Response<Incoming>, Failure> {
    let mut response = client.request(request).await.map_err(Failure::sending)?;
    // Nothing is sent on that asks for it.
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Failure::Switching);
    }
    // Of two ways to tell where a body ends, this one counts (RFC 9112, section 6.3).
    if response.headers().contains_key(header::TRANSFER_ENCODING) {
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    if let Some(used) = response.extensions().get::<Used>() {
        used.mark();
    }
    Ok(response)
}

impl Outgoing {
    /// The request for one worker.
    fn to(
        &self,
        worker: &WorkerSpec,
        rank: WorkerRank,
        sent: &Sent,
    ) -> Result<Request<Announced>, Failure> {
        let endpoint = worker.endpoint.trim_end_matches('/');
        let uri: Uri =
            format!("{endpoint}{}", self.target).parse().map_err(|_| Failure::Endpoint)?;
        let mut request = Request::new(Announced::new(self.body.clone(), sent));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_11;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        // A worker with one rank needs no word about it, and may not know the header.
        if worker.data_parallel_size.get() > 1 {
            headers.insert(headers::RANK, rank.dp_rank.0.into());
        }
        Ok(request)
    }
}

/// What a worker is told about who asks.
pub(super) fn authorization(token: Option<&Secret>, router_has_tokens: bool) -> Authorization {
    match token {
        Some(Secret(token)) => Authorization::worker(token),
        // What opened the router's door is the router's alone.
        None if router_has_tokens => Authorization::None,
        None => Authorization::Client,
    }
}
