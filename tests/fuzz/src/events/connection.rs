//! The bytes of a ZeroMQ connection, as the other side sends them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use pointsman::feeds::zmtp::{Connection, MOST_BYTES, MOST_FRAMES, Socket, ZmtpError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::words::sentence;

/// The longest sentence about a connection, in bytes, beside what the other side says in its own
/// words: a mechanism of 20 bytes, a kind of socket or a reason, all escaped.
const MOST_WORDS: usize = 4_000;

/// What we say before anything is asked: greeting, handshake, subscription.
const MOST_SAID: usize = 300;

/// Another side that says some bytes, so many at once, and then nothing.
struct Other {
    says: Bytes,
    at_once: usize,
    heard: Arc<AtomicUsize>,
}

impl AsyncRead for Other {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = self.says.len().min(self.at_once).min(into.remaining());
        into.put_slice(&self.says.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Other {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.heard.fetch_add(bytes.len(), Ordering::Relaxed);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What came out of a connection.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    messages: Vec<Vec<Bytes>>,
    /// Why it ended.
    end: String,
    /// How much was said.
    said: usize,
}

/// A connection's bytes, behind one that says which socket we are and how they are cut.
pub(super) fn bytes(bytes: &[u8]) {
    let Some((&how, says)) = bytes.split_first() else { return };
    let socket = if how & 0x80 == 0 { Socket::Sub { topic: "kv" } } else { Socket::Dealer };
    let says = Bytes::copy_from_slice(says);
    let whole = against(&says, usize::MAX, socket);
    let pieces = against(&says, usize::from(how & 0x7f) + 1, socket);
    // A ping is answered with the next read: how often that is depends on the pieces.
    assert_eq!((&whole.messages, &whole.end), (&pieces.messages, &pieces.end));
    for heard in [&whole, &pieces] {
        sentence(&heard.end, MOST_WORDS);
        assert!(heard.said <= MOST_SAID + says.len(), "{} bytes answered", heard.said);
        for message in &heard.messages {
            assert!(message.len() <= MOST_FRAMES);
            assert!(message.iter().map(Bytes::len).sum::<usize>() <= MOST_BYTES);
        }
    }
}

fn against(says: &Bytes, at_once: usize, socket: Socket<'_>) -> Heard {
    let heard = Arc::new(AtomicUsize::new(0));
    let other = Other { says: says.clone(), at_once, heard: heard.clone() };
    let mut messages = Vec::new();
    let talk = async {
        let mut connection = Connection::over(other, socket).await?;
        loop {
            messages.push(connection.next().await?);
        }
    };
    let end: Result<(), ZmtpError> =
        talk.now_or_never().expect("the other side never keeps us waiting");
    let end = end.expect_err("it goes on until the bytes end").to_string();
    Heard { messages, end, said: heard.load(Ordering::Relaxed) }
}
