//! Which worker each session is bound to, for a partition.
//!
//! Owns the bindings: who may make one, who waits meanwhile, what moves it, and when it ends. A
//! request *enters* with its session and leaves when its [`SessionLease`] is dropped, wherever that
//! happens. The first one of a session leads: it is routed as any request, and its worker becomes
//! the session's once that has begun to answer; the others wait for that. If it fails before, there
//! is no binding, and the next one leads.
//!
//! | mode | what a binding does | what moves it |
//! |---|---|---|
//! | hard | the request is pinned to it | only the loss of its worker |
//! | soft | the policy is told of it | any request of the session that a worker begins to answer |
//!
//! It doesn't know policies, who waits how, or what time it is: time is an argument. A session ends
//! once nobody has used it for as long as its time to live; that is looked at by whoever enters,
//! and by [`Affinity::expire`], which also is what first notes when a session fell idle.

mod key;
mod lease;
mod view;

mod binding;
mod table;

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::fleet::Epoch;
use crate::ids::{WorkerRank, WorkerTarget};
use crate::request::{MAX_SESSION_ID_BYTES, Session};
use table::{Found, Table};

pub use key::SessionKey;
pub use lease::{SessionLease, Waiting};
pub use view::{AffinityCounts, SessionState, SessionView};

/// The most sessions that a partition binds; of more, requests are routed unbound.
pub const MOST_SESSIONS: usize = 65_536;

/// What a binding does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AffinityMode {
    /// It pins the session's requests.
    #[default]
    Hard,
    /// It is told to the policy, which may go by it.
    Soft,
}

/// How sessions are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffinityTerms {
    /// What a binding does.
    pub mode: AffinityMode,
    /// Milliseconds without a request after which it ends.
    pub ttl_ms: u64,
}

/// The worker that a session is bound to, in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Which.
    #[serde(flatten)]
    pub worker: WorkerRank,
    /// The life: a later one of the same worker has none of the session's cache.
    pub epoch: Epoch,
}

impl Bound {
    /// As a request names it.
    #[must_use]
    pub fn target(&self) -> WorkerTarget {
        WorkerTarget { worker_id: self.worker.worker_id, dp_rank: Some(self.worker.dp_rank) }
    }
}

/// A request of a session.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The session.
    pub session: &'a Session,
    /// The worker that the client itself asks for.
    pub pinned: Option<WorkerTarget>,
    /// How sessions are bound now.
    pub terms: AffinityTerms,
    /// Milliseconds on the router's monotonic clock.
    pub now_ms: u64,
}

/// How a request is let in.
#[derive(Debug)]
pub enum Entry {
    /// No binding, and none to be made.
    Unbound,
    /// With a binding, or to make one.
    Held(SessionLease),
    /// Another request is about to make it: enter again after that.
    Wait(Waiting),
}

/// A hard binding and a pin that disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the session is bound to worker {}, and the request is pinned to {asked}; leave the pin out, or \
     use another session",
    bound.worker
)]
pub struct Conflict {
    /// What the session is bound to.
    pub bound: Bound,
    /// What the request asks for.
    pub asked: WorkerTarget,
}

/// The bindings of one partition.
#[derive(Debug)]
pub struct Affinity {
    table: Mutex<Table>,
}

impl Default for Affinity {
    fn default() -> Self {
        Self::of(MOST_SESSIONS)
    }
}

impl Affinity {
    /// Bindings of so many sessions at most.
    #[must_use]
    pub fn of(most: usize) -> Self {
        Self { table: Mutex::new(Table::of(most)) }
    }

    /// Lets a request in. `stands` says whether a worker that was bound can still be had: if not,
    /// the binding is lost, and the request leads.
    pub fn enter(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        stands: impl Fn(&Bound) -> bool,
    ) -> Result<Entry, Conflict> {
        let key = SessionKey::of(ask.session, ask.pinned.is_some());
        if key.id().len() > MAX_SESSION_ID_BYTES {
            return Ok(Entry::Unbound);
        }
        let ends = ask.session.is_final == Some(true) && !key.is_group();
        let found = self.table.lock().enter(&key, ask, stands)?;
        Ok(match found {
            Found::Full | Found::Busy => Entry::Unbound,
            Found::Wait(turn) => Entry::Wait(Waiting::new(self.clone(), turn)),
            Found::Leads(turn) => {
                let follows = ask.terms.mode == AffinityMode::Soft;
                Entry::Held(SessionLease::leading(self.clone(), turn, follows, ends))
            }
            Found::Bound(place, bound) => {
                let follows = ask.terms.mode == AffinityMode::Soft;
                Entry::Held(SessionLease::bound(self.clone(), place, bound, follows, ends))
            }
        })
    }

    /// What a session's requests are bound to now; none if they aren't. Nothing changes by it.
    #[must_use]
    pub fn peek(&self, ask: &Ask<'_>) -> Option<Bound> {
        let key = SessionKey::of(ask.session, ask.pinned.is_some());
        self.table.lock().peek(&key, ask)
    }

    /// Looks at the next so many places for sessions, and ends those that have been idle for
    /// `ttl_ms`, all idle ones without it, and those whose worker is gone. Returns whether it hasn't
    /// come to the last place.
    pub fn expire(
        &self,
        now_ms: u64,
        ttl_ms: Option<u64>,
        places: usize,
        stands: impl Fn(&Bound) -> bool,
    ) -> bool {
        self.table.lock().expire(now_ms, ttl_ms, places, stands)
    }

    /// Ends a session's binding, and that of its subagents. What runs goes on, and binds nothing.
    /// Returns how many there were.
    pub fn end(&self, id: &str) -> usize {
        let waiters = self.table.lock().end(id);
        let ended = waiters.len();
        waiters.into_iter().flatten().for_each(std::task::Waker::wake);
        ended
    }

    /// What has happened so far.
    #[must_use]
    pub fn counts(&self) -> AffinityCounts {
        self.table.lock().counts()
    }

    /// Sessions that have a binding, or are about to.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.lock().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most `most` sessions from place `from` on, and the place to go on from; none at the end.
    #[must_use]
    pub fn list(&self, from: usize, most: usize, now_ms: u64) -> (Vec<SessionView>, Option<usize>) {
        self.table.lock().list(from, most, now_ms)
    }
}

#[cfg(test)]
mod tests;
