//! One listener: accepts connections, and gives each its place.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::connection::{self, Answers, Ends, Patience, Service};
use super::crowd::Crowd;
use super::error::ServeError;
use super::tls;
use crate::config::Listener;
use crate::shortage;

/// Connections that wait to be accepted. A burst of a thousand clients is a usual day.
const BACKLOG: u32 = 4_096;

/// When no connection can be accepted (no descriptors, mostly), trying again at once helps nobody.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener that is bound.
pub(super) struct Door {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    patience: Patience,
    crowd: Arc<Crowd>,
}

/// The acceptor shows nothing of itself.
impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { address, tls, patience, .. } = self;
        let tls = tls.is_some();
        f.debug_struct("Door")
            .field("address", address)
            .field("tls", &tls)
            .field("patience", patience)
            .finish_non_exhaustive()
    }
}

impl Door {
    /// Binds and listens.
    pub(super) fn open(
        config: &Listener,
        patience: Patience,
        crowd: Arc<Crowd>,
    ) -> Result<Self, ServeError> {
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
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
        Ok(Self { listener, address, tls, patience, crowd })
    }

    /// Where it listens, with the port that it really got.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts until cut off. A connection that comes before the draining goes to `served`, a
    /// later one to `late`: it is still answered, but nobody waits for it. Where nothing can be
    /// opened any more, those of `clients` make room that have nothing to lose.
    pub(super) async fn serve<A: Answers>(
        self,
        answers: A,
        ends: Ends,
        [served, late]: [TaskTracker; 2],
        clients: Arc<Crowd>,
    ) {
        let Self { listener, address, tls, patience, crowd } = self;
        let service = Service { answers, tls, ends: ends.clone(), patience };
        loop {
            let accepted = tokio::select! {
                () = ends.cut.cancelled() => return,
                accepted = accept(&listener) => accepted,
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    if shortage::is_ours(&error) {
                        clients.make_room();
                    }
                    if crowd.is_time() {
                        tracing::warn!(%address, %error, "connections can't be accepted");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Closed at once: a client sees that sooner than silence.
            let Some(place) = crowd.admit() else { continue };
            let tracker = if ends.draining.is_cancelled() { &late } else { &served };
            let connection = connection::serve(stream, place, service.clone(), tracker.clone());
            tracker.spawn(connection);
            if crowd.is_over() {
                // Those that were asked to leave come first.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// The next connection. One that was gone before it was taken is nobody's trouble.
async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    loop {
        match listener.accept().await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            accepted => return accepted.map(|(stream, _)| stream),
        }
    }
}

#[cfg(test)]
mod tests;
