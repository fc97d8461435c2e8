//! Which HTTP a client speaks, by its first bytes.
//!
//! Owns the look at them, after which they are still there for whoever reads next, together with
//! what has come since: a read of them alone would have that one's buffer doubled, for as long as the
//! connection lasts. It doesn't know what is done with the connection, or how long a client may take.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// What every client that speaks HTTP/2 begins with, and none that speaks HTTP/1.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// HTTP/1.1 or 1.0, or anything that isn't HTTP/2.
    One,
    /// HTTP/2, which the client knows without having asked.
    Two,
}

/// Waits until it is known. A client that closes before its first byte speaks HTTP/1.
pub(super) async fn find_out<S>(mut stream: S) -> io::Result<(Version, Looked<S>)>
where
    S: AsyncRead + Unpin,
{
    let (mut first, mut len) = ([0; PREFACE.len()], 0);
    loop {
        let Some(rest) = first.get_mut(len..).filter(|rest| !rest.is_empty()) else {
            return Ok((Version::Two, Looked { first, taken: 0, len, stream }));
        };
        let more = stream.read(rest).await?;
        len += more;
        if more == 0 || !PREFACE.starts_with(first.get(..len).unwrap_or_default()) {
            return Ok((Version::One, Looked { first, taken: 0, len, stream }));
        }
    }
}

/// A stream whose first bytes were looked at.
#[derive(Debug)]
pub(super) struct Looked<S> {
    first: [u8; PREFACE.len()],
    /// How many of the first bytes were read again.
    taken: usize,
    len: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Looked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let left = this.first.get(this.taken..this.len).unwrap_or_default();
        if left.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, into);
        }
        let now = left.len().min(into.remaining());
        into.put_slice(left.get(..now).unwrap_or_default());
        this.taken += now;
        if into.remaining() > 0 {
            // Whatever becomes of it, there are bytes; a stream that has failed says so, or has ended, when
            // it is read again.
            let _ = Pin::new(&mut this.stream).poll_read(cx, into);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Looked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

    use std::collections::VecDeque;

    use super::*;

    /// What a client sends, a piece at each read.
    struct Pieces(VecDeque<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(mut piece) = self.0.pop_front() {
                let rest = piece.split_off(piece.len().min(into.remaining()));
                into.put_slice(&piece);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    async fn looked_at(pieces: &[&[u8]]) -> (Version, Vec<Vec<u8>>) {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        let (version, mut looked) = find_out(Pieces(pieces)).await.unwrap();
        let mut reads = Vec::new();
        loop {
            let mut read = [0; 64];
            match looked.read(&mut read).await.unwrap() {
                0 => return (version, reads),
                len => reads.push(read[..len].to_vec()),
            }
        }
    }

    #[tokio::test]
    async fn the_preface_is_http_2_in_whatever_pieces_it_comes_and_all_else_is_http_1() {
        for cut in 1..PREFACE.len() {
            let (one, other) = PREFACE.split_at(cut);
            let (version, reads) = looked_at(&[one, other, b"frames"]).await;
            assert_eq!(version, Version::Two);
            assert_eq!(reads.concat(), [PREFACE.as_slice(), b"frames"].concat(), "{cut}");
        }
        for text in ["GET / HTTP/1.1\r\n\r\n", "P", "PRI * HTTP/1.1\r\n\r\n", "", "\0\x01"] {
            let pieces = text.as_bytes();
            let (version, reads) = looked_at(&[pieces][..usize::from(!text.is_empty())]).await;
            assert_eq!((version, reads.concat()), (Version::One, pieces.to_vec()), "{text:?}");
        }
    }

    #[tokio::test]
    async fn what_was_looked_at_is_read_together_with_what_has_come_since() {
        let (version, reads) = looked_at(&[b"POST /v1/completions", b" HTTP/1.1\r\n\r\n"]).await;
        assert_eq!(version, Version::One);
        assert_eq!(reads, [b"POST /v1/completions HTTP/1.1\r\n\r\n".to_vec()]);
    }
}
