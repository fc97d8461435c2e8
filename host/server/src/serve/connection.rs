//! One connection: from its first byte to its end, whoever ends it.
//!
//! Owns the handshake, what is spoken then, and the ends: a client that hangs up, one that has no request
//! in flight for too long, one whose place is wanted, the drain, and the cut. A task is as large as the
//! largest of its branches, so what few connections need stands in memory of its own. It doesn't know what
//! the requests are.

use std::convert::Infallible;
use std::fmt::Display;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use http::Request;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::aside::Aside;
use super::crowd::{Beyond, InFlight, Place};
use super::streams::{Begun, Streams};
use super::version::{Version, find_out};
use super::wire::{HangUp, Wire};

/// How long a client may take for a TLS handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// Streams of one HTTP/2 connection that may be open at once.
const MOST_STREAMS: u32 = 1_024;

/// What ends connections.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// No further request on this connection.
    pub(super) draining: CancellationToken,
    /// No further byte.
    pub(super) cut: CancellationToken,
}

/// How long clients are waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// A write that makes no progress.
    pub(super) write: Duration,
    /// No request in flight: the first bytes, a request's head, and the time between two requests.
    /// Longer than the minute for which load balancers keep idle connections: they should be the
    /// ones to close.
    pub(super) idle: Duration,
    /// After HTTP/2's word that no further request is taken, or in HTTP/1 in the middle of a head.
    pub(super) farewell: Duration,
    /// Between two pings over HTTP/2, and for the answer to one: a client that is gone without a
    /// word would hold its streams.
    pub(super) ping: Duration,
}

impl Patience {
    /// As usual, but for the writes.
    pub(super) fn with_writes(write: Duration) -> Self {
        Self {
            write,
            idle: Duration::from_secs(75),
            farewell: Duration::from_secs(1),
            ping: Duration::from_secs(20),
        }
    }
}

/// Answers requests, however they came.
pub(crate) trait Answers: Clone + Send + Sync + 'static {
    /// Whether the streams of an HTTP/2 connection are worked on in its own task. Where each stream is many
    /// small messages to and fro, to wake another task for each costs more than what it does; where one takes
    /// its time, it must not keep the others waiting.
    const IN_ONE_TASK: bool = false;

    /// The answer.
    fn answer(self, request: Request<Incoming>) -> impl Future<Output = Response> + Send + 'static;
}

impl Answers for Router {
    async fn answer(self, request: Request<Incoming>) -> Response {
        self.oneshot(request).await.unwrap_or_else(|never| match never {})
    }
}

/// What a connection is served with.
#[derive(Clone)]
pub(super) struct Service<A> {
    pub(super) answers: A,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) ends: Ends,
    pub(super) patience: Patience,
}

/// Serves a connection until it ends. What it spawns goes to `tracker`.
pub(super) async fn serve<A: Answers>(
    stream: TcpStream,
    place: Place,
    service: Service<A>,
    tracker: TaskTracker,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its small writes back");
    }
    let (wire, hang_up) = Wire::new(stream, place.presence().clone());
    // While a write waits, nothing asks an answer's body for more, so that none of the body's own
    // time limits would end it.
    let mut patient = TimeoutStream::new(wire);
    patient.set_write_timeout(Some(service.patience.write));
    let stream = Box::pin(patient);
    let Some(acceptor) = service.tls.clone() else {
        return greet(stream, hang_up, place, service, tracker).await;
    };
    let accepted = acceptor.accept(stream);
    match service.in_time(&place, HANDSHAKE_PATIENCE, accepted).await {
        // Most have no TLS.
        Some(Ok(stream)) => Box::pin(greet(stream, hang_up, place, service, tracker)).await,
        Some(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        None => tracing::debug!("a TLS handshake wasn't completed"),
    }
}

impl<A> Service<A> {
    /// Waits for what a client has to do before its first request. None if it takes too long, or if
    /// something ends the connection meanwhile.
    async fn in_time<T>(
        &self,
        place: &Place,
        most: Duration,
        begun: impl Future<Output = T>,
    ) -> Option<T> {
        let drained = async {
            self.ends.draining.cancelled().await;
            sleep(self.patience.farewell).await;
        };
        tokio::select! {
            () = self.ends.cut.cancelled() => None,
            () = drained => None,
            () = place.presence().is_asked() => None,
            begun = timeout(most, begun) => begun.ok(),
        }
    }
}

/// Finds out which HTTP the client speaks, and speaks it.
async fn greet<S, A>(
    stream: S,
    hang_up: HangUp,
    place: Place,
    service: Service<A>,
    tracker: TaskTracker,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Answers,
{
    let (version, stream) =
        match service.in_time(&place, service.patience.idle, find_out(stream)).await {
            Some(Ok((version, stream))) => (version, TokioIo::new(stream)),
            Some(Err(error)) => {
                return tracing::debug!(%error, "a connection ended before its first byte");
            }
            None => return tracing::debug!("a connection was closed before its first byte"),
        };
    let Service { answers, ends, patience, .. } = service;
    // A latecomer is still told that the router is stopping, and then hung up on.
    let told = ends.draining.is_cancelled();
    let place = Arc::new(place);
    let seen = place.clone();
    let answers = service_fn(move |mut request: Request<Incoming>| {
        let here = seen.request();
        if here.is_beyond() {
            request.extensions_mut().insert(Beyond);
        }
        let answer = answers.clone().answer(request);
        async move {
            let answer = answer.await;
            Ok::<_, Infallible>(answer.map(|body| Answering { body, _here: here }))
        }
    });
    let exchange = Exchange { hang_up, place, ends, patience, told };
    match version {
        Version::One => {
            let mut http = http1::Builder::new();
            // Heads have their time in the exchange, with all else that isn't a request in flight.
            http.keep_alive(!told).timer(TokioTimer::new()).header_read_timeout(None);
            // Whether the client is still there is watched beside the bytes: so no read that finds none, and
            // no buffer for it, while an answer is waited for.
            http.half_close(true);
            let connection = pin!(http.serve_connection(stream, answers));
            exchange.go_on(connection, Streams::default()).await;
        }
        Version::Two => {
            let streams = Streams::default();
            let mut http = http2::Builder::new(match A::IN_ONE_TASK {
                true => Executing::Here(streams.begun()),
                false => Executing::Spawned(Owned { tracker, cut: exchange.ends.cut.clone() }),
            });
            http.timer(TokioTimer::new()).max_concurrent_streams(MOST_STREAMS);
            http.keep_alive_interval(patience.ping).keep_alive_timeout(patience.ping);
            // And if they have it, many streams.
            let mut connection = Box::pin(http.serve_connection(stream, answers));
            Box::pin(exchange.go_on(connection.as_mut(), streams)).await;
        }
    }
}

/// Requests and answers of one connection.
struct Exchange {
    hang_up: HangUp,
    place: Arc<Place>,
    ends: Ends,
    patience: Patience,
    /// The client was told, or will be with its first answer, that this is the end.
    told: bool,
}

impl Exchange {
    /// Goes on until the connection ends.
    async fn go_on<C>(self, mut connection: Pin<&mut C>, mut streams: Streams)
    where
        C: GracefulConnection,
        C::Error: Display,
    {
        let Self { hang_up, place, ends, patience, mut told } = self;
        let presence = place.presence().clone();
        let mut gone = false;
        let mut hung_up = pin!(hang_up.wait());
        let most = if told { patience.farewell } else { patience.idle };
        let since = presence.idleness().map_or_else(Instant::now, |(_, since)| since);
        let mut idle = pin!(sleep_until(since + most));
        loop {
            let event = {
                let event = pin!(async {
                    tokio::select! {
                        biased;
                        () = ends.cut.cancelled() => Event::Cut,
                        () = &mut hung_up, if !gone => Event::Gone,
                        () = ends.draining.cancelled(), if !told => Event::Draining,
                        () = presence.is_asked() => Event::Asked,
                        () = &mut idle => Event::Idle,
                    }
                });
                let served = std::future::poll_fn(|cx| {
                    let ended = connection.as_mut().poll(cx);
                    streams.poll(cx);
                    match ended {
                        Poll::Ready(ended) => Poll::Ready(Some(ended)),
                        // Nobody is there for the answer.
                        Poll::Pending if gone && presence.is_busy() => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                });
                tokio::select! {
                    biased;
                    ended = served => return match ended {
                        Some(Ok(())) => {}
                        // Clients hang up as they like: nothing for an operator.
                        Some(Err(error)) => tracing::debug!(%error, "a connection ended early"),
                        None => tracing::debug!("a client hung up before its answer"),
                    },
                    event = Aside::new(event) => event,
                }
            };
            match event {
                Event::Cut => return,
                Event::Gone => gone = true,
                Event::Draining => {
                    // What is in flight goes on; then the connection ends by itself.
                    told = true;
                    connection.as_mut().graceful_shutdown();
                    idle.as_mut().reset(Instant::now() + patience.farewell);
                }
                Event::Asked => {
                    if !presence.is_busy() {
                        return tracing::debug!("an idle connection gave its place to another");
                    }
                    place.keep();
                }
                Event::Idle => {
                    let now = Instant::now();
                    let most = if told { patience.farewell } else { patience.idle };
                    match presence.idleness() {
                        Some((_, since)) if since + most <= now && told => {
                            return tracing::debug!("an idle connection was closed");
                        }
                        Some((_, since)) if since + most <= now => {
                            told = true;
                            connection.as_mut().graceful_shutdown();
                            idle.as_mut().reset(now + patience.farewell);
                        }
                        Some((_, since)) => idle.as_mut().reset(since + most),
                        // It can't have been idle for long before this has passed.
                        None => idle.as_mut().reset(now + most),
                    }
                }
            }
        }
    }
}

/// What happens to a connection beside its bytes.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// No further byte.
    Cut,
    /// The client has closed its side.
    Gone,
    /// No further request.
    Draining,
    /// Its place is wanted.
    Asked,
    /// It may have been idle for too long.
    Idle,
}

/// An answer's body: the request is in flight until it is dropped.
struct Answering {
    body: Body,
    _here: InFlight,
}

impl http_body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Runs what a connection spawns, the streams of HTTP/2.
#[derive(Clone)]
enum Executing {
    Spawned(Owned),
    Here(Begun),
}

impl<F> Executor<F> for Executing
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        match self {
            Self::Spawned(owned) => owned.execute(future),
            Self::Here(begun) => begun.execute(future),
        }
    }
}

/// Runs it so that it ends with everything else.
#[derive(Clone, Debug)]
struct Owned {
    tracker: TaskTracker,
    cut: CancellationToken,
}

impl<F> Executor<F> for Owned
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let cut = self.cut.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = cut.cancelled() => {}
                _ = future => {}
            }
        });
    }
}
