//! Request bodies: read whole, and together no more than there is room for.
//!
//! Owns the memory that bodies take, from their first byte until the last copy of them is gone: each
//! is as large as [`max_body`](crate::config::ProxyConfig::max_body) allows, but nobody limits how
//! many clients send one at once. It doesn't know what a body says.
//!
//! A body takes room for what has really come, not for what its head promises: else a few clients
//! that promise much and send nothing would take all of it. One that promises more than there is
//! room for is refused before it is read. Nobody waits for room: what waits takes room, too.

mod room;

use axum::body::{Body, Bytes};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::error::ApiError;
use crate::config::ProxyConfig;
use room::Held;

pub(super) use room::Room;

/// The least that is taken at once: fewer bytes aren't worth a count.
const STEP: usize = 4 << 10;

/// A body on its way in.
#[derive(Debug)]
struct Growing {
    data: Vec<u8>,
    held: Held,
    /// As long as it will be at most.
    most: usize,
}

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

/// The body in one piece. Its client may take its time, but not stand still.
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
    if !room.has(hint.lower() as usize) {
        return Err(ApiError::no_room());
    }
    let most = hint.upper().and_then(|upper| usize::try_from(upper).ok()).unwrap_or(usize::MAX);
    let most = most.min(config.max_body);
    let mut read = Growing { data: Vec::new(), held: room.nothing(), most };
    loop {
        let until = end.min(Instant::now() + config.client_timeout);
        match timeout_at(until, body.frame()).await {
            Ok(None) => return Ok(read.whole()),
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    read.take(&data, config.max_body)?;
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

impl Growing {
    fn take(&mut self, data: &[u8], max_body: usize) -> Result<(), ApiError> {
        let length = self.data.len().saturating_add(data.len());
        if length > max_body {
            return Err(ApiError::too_large(max_body));
        }
        if length > self.data.capacity() {
            // Twice as much each time, so that bytes are moved about once.
            let wanted = self.data.capacity().saturating_mul(2).max(STEP).min(self.most);
            // Where there isn't so much, what has come may still have its place.
            if !self.make_room(wanted.max(length)) && !self.make_room(length) {
                return Err(ApiError::no_room());
            }
        }
        self.data.extend_from_slice(data);
        Ok(())
    }

    fn make_room(&mut self, capacity: usize) -> bool {
        let has_room = self.held.grow_to(capacity);
        if has_room {
            self.data.reserve_exact(capacity - self.data.len());
        }
        has_room
    }

    fn whole(self) -> Bytes {
        let Self { data, held, .. } = self;
        if data.is_empty() { Bytes::new() } else { Bytes::from_owner(Whole { data, _held: held }) }
    }
}

#[cfg(test)]
mod tests;
