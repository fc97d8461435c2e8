//! The connections to workers, and one exchange over them.
//!
//! Owns the pool of kept-alive connections, what a request looks like on its way to a worker, and
//! how an exchange fails. A connection is driven by the task that waits for its answer, and by nobody
//! else. Dropping an exchange closes its connection, and that is how a worker learns that nobody waits
//! any more; so an exchange that isn't over on both sides never leaves its connection to another. It
//! doesn't know decisions, retries elsewhere or clients.

mod failure;
mod headers;
mod link;
mod place;
mod pool;
mod reply;
mod sent;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version, header};
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::WorkerRank;

use crate::config::Secret;
use link::Link;
use place::Place;
use pool::{Keep, Pool};
use sent::Announced;

pub(super) use failure::Failure;
pub(super) use headers::{Authorization, answer_headers, hops, ours, request_headers};
pub(super) use reply::Reply;
pub(super) use sent::Sent;

/// A request as it goes to workers, whichever it is.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    /// The path with its query, as the client sent it.
    pub(super) target: PathAndQuery,
    /// See [`request_headers`].
    pub(super) headers: HeaderMap,
    /// Shared, not copied, by every try.
    pub(super) body: Bytes,
}

/// The client of all workers.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    pool: Arc<Pool>,
    connect_timeout: Duration,
}

impl Upstream {
    /// Its connections end with it. Call it where there is a runtime.
    pub(super) fn new(connect_timeout: Duration) -> Self {
        Self { pool: Arc::new(Pool::new(Keep::USUAL)), connect_timeout }
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
    ) -> Result<Response<Reply>, Failure> {
        let endpoint = worker.endpoint.trim_end_matches('/');
        let (place, kept) = match self.pool.take(endpoint) {
            Some(known) => known,
            None => (Arc::new(Place::of(endpoint).ok_or(Failure::Endpoint)?), None),
        };
        let request = || outgoing.to(&place, worker, rank, sent);
        if let Some(link) = kept {
            match self.exchange(link, &place, request()?).await {
                Err(failure) if failure.is_stale() => again(),
                done => return done,
            }
        }
        let link = Box::pin(place.connect(self.connect_timeout)).await?;
        self.exchange(link, &place, request()?).await
    }

    async fn exchange(
        &self,
        mut link: Box<Link>,
        place: &Arc<Place>,
        request: Request<Announced>,
    ) -> Result<Response<Reply>, Failure> {
        let used = link.is_used();
        let sent = link.send(request).await;
        let mut response = sent.map_err(|error| Failure::sending(error, used))?;
        // Nothing is sent on that asks for it.
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Failure::Switching);
        }
        // Of two ways to tell where a body ends, this one counts (RFC 9112, section 6.3).
        if response.headers().contains_key(header::TRANSFER_ENCODING) {
            response.headers_mut().remove(header::CONTENT_LENGTH);
        }
        Ok(response.map(|frames| Reply::new(frames, link, place.clone(), &self.pool)))
    }
}

impl Outgoing {
    /// The request for one worker.
    fn to(
        &self,
        place: &Place,
        worker: &WorkerSpec,
        rank: WorkerRank,
        sent: &Sent,
    ) -> Result<Request<Announced>, Failure> {
        let mut request = Request::new(Announced::new(self.body.clone(), sent));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = place.path(&self.target).ok_or(Failure::Endpoint)?;
        *request.version_mut() = Version::HTTP_11;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.insert(header::HOST, place.authority());
        rank_header(headers, worker, rank);
        Ok(request)
    }
}

/// Tells a worker which of its ranks is meant. One with a single rank needs no word about it, and may not
/// know the header.
pub(super) fn rank_header(headers: &mut HeaderMap, worker: &WorkerSpec, rank: WorkerRank) {
    if worker.data_parallel_size.get() > 1 {
        headers.insert(headers::RANK, rank.dp_rank.0.into());
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

#[cfg(test)]
mod tests;
