//! One binding: its states, and who stands where.

use std::task::Waker;

use super::{Bound, SessionKey, SessionState, SessionView};

/// Where a binding stands, and which one it is of those that have stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) life: u64,
}

/// A binding that is being made, by one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) place: Place,
    pub(super) number: u64,
}

/// One binding.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) key: SessionKey,
    pub(super) life: u64,
    pub(super) state: State,
    /// Requests that have come in and not left.
    pub(super) leases: u32,
    /// When it was first seen without a lease.
    pub(super) idle_since: Option<u64>,
    /// It ends with its last lease.
    pub(super) ending: bool,
}

/// How it stands.
#[derive(Debug)]
pub(super) enum State {
    /// One request leads, and others wait for it.
    Initializing {
        /// Which turn this is.
        number: u64,
        /// Whether there was a binding before, whose worker was lost.
        again: bool,
        /// By ticket.
        waiters: Vec<(u64, Waker)>,
    },
    /// It is bound.
    Bound(Bound),
}

impl Binding {
    /// A binding that one request is to make.
    pub(super) fn new(key: SessionKey, life: u64, number: u64) -> Self {
        let state = State::Initializing { number, again: false, waiters: Vec::new() };
        Self { key, life, state, leases: 1, idle_since: None, ending: false }
    }

    /// Whether it has been idle for too long.
    pub(super) fn has_expired(&self, now_ms: u64, ttl_ms: u64) -> bool {
        let idle = |since: u64| now_ms.saturating_sub(since) >= ttl_ms;
        self.leases == 0 && self.idle_since.is_some_and(idle)
    }

    /// Takes out those who wait.
    pub(super) fn take_waiters(&mut self) -> Vec<Waker> {
        match &mut self.state {
            State::Initializing { waiters, .. } => {
                std::mem::take(waiters).into_iter().map(|(_, waker)| waker).collect()
            }
            State::Bound(_) => Vec::new(),
        }
    }

    /// Whether a turn isn't over.
    pub(super) fn is_turn(&self, turn: Turn) -> bool {
        matches!(self.state, State::Initializing { number, .. } if number == turn.number)
    }

    /// Begins a turn; the binding that was there is lost.
    pub(super) fn begin(&mut self, number: u64) {
        self.state = State::Initializing { number, again: true, waiters: Vec::new() };
    }

    /// For display.
    pub(super) fn view(&self, now_ms: u64) -> SessionView {
        SessionView {
            key: self.key.clone(),
            state: match &self.state {
                State::Initializing { waiters, .. } => {
                    SessionState::Initializing { waiting: waiters.len() }
                }
                State::Bound(bound) => SessionState::Bound { bound: *bound },
            },
            active_requests: self.leases,
            idle_ms: self.idle_since.map(|since| now_ms.saturating_sub(since)),
        }
    }
}
