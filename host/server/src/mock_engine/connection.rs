//! One TCP connection: its HTTP, and the ways in which it can end badly.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::control::FaultKind;
use super::engine::Engine;
use super::routes;

/// How a connection ends when it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is closed (FIN).
    Close,
    /// It is reset (RST).
    Reset,
    /// Something that is no chunk is written, then it is closed.
    Garbage,
}

impl Ending {
    /// The end that belongs to a fault; a fault that doesn't cut the connection just closes it.
    pub(super) fn of(kind: FaultKind) -> Self {
        match kind {
            FaultKind::Reset => Self::Reset,
            FaultKind::MalformedChunk => Self::Garbage,
            _ => Self::Close,
        }
    }
}

/// What the answers on a connection may tell the connection itself.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The discriminant of an [`Ending`].
    ending: AtomicU8,
    close: Notify,
}

impl Link {
    /// Decides how the connection ends.
    pub(super) fn end_with(&self, ending: Ending) {
        self.ending.store(ending as u8, Ordering::Release);
    }

    /// The connection shall end after the answer under way.
    pub(super) fn close_after_answer(&self) {
        self.close.notify_one();
    }
}

/// Answers requests on one connection until either side closes it or the engine stops.
pub(super) async fn serve(stream: TcpStream, engine: Arc<Engine>, stop: CancellationToken) {
    // Without it a token may wait 40 ms for the acknowledgement of the one before. A failure means the peer is gone already.
    let _ = stream.set_nodelay(true);
    let link = Arc::new(Link::default());
    let socket = Socket::new(stream, link.clone(), engine.clone());
    let service = service_fn({
        let link = link.clone();
        move |request| routes::answer(engine.clone(), link.clone(), request)
    });
    let mut connection = pin!(
        http1::Builder::new()
            // Events are small: one copy and one plain write cost less than a vector of pieces.
            .writev(false)
            .serve_connection(TokioIo::new(socket), service)
    );
    loop {
        tokio::select! {
            // How it ended is in the counters; clients that go away are part of the game.
            _ = connection.as_mut() => return,
            () = link.close.notified() => connection.as_mut().graceful_shutdown(),
            () = stop.cancelled() => return,
        }
    }
}

/// A TCP stream that ends as its link says.
struct Socket {
    stream: TcpStream,
    link: Arc<Link>,
    engine: Arc<Engine>,
}

impl Socket {
    fn new(stream: TcpStream, link: Arc<Link>, engine: Arc<Engine>) -> Self {
        engine.stats.connections.fetch_add(1, Ordering::Relaxed);
        engine.stats.open_connections.fetch_add(1, Ordering::Relaxed);
        Self { stream, link, engine }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The connection is over whether these succeed or not.
        match self.link.ending.load(Ordering::Acquire) {
            ending if ending == Ending::Reset as u8 => drop(self.stream.set_zero_linger()),
            ending if ending == Ending::Garbage as u8 => {
                drop(self.stream.try_write(b"no-size\r\nno chunk\r\n"))
            }
            _ => {}
        }
        self.engine.stats.open_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
