//! What is shown of sessions.

use serde::Serialize;

use super::{Bound, SessionKey};

/// What has happened to a partition's sessions since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AffinityCounts {
    /// Requests that found their session bound.
    pub hits: u64,
    /// Sessions that were bound anew.
    pub bound: u64,
    /// Bindings that moved to another worker, or life.
    pub rebound: u64,
    /// Bindings whose worker was lost.
    pub invalidated: u64,
    /// First requests that failed before a worker had begun to answer.
    pub given_up: u64,
    /// Times that a request waited for another to make the binding.
    pub waited: u64,
    /// Sessions that ended because they were idle.
    pub expired: u64,
    /// Sessions that ended because their client or an operator said so.
    pub ended: u64,
    /// Requests that were routed unbound for want of room.
    pub full: u64,
    /// Requests refused because their pin disagreed with a hard binding.
    pub conflicts: u64,
}

/// How a session stands, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SessionState {
    /// Its first request hasn't been answered yet, or the first since its worker was lost.
    Initializing {
        /// Requests that wait for that.
        waiting: usize,
    },
    /// It is bound.
    Bound {
        /// To this.
        #[serde(flatten)]
        bound: Bound,
    },
}

/// A session, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionView {
    /// Which.
    #[serde(flatten)]
    pub key: SessionKey,
    /// How it stands.
    #[serde(flatten)]
    pub state: SessionState,
    /// Its requests that have not ended, but for those that wait.
    pub active_requests: u32,
    /// Milliseconds since it was first seen without a request; none while it has one.
    pub idle_ms: Option<u64>,
}
