//! A gateway's messages on their way in, before they are whole.
//!
//! Owns the memory that they take meanwhile: whoever decodes a message keeps what has come of it until the rest
//! has, and nobody limits how many streams have one on its way. Large ones take room together, and have to keep
//! coming, as bodies do. What is in a message is for others.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use crate::bodies::{Held, Pace, Room};

/// What comes before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Messages of at most so many bytes aren't counted. A connection's window bounds what they take.
const SMALL: usize = 128 << 10;

/// A stream of messages.
#[derive(Debug)]
pub(super) struct Arrival<B> {
    body: B,
    room: Room,
    /// How long a message may stand still.
    patience: Duration,
    /// What has come of a prefix.
    prefix: Vec<u8>,
    /// What is to come of the message; none between two.
    missing: Option<usize>,
    /// Of one that is large.
    large: Option<Large>,
}

#[derive(Debug)]
struct Large {
    came: usize,
    held: Held,
    pace: Pace,
    late: Pin<Box<Sleep>>,
}

impl<B> Arrival<B> {
    /// Of what comes over a connection.
    pub(super) fn new(body: B, room: Room, patience: Duration) -> Self {
        Self { body, room, patience, prefix: Vec::new(), missing: None, large: None }
    }

    /// A piece has come: it may hold parts of several messages.
    fn take(&mut self, mut piece: &[u8]) -> Result<(), Status> {
        while !piece.is_empty() {
            let Some(missing) = self.missing else {
                if let Some(rest) = behind_whole(piece).filter(|_| self.prefix.is_empty()) {
                    piece = rest;
                    continue;
                }
                let wanted = PREFIX - self.prefix.len();
                let (more, rest) = piece.split_at(wanted.min(piece.len()));
                self.prefix.extend_from_slice(more);
                piece = rest;
                if let [_, a, b, c, d] = *self.prefix {
                    self.prefix.clear();
                    self.begin(u32::from_be_bytes([a, b, c, d]) as usize);
                }
                continue;
            };
            let (more, rest) = piece.split_at(missing.min(piece.len()));
            piece = rest;
            self.missing = Some(missing - more.len()).filter(|missing| *missing > 0);
            match (&mut self.large, self.missing) {
                (large, None) => *large = None,
                (Some(large), Some(_)) => large.take(more.len())?,
                (None, Some(_)) => {}
            }
        }
        Ok(())
    }

    fn begin(&mut self, length: usize) {
        self.missing = Some(length).filter(|length| *length > 0);
        if length > SMALL {
            let now = Instant::now();
            let pace = Pace::least(self.patience, now);
            let late = Box::pin(sleep_until(pace.until()));
            self.large = Some(Large { came: 0, held: self.room.nothing(), pace, late });
        }
    }
}

/// What is behind a message that isn't large, if all of it is here: nearly all are like that.
fn behind_whole(piece: &[u8]) -> Option<&[u8]> {
    let (&[_, a, b, c, d], message) = piece.split_first_chunk::<PREFIX>()?;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    message.get(length..).filter(|_| length <= SMALL)
}

impl Large {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        self.came += bytes;
        self.pace.note(bytes, Instant::now());
        self.late.as_mut().reset(self.pace.until());
        if self.held.grow_to(self.came) {
            return Ok(());
        }
        Err(Status::resource_exhausted(
            "messages on their way in take all of proxy.body_budget; send them in smaller pieces (FULL_DUPLEX_STREAMED), or fewer at once",
        ))
    }
}

impl<B> Body for Arrival<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            let Some(large) = &mut this.large else { return Poll::Pending };
            ready!(large.late.as_mut().poll(cx));
            this.large = None;
            return Poll::Ready(Some(Err(Status::deadline_exceeded(
                "a message didn't come in time; send it faster, or in smaller pieces (FULL_DUPLEX_STREAMED)",
            ))));
        };
        let frame = frame.map(|frame| frame.map_err(|error| Status::from_error(error.into())));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(status) = this.take(data)
        {
            this.large = None;
            return Poll::Ready(Some(Err(status)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use std::convert::Infallible;

    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};
    use prometheus::IntGauge;

    use super::*;

    const MIB: usize = 1 << 20;

    /// The first bytes of a message of this length, so many of them.
    fn begun(length: usize, came: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(u32::try_from(length).unwrap().to_be_bytes());
        bytes.resize(PREFIX + came, b'x');
        bytes
    }

    /// Pieces of a stream that then stands still.
    fn arrival(
        pieces: Vec<Vec<u8>>,
        room: &Room,
    ) -> Arrival<impl Body<Data = Bytes, Error = Infallible> + Unpin> {
        let frames = stream::iter(pieces).map(|piece| Ok(Frame::data(Bytes::from(piece))));
        let body = StreamBody::new(Box::pin(frames.chain(stream::pending())));
        Arrival::new(body, room.clone(), Duration::from_secs(60))
    }

    fn room(bytes: usize) -> (Room, IntGauge) {
        let gauge = IntGauge::new("held", "held").unwrap();
        (Room::new(bytes, gauge.clone()), gauge)
    }

    #[tokio::test]
    async fn what_has_come_of_large_messages_takes_room_until_they_are_whole_or_their_stream_is_gone()
     {
        let (room, gauge) = room(3 * MIB);
        let bytes = [begun(2 * MIB, 2 * MIB), begun(2 * MIB, MIB)].concat();
        // However it is cut: prefixes, too.
        for cut in [3, PREFIX + 1, PREFIX + MIB, 2 * MIB + 7, 3 * MIB] {
            let (first, second) = bytes.split_at(cut);
            let mut stream = arrival(vec![first.to_vec(), second.to_vec()], &room);
            for _ in 0..2 {
                stream.frame().await.unwrap().unwrap();
            }
            assert_eq!(gauge.get(), MIB as i64, "{cut}");
            drop(stream);
            assert_eq!(gauge.get(), 0, "{cut}");
        }
        // Together they get no more than there is.
        let mut first = arrival(vec![begun(8 * MIB, 2 * MIB)], &room);
        first.frame().await.unwrap().unwrap();
        let mut second = arrival(vec![begun(8 * MIB, 2 * MIB)], &room);
        let refused = second.frame().await.unwrap().unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert_eq!(gauge.get(), 2 * MIB as i64);
    }

    #[tokio::test]
    async fn a_large_message_that_stands_still_ends_its_stream_and_one_between_messages_may_wait() {
        let (room, gauge) = room(MIB);
        let mut late = arrival(vec![begun(MIB, MIB / 2)], &room);
        late.patience = Duration::from_millis(20);
        late.frame().await.unwrap().unwrap();
        let refused = late.frame().await.unwrap().unwrap_err();
        assert_eq!((refused.code(), gauge.get()), (tonic::Code::DeadlineExceeded, 0));
        let mut quiet = arrival(vec![begun(MIB, MIB)], &room);
        quiet.frame().await.unwrap().unwrap();
        assert!(quiet.frame().now_or_never().is_none() && quiet.large.is_none());
    }
}
