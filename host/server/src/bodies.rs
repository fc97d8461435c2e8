//! Request bodies: read whole, and together no more than there is room for.
//!
//! Owns the memory that bodies take, from their first byte until the last copy of them is gone: each
//! is as large as its [`Bounds`] allow, but nobody limits how many clients send one at once. Both
//! listeners read theirs here, each with room of its own. It doesn't know what a body says, or how
//! its sender is told what was wrong with it.
//!
//! A body takes room for what has really come, not for what its head promises: else a few clients
//! that promise much and send nothing would take all of it. One that promises more than there is
//! room for is refused before it is read. Nobody waits for room: what waits takes room, too.
//!
//! What has come is held until the rest has. So a body must keep coming: on the average of
//! `client_timeout`, faster than a client sends that only wants to hold it. And when there is no
//! room, those that have come slowly for some seconds give theirs, the one that is late for longest
//! first.

mod pace;
mod room;
mod sender;

use std::time::Duration;

use axum::BoxError;
use axum::body::Bytes;
use futures_util::FutureExt;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use sender::{Growing, NoPlace};

pub(crate) use pace::Pace;
pub(crate) use room::{Held, Room};

/// A body on its way in, from whatever it comes.
pub(crate) trait Inbound: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin {}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin> Inbound for B {}

/// What one body may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most bytes.
    pub(crate) most: usize,
    /// How long it may stand still; on the average of it, it must be fast enough.
    pub(crate) client_timeout: Duration,
    /// When all of it must be there.
    pub(crate) end: Instant,
}

/// Why a body isn't there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// It is larger than it may be.
    #[error("the body is too large")]
    TooLarge,
    /// It has no room beside the others.
    #[error("there is no room for the body")]
    NoRoom,
    /// It didn't come to its end in time.
    #[error("the body didn't come in time")]
    TooSlow,
    /// It came too slowly while others had no room.
    #[error("the body came so slowly that others got its room")]
    GaveWay,
    /// Its connection failed.
    #[error("the body broke off: {0}")]
    BrokeOff(BoxError),
}

impl BodyError {
    /// What whoever the body comes from says of it, where that is one of these.
    pub(crate) fn root(self) -> Self {
        match self {
            Self::BrokeOff(why) => match why.downcast::<Self>() {
                Ok(root) => *root,
                Err(why) => Self::BrokeOff(why),
            },
            other => other,
        }
    }
}

/// A body that is there. The room that it takes is given back when nothing refers to it any more,
/// whatever way it went.
struct Whole {
    data: Vec<u8>,
    _held: Held,
}

impl Whole {
    fn into_bytes(self) -> Bytes {
        if self.data.is_empty() { Bytes::new() } else { Bytes::from_owner(self) }
    }
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// The body in one piece. Its client may take its time, but neither stand still nor drip. What is
/// left of a body that is refused stays unread.
pub(crate) async fn whole(
    body: &mut impl Inbound,
    room: &Room,
    bounds: Bounds,
) -> Result<Bytes, BodyError> {
    let hint = body.size_hint();
    // One that says how long it is needn't be read to be refused.
    if hint.lower() > bounds.most as u64 {
        return Err(BodyError::TooLarge);
    }
    // Not more than the most, so that nothing is cut off here.
    let least = hint.lower() as usize;
    if !room.has(least) {
        room.relieve(least, None);
        if !room.has(least) {
            return Err(BodyError::NoRoom);
        }
    }
    // Nearly all are there with their heads, in one piece: nobody is waited for, and nobody need give way.
    let mut first = body.frame().now_or_never();
    if let Some(Some(Ok(frame))) = &first
        && let Some(data) = frame.data_ref()
        && body.is_end_stream()
    {
        return in_one_piece(data, room, bounds.most);
    }
    let most = hint.upper().and_then(|upper| usize::try_from(upper).ok()).unwrap_or(usize::MAX);
    let mut read = Growing::begin(room, most.min(bounds.most));
    let mut pace = Pace::least(bounds.client_timeout, Instant::now());
    loop {
        let frame = match first.take() {
            Some(frame) => Ok(frame),
            None => tokio::select! {
                frame = timeout_at(bounds.end.min(pace.until()), body.frame()) => frame,
                () = read.gives_way() => return Err(BodyError::GaveWay),
            },
        };
        match frame {
            Ok(None) => {
                let (data, held) = read.whole()?;
                return Ok(Whole { data, _held: held }.into_bytes());
            }
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                if read.len().saturating_add(data.len()) > bounds.most {
                    return Err(BodyError::TooLarge);
                }
                read.take(&data)?;
                pace.note(data.len(), Instant::now());
                if !body.is_end_stream() {
                    read.waits();
                }
            }
            Ok(Some(Err(error))) => return Err(BodyError::BrokeOff(error.into())),
            Err(_) => return Err(BodyError::TooSlow),
        }
    }
}

/// A body that is there already. It is copied: what it came in is larger, and the connection's.
fn in_one_piece(data: &[u8], room: &Room, most: usize) -> Result<Bytes, BodyError> {
    if data.len() > most {
        return Err(BodyError::TooLarge);
    }
    let mut held = room.nothing();
    if !held.grow_to(data.len()) {
        room.relieve(data.len(), None);
        if !held.grow_to(data.len()) {
            return Err(BodyError::NoRoom);
        }
    }
    Ok(Whole { data: data.to_vec(), _held: held }.into_bytes())
}

/// Reads on and throws away, so that a client that still sends reads its answer: so many bytes at
/// most, and no slower than a body may come.
pub(crate) async fn discard(body: &mut impl Inbound, bounds: Bounds) {
    let mut pace = Pace::least(bounds.client_timeout, Instant::now());
    let mut length = 0_usize;
    while length <= bounds.most {
        let frame = timeout_at(bounds.end.min(pace.until()), body.frame()).await;
        let Ok(Some(Ok(frame))) = frame else { return };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        length = length.saturating_add(bytes);
        pace.note(bytes, Instant::now());
    }
}

impl From<NoPlace> for BodyError {
    fn from(why: NoPlace) -> Self {
        match why {
            NoPlace::Full => Self::NoRoom,
            NoPlace::GaveWay => Self::GaveWay,
        }
    }
}

#[cfg(test)]
mod tests;
