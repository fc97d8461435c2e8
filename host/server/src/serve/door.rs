//! One listener: accepts connections, and serves them until they end or are ended.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::ServeError;
use super::tls;
use crate::config::Listener;

/// Connections that wait to be accepted. A burst of a thousand clients is a usual day.
const BACKLOG: u32 = 4_096;

/// How long a client may take for a TLS handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// How long a client may take for a request's head, the time between two requests included. Longer
/// than the minute for which load balancers keep idle connections: they should be the ones to close.
const HEAD_PATIENCE: Duration = Duration::from_secs(75);

/// When no connection can be accepted (no descriptors, mostly), trying again at once helps nobody.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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

/// A listener that is bound.
#[derive(Debug)]
pub(super) struct Door {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    patience: Duration,
}

/// The acceptor shows nothing of itself.
#[derive(Clone)]
struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Door {
    /// Binds and listens. A client that leaves what is sent to it unread for longer than `patience`
    /// is cut off.
    pub(super) fn open(config: &Listener, patience: Duration) -> Result<Self, ServeError> {
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?.map(Tls);
        let address = config.address;
        let listen = || {
            let socket =
                if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            let listener = socket.listen(BACKLOG)?;
            let bound = listener.local_addr()?;
            Ok((listener, bound))
        };
        let (listener, address) =
            listen().map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { listener, address, tls, patience })
    }

    /// Where it listens, with the port that it really got.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts until cut off. A connection that comes before the draining goes to `served`, a
    /// later one to `late`: it is still answered, but nobody waits for it.
    pub(super) async fn serve(
        self,
        router: Router,
        ends: Ends,
        served: TaskTracker,
        late: TaskTracker,
    ) {
        loop {
            let accepted = tokio::select! {
                () = ends.cut.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(address = %self.address, %error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let tracker = if ends.draining.is_cancelled() { &late } else { &served };
            let connection = connection(
                with_patience(stream, self.patience),
                self.tls.clone(),
                router.clone(),
                ends.clone(),
                Owned { tracker: tracker.clone(), cut: ends.cut.clone() },
            );
            tracker.spawn(connection);
        }
    }
}

/// A connection whose writes end in an error when they make no progress. While a write waits,
/// nothing asks an answer's body for more, so that none of the body's own time limits would end it.
type Patient = Pin<Box<TimeoutStream<TcpStream>>>;

fn with_patience(stream: TcpStream, patience: Duration) -> Patient {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its small writes back");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(patience));
    Box::pin(stream)
}

async fn connection(stream: Patient, tls: Option<Tls>, router: Router, ends: Ends, owned: Owned) {
    let Some(Tls(acceptor)) = tls else {
        return exchange(stream, router, ends, owned).await;
    };
    let accepted = tokio::select! {
        () = ends.cut.cancelled() => return,
        accepted = timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)) => accepted,
    };
    match accepted {
        Ok(Ok(stream)) => exchange(stream, router, ends, owned).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn exchange<S>(stream: S, router: Router, ends: Ends, owned: Owned)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // A latecomer is still told that the router is stopping, and then hung up on.
    let mut told = ends.draining.is_cancelled();
    let mut builder = Builder::new(owned);
    builder.http1().keep_alive(!told);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MOST_STREAMS);
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    loop {
        let ended = tokio::select! {
            () = ends.cut.cancelled() => return,
            () = ends.draining.cancelled(), if !told => None,
            ended = connection.as_mut() => Some(ended),
        };
        match ended {
            // What is in flight goes on; then the connection ends by itself.
            None => {
                told = true;
                connection.as_mut().graceful_shutdown();
            }
            Some(Ok(())) => return,
            // Clients hang up as they like: nothing for an operator.
            Some(Err(error)) => return tracing::debug!(%error, "a connection ended early"),
        }
    }
}

/// Runs what a connection spawns (the streams of HTTP/2), so that it ends with everything else.
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
