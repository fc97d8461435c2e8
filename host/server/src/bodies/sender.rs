//! A body on its way in.
//!
//! What has come of it is where others can take it away that need its room, at once and without
//! waiting for the task that reads it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::pace::Pace;
use super::room::{Held, Room};

/// The least that is taken at once: fewer bytes aren't worth a count.
pub(super) const STEP: usize = 4 << 10;

/// Why a body has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// There is no room, and nobody to give some.
    Full,
    /// It was too slow, and has given its room to others.
    GaveWay,
}

/// A body on its way in, for the task that reads it.
#[derive(Debug)]
pub(super) struct Growing {
    room: Room,
    sender: Arc<Sender>,
    /// As long as it will be at most.
    most: usize,
    /// Others see it under this number; none if they don't.
    number: Option<u64>,
}

/// The same, for others.
#[derive(Debug)]
pub(super) struct Sender {
    /// None once it has given way.
    come: Mutex<Option<Come>>,
    gave_way: Notify,
}

#[derive(Debug)]
struct Come {
    data: Vec<u8>,
    held: Held,
    pace: Pace,
}

impl Growing {
    /// Nothing has come yet.
    pub(super) fn begin(room: &Room, most: usize) -> Self {
        let pace = Pace::brisk(room.grace(), Instant::now());
        let come = Come { data: Vec::new(), held: room.nothing(), pace };
        let sender = Sender { come: Mutex::new(Some(come)), gave_way: Notify::new() };
        Self { room: room.clone(), sender: Arc::new(sender), most, number: None }
    }

    /// How much has come.
    pub(super) fn len(&self) -> usize {
        self.sender.come.lock().as_ref().map_or(0, |come| come.data.len())
    }

    /// More is to come: it may have to give way.
    pub(super) fn waits(&mut self) {
        if self.number.is_none() {
            self.number = Some(self.room.enter(&self.sender));
        }
    }

    /// Until it has given way.
    pub(super) async fn gives_way(&self) {
        self.sender.gave_way.notified().await;
    }

    /// More has come.
    pub(super) fn take(&mut self, data: &[u8]) -> Result<(), NoPlace> {
        if let Err(missing) = self.sender.take(data, self.most)? {
            // Not while its own lock is held: others may be about to take from it.
            self.room.relieve(missing, self.number);
            self.sender.take(data, self.most)?.map_err(|_| NoPlace::Full)?;
        }
        Ok(())
    }

    /// All has come.
    pub(super) fn whole(self) -> Result<(Vec<u8>, Held), NoPlace> {
        let come = self.sender.come.lock().take().ok_or(NoPlace::GaveWay)?;
        Ok((come.data, come.held))
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.room.leave(number);
        }
        // At once, though others may still look at it.
        self.sender.come.lock().take();
    }
}

impl Sender {
    /// Inner: the bytes for which there is no room.
    fn take(&self, data: &[u8], most: usize) -> Result<Result<(), usize>, NoPlace> {
        let mut come = self.come.lock();
        let come = come.as_mut().ok_or(NoPlace::GaveWay)?;
        let length = come.data.len().saturating_add(data.len());
        let capacity = come.data.capacity();
        if length > capacity {
            // Twice as much each time, so that bytes are moved about once.
            let wanted = capacity.saturating_mul(2).max(STEP).min(most);
            // Where there isn't so much, what has come may still have its place.
            if !come.make_room(wanted.max(length)) && !come.make_room(length) {
                return Ok(Err(length - capacity));
            }
        }
        come.data.extend_from_slice(data);
        come.pace.note(data.len(), Instant::now());
        Ok(Ok(()))
    }

    /// What it holds, and how late it is; none if it isn't.
    pub(super) fn late(&self, now: Instant) -> Option<(std::time::Duration, usize)> {
        let come = self.come.lock();
        let come = come.as_ref()?;
        Some((come.pace.late(now)?, come.held.bytes()))
    }

    /// Takes all from it.
    pub(super) fn give_way(&self) {
        self.come.lock().take();
        self.gave_way.notify_one();
    }
}

impl Come {
    fn make_room(&mut self, capacity: usize) -> bool {
        let has_room = self.held.grow_to(capacity);
        if has_room {
            self.data.reserve_exact(capacity - self.data.len());
        }
        has_room
    }
}
