//! A request's stay with its session, and waiting for another's.
//!
//! Owns that each stay ends exactly once, and that nobody waits for a request that is gone.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::binding::{Place, Turn};
use super::{Affinity, Bound};

/// A request's stay with its session. Dropping it gives it back; if it was to make the binding and
/// hasn't, there is none, and those who wait go on.
#[derive(Debug)]
pub struct SessionLease {
    affinity: Arc<Affinity>,
    place: Place,
    /// Which turn it leads; none if it doesn't, and after that.
    leads: Option<Turn>,
    bound: Option<Bound>,
    /// Whether the binding goes where the request was answered.
    follows: bool,
    /// Whether the session ends with it.
    ends: bool,
}

impl SessionLease {
    pub(super) fn leading(affinity: Arc<Affinity>, turn: Turn, follows: bool, ends: bool) -> Self {
        Self { affinity, place: turn.place, leads: Some(turn), bound: None, follows, ends }
    }

    pub(super) fn bound(
        affinity: Arc<Affinity>,
        place: Place,
        bound: Bound,
        follows: bool,
        ends: bool,
    ) -> Self {
        Self { affinity, place, leads: None, bound: Some(bound), follows, ends }
    }

    /// What the session was bound to when the request came; none if the request leads.
    #[must_use]
    pub fn target(&self) -> Option<Bound> {
        self.bound
    }

    /// A worker has begun to answer: the session is bound to it, if this request leads or the
    /// binding is soft.
    pub fn started(&mut self, at: Bound) {
        let leads = self.leads.take();
        let waiters = self.affinity.table.lock().started(self.place, leads, self.follows, at);
        waiters.into_iter().for_each(Waker::wake);
    }

    /// The bound worker couldn't be had. Returns whether this request leads from now on; if not,
    /// another has found that out before: let it go, and enter again.
    pub fn lost(&mut self) -> bool {
        let Some(bound) = self.bound.take() else { return self.leads.is_some() };
        self.leads = self.affinity.table.lock().lost(self.place, bound);
        self.leads.is_some()
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        let waiters = self.affinity.table.lock().leave(self.place, self.leads, self.ends);
        waiters.into_iter().for_each(Waker::wake);
    }
}

/// Waits until the request that leads has made its binding, or is gone. Then enter again: another
/// may have been faster.
#[derive(Debug)]
#[must_use = "nothing is waited for unless it is polled"]
pub struct Waiting {
    affinity: Arc<Affinity>,
    turn: Turn,
    /// By this its waker is found again.
    ticket: Option<u64>,
}

impl Waiting {
    pub(super) fn new(affinity: Arc<Affinity>, turn: Turn) -> Self {
        Self { affinity, turn, ticket: None }
    }
}

impl Future for Waiting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        match this.affinity.table.lock().wait(this.turn, this.ticket, cx.waker()) {
            Some(ticket) => {
                this.ticket = Some(ticket);
                Poll::Pending
            }
            None => {
                this.ticket = None;
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            // What a waker does when it is dropped isn't to be done under the lock.
            let waker = self.affinity.table.lock().stop_waiting(self.turn, ticket);
            drop(waker);
        }
    }
}
