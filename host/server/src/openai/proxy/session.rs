//! A request's stay with its session, over all of its tries.
//!
//! Owns how a binding bears on a request (a pin, or a target that the policy may heed), for how long
//! another's is waited for, and what is done when the bound worker couldn't be had. A target that the
//! request comes with is its classifier's, which knows of the session, too: it goes before that of a
//! soft binding. What a binding is, and what moves and ends it, is the core's:
//! [`pointsman_core::affinity`].

use std::time::Duration;

use pointsman_core::RouteError;
use pointsman_core::admission::overdue;
use pointsman_core::affinity::{AffinityMode, Ask, Bound, Entry, SessionLease};
use pointsman_core::eligibility::{Exclusions, PinProblem};
use pointsman_core::ids::{PartitionKey, WorkerTarget};
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use tokio::time::{Instant, timeout_at};

use super::attempt::Attempt;
use crate::dispatch::DispatchError;
use crate::openai::Front;
use crate::openai::error::ApiError;

/// A request's stay with its session.
#[derive(Debug)]
pub(super) struct Stay {
    /// None if it is of no session that is bound.
    lease: Option<SessionLease>,
    mode: AffinityMode,
    /// The client's own pin, and what says so.
    asked: Option<WorkerTarget>,
    pinned_by: Option<&'static str>,
    /// The target that the request came with.
    aimed: Option<WorkerTarget>,
    /// How often the bound worker was lost before the request was sent to it.
    renewals: u8,
}

/// How often a request makes or finds another binding: a fleet that changes faster has none to give.
const MOST_RENEWALS: u8 = 8;

impl Stay {
    /// Waits for another request of the session that makes its binding, until `end`; then tells the
    /// request what it is bound to.
    pub(super) async fn begin(
        front: &Front,
        request: &mut RouteRequest,
        pinned_by: Option<&'static str>,
        end: Instant,
    ) -> Result<Self, ApiError> {
        let (asked, aimed) = (request.constraints.pinned, request.affinity_target);
        let mode = AffinityMode::default();
        let mut this = Self { lease: None, mode, asked, pinned_by, aimed, renewals: 0 };
        this.enter(front, request, end).await?;
        Ok(this)
    }

    async fn enter(
        &mut self,
        front: &Front,
        request: &mut RouteRequest,
        end: Instant,
    ) -> Result<(), ApiError> {
        self.lease = None;
        let dispatcher = &front.app.dispatcher;
        while let Some(session) = &request.session
            && let Some(terms) = dispatcher.router().settings().session_affinity()
            && let Some(partition) = dispatcher.router().partition(&request.partition)
        {
            self.mode = terms.mode;
            let now_ms = dispatcher.clock().now_ms();
            let ask = Ask { session, pinned: self.asked, terms, now_ms };
            let entry = partition.enter_session(&ask);
            match entry.map_err(|conflict| ApiError::bound_elsewhere(&conflict, self.pinned_by))? {
                Entry::Unbound => break,
                Entry::Held(lease) => {
                    self.lease = Some(lease);
                    break;
                }
                Entry::Wait(waiting) => {
                    let due = request.admission.due_at_ms;
                    let left = due.map(|due| Duration::from_millis(due.saturating_sub(now_ms)));
                    let due = left.and_then(|left| Instant::now().checked_add(left));
                    let until = due.map_or(end, |due| end.min(due));
                    if timeout_at(until, waiting).await.is_err() {
                        let late = overdue(request, dispatcher.clock().now_ms());
                        return Err(late.map_or_else(
                            || front.decided_too_late(),
                            |late| ApiError::undecided(&late.into(), None),
                        ));
                    }
                }
            }
        }
        self.tell(request);
        Ok(())
    }

    /// What a hard binding pins the request to.
    fn pin(&self) -> Option<Bound> {
        let bound = self.lease.as_ref()?.target()?;
        (self.mode == AffinityMode::Hard).then_some(bound)
    }

    fn tell(&self, request: &mut RouteRequest) {
        request.constraints.pinned = self.pin().map(|bound| bound.target()).or(self.asked);
        let bound = self.lease.as_ref().and_then(SessionLease::target);
        let advised = bound.filter(|_| self.mode == AffinityMode::Soft && self.asked.is_none());
        request.affinity_target = self.aimed.or(advised.map(|bound| bound.target()));
    }

    /// Whether nothing was decided because the worker of a hard binding is gone by now. Then it is
    /// to be decided again.
    pub(super) fn lost_by_error(&self, error: &DispatchError) -> bool {
        is_gone(error) && self.may_renew()
    }

    fn may_renew(&self) -> bool {
        self.pin().is_some() && self.renewals < MOST_RENEWALS
    }

    /// The same error, where it isn't the client's own pin that it is about: its session's worker is
    /// gone again and again, and it has asked for none.
    pub(super) fn in_words(&self, error: DispatchError, partition: &PartitionKey) -> DispatchError {
        if self.asked.is_some() || self.pin().is_none() || !is_gone(&error) {
            return error;
        }
        let (partition, excluded) = (partition.clone(), Exclusions::default());
        RouteError::NoEndpoints { partition, excluded }.into()
    }

    /// Whether what was decided isn't what a hard binding stands for: another life of its worker.
    pub(super) fn lost_by_decision(&self, receipt: &Receipt) -> bool {
        let elsewhere = |bound: Bound| bound != chosen(receipt);
        self.pin().is_some_and(elsewhere) && self.may_renew()
    }

    /// Whether a request that could be tried elsewhere must not: a hard binding holds while its
    /// worker only has too much to do.
    pub(super) fn holds(&self, was_overload: bool) -> bool {
        was_overload && self.pin().is_some()
    }

    /// The worker of a hard binding couldn't be had: this request makes another binding, or goes by
    /// the one that somebody has made since. Nothing otherwise.
    pub(super) async fn renew(
        &mut self,
        front: &Front,
        request: &mut RouteRequest,
        end: Instant,
    ) -> Result<(), ApiError> {
        if self.pin().is_none() {
            return Ok(());
        }
        self.renewals = self.renewals.saturating_add(1);
        if self.lease.as_mut().is_some_and(SessionLease::lost) {
            self.tell(request);
            return Ok(());
        }
        self.enter(front, request, end).await
    }

    /// An answer is to be passed on: if it has begun well, the session is bound to its worker, and
    /// the stay ends with it.
    pub(super) fn end(self, attempt: &mut Attempt) {
        if let Some(mut lease) = self.lease
            && attempt.has_begun()
        {
            lease.started(chosen(attempt.receipt()));
            attempt.session = Some(lease);
        }
    }
}

/// Whether nothing was decided because the one worker that could be isn't there.
fn is_gone(error: &DispatchError) -> bool {
    let DispatchError::Route(RouteError::PinnedWorker { problem, .. }) = error else {
        return false;
    };
    matches!(
        problem,
        PinProblem::NotRoutable | PinProblem::WorkerUnavailable | PinProblem::RankUnavailable
    )
}

fn chosen(receipt: &Receipt) -> Bound {
    Bound { worker: receipt.worker, epoch: receipt.epoch }
}

#[cfg(test)]
mod tests;
