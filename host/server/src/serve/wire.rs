//! A connection's socket: bytes in and out, and a watch for the client's going.
//!
//! An HTTP/1 connection isn't read while a request is in flight and there are bytes that nobody has
//! taken yet, such as the next request; then nobody would see its client hang up. The system tells
//! that beside the bytes, and [`HangUp`] listens for it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::presence::Presence;

/// A client's socket, as it is read and written.
#[derive(Debug)]
pub(super) struct Wire {
    read: OwnedReadHalf,
    write: Arc<OwnedWriteHalf>,
    presence: Arc<Presence>,
}

/// A client's socket, as its end is waited for.
#[derive(Debug)]
pub(super) struct HangUp(Arc<OwnedWriteHalf>);

impl Wire {
    /// Both sides of a socket.
    pub(super) fn new(stream: TcpStream, presence: Arc<Presence>) -> (Self, HangUp) {
        let (read, write) = stream.into_split();
        let write = Arc::new(write);
        (Self { read, write: write.clone(), presence }, HangUp(write))
    }

    fn written(&self, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.presence.stalls(wrote.is_pending());
        wrote
    }

    fn poll_try(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&OwnedWriteHalf) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = (*self.write).as_ref();
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match write(&self.write) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                wrote => return Poll::Ready(wrote),
            }
        }
    }
}

impl HangUp {
    /// Until the client has closed its side, or the connection is broken.
    #[cfg(target_os = "linux")]
    pub(super) async fn wait(&self) {
        // The one interest that bytes don't satisfy, and an end does.
        while let Ok(ready) = self.0.ready(Interest::PRIORITY).await {
            if ready.is_read_closed() {
                return;
            }
            // Urgent bytes are nothing that HTTP knows; a client that sends them is watched less well.
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }

    /// Until the client has closed its side, or the connection is broken.
    #[cfg(not(target_os = "linux"))]
    pub(super) async fn wait(&self) {
        // Bytes that nobody takes satisfy this, too: so it is asked now and then.
        while let Ok(ready) = self.0.ready(Interest::READABLE).await {
            if ready.is_read_closed() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.read).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written(self.poll_try(cx, |write| write.try_write(bytes)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.written(self.poll_try(cx, |write| write.try_write_vectored(pieces)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Done by the drop, which follows at once: the half that writes shuts its side down.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
