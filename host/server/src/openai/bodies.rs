//! Request bodies: read whole, and together no more than there is room for.
//!
//! Owns the memory that bodies take, from their first byte until the last copy of them is gone: each
//! is as large as [`max_body`](crate::config::ProxyConfig::max_body) allows, but nobody limits how
//! many clients send one at once. It doesn't know what a body says.
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

use axum::body::{Body, Bytes};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::error::ApiError;
use crate::config::ProxyConfig;
use pace::Pace;
use room::Held;
use sender::{Growing, NoPlace};

pub(super) use room::Room;

/// A body that is there. The room that it takes is given back when nothing refers to it any more,
/// whatever way it went.
struct Whole {
    data: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// The body in one piece. Its client may take its time, but neither stand still nor drip.
pub(super) async fn whole(
    mut body: Body,
    room: &Room,
    config: &ProxyConfig,
    end: Instant,
) -> Result<Bytes, ApiError> {
    let hint = body.size_hint();
    // One that says how long it is needn't be read to be refused.
    if hint.lower() > config.max_body as u64 {
        return Err(ApiError::too_large(config.max_body));
    }
    // Not more than `max_body`, so that nothing is cut off here.
    let least = hint.lower() as usize;
    if !room.has(least) {
        room.relieve(least, None);
        if !room.has(least) {
            return Err(ApiError::no_room());
        }
    }
    let most = hint.upper().and_then(|upper| usize::try_from(upper).ok()).unwrap_or(usize::MAX);
    let most = most.min(config.max_body);
    let mut read = Growing::begin(room, most);
    let mut pace = Pace::least(config.client_timeout, Instant::now());
    loop {
        let frame = tokio::select! {
            frame = timeout_at(end.min(pace.until()), body.frame()) => frame,
            () = read.gives_way() => return Err(ApiError::gave_way()),
        };
        match frame {
            Ok(None) => {
                let (data, held) = read.whole()?;
                let whole = Whole { data, _held: held };
                let is_empty = whole.data.is_empty();
                return Ok(if is_empty { Bytes::new() } else { Bytes::from_owner(whole) });
            }
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                if read.len().saturating_add(data.len()) > config.max_body {
                    return Err(ApiError::too_large(config.max_body));
                }
                read.take(&data)?;
                pace.note(data.len(), Instant::now());
                if !body.is_end_stream() {
                    read.waits();
                }
            }
            Ok(Some(Err(error))) => {
                let problem = format!("the body broke off: {error}; send it whole");
                return Err(ApiError::bad_body(problem));
            }
            Err(_) => return Err(ApiError::too_slow()),
        }
    }
}

impl From<NoPlace> for ApiError {
    fn from(why: NoPlace) -> Self {
        match why {
            NoPlace::Full => Self::no_room(),
            NoPlace::GaveWay => Self::gave_way(),
        }
    }
}

#[cfg(test)]
mod tests;
