//! A request's stay with its session, over all of its tries.
//!
//! Owns how a binding bears on a request (a pin, or a target that the policy may heed), for how long
//! another's is waited for, and what is done when the bound worker couldn't be had. A target that the
//! request comes with is its classifier's, which knows of the session, too: it goes before that of a
//! soft binding. What a binding is, and what moves and ends it, is the core's:
//! [`pointsman_core::affinity`]. It doesn't know by which door the request came.

use std::time::Duration;

use pointsman_core::RouteError;
use pointsman_core::admission::overdue;
use pointsman_core::affinity::{AffinityMode, Ask, Bound, Conflict, Entry, SessionLease};
use pointsman_core::eligibility::{Exclusions, PinProblem};
use pointsman_core::ids::{PartitionKey, WorkerTarget};
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use tokio::time::{Instant, timeout_at};

use crate::dispatch::{DispatchError, Dispatcher};

/// A request's stay with its session.
#[derive(Debug)]
pub(crate) struct Stay {
    /// None if it is of no session that is bound.
    lease: Option<SessionLease>,
    mode: AffinityMode,
    /// The client's own pin.
    asked: Option<WorkerTarget>,
    /// The target that the request came with.
    aimed: Option<WorkerTarget>,
    /// How often the bound worker was lost before the request was sent to it.
    renewals: u8,
}

/// How often a request makes or finds another binding: a fleet that changes faster has none to give.
const MOST_RENEWALS: u8 = 8;

/// Why a request has no stay.
#[derive(Debug)]
pub(crate) enum Unsettled {
    /// It is pinned to another worker than its session.
    Conflict(Conflict),
    /// It was due before another request of the session had made its binding.
    Late(RouteError),
    /// All its time went by before that.
    TooLate,
}

impl Stay {
    /// Waits for another request of the session that makes its binding, until `end`; then tells the
    /// request what it is bound to.
    pub(crate) async fn begin(
        dispatcher: &Dispatcher,
        request: &mut RouteRequest,
        end: Instant,
    ) -> Result<Self, Unsettled> {
        let (asked, aimed) = (request.constraints.pinned, request.affinity_target);
        let mode = AffinityMode::default();
        let mut this = Self { lease: None, mode, asked, aimed, renewals: 0 };
        this.enter(dispatcher, request, end).await?;
        Ok(this)
    }

    async fn enter(
        &mut self,
        dispatcher: &Dispatcher,
        request: &mut RouteRequest,
        end: Instant,
    ) -> Result<(), Unsettled> {
        self.lease = None;
        while let Some(session) = &request.session
            && let Some(terms) = dispatcher.router().settings().session_affinity()
            && let Some(partition) = dispatcher.router().partition(&request.partition)
        {
            self.mode = terms.mode;
            let now_ms = dispatcher.clock().now_ms();
            let ask = Ask { session, pinned: self.asked, terms, now_ms };
            let entry = partition.enter_session(&ask);
            match entry.map_err(Unsettled::Conflict)? {
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
                        return Err(late.map_or(Unsettled::TooLate, Unsettled::Late));
                    }
                }
            }
        }
        self.tell(request);
        Ok(())
    }

    /// What a hard binding pins the request to.
    pub(crate) fn pin(&self) -> Option<Bound> {
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
    pub(crate) fn lost_by_error(&self, error: &DispatchError) -> bool {
        is_gone(error) && self.may_renew()
    }

    fn may_renew(&self) -> bool {
        self.pin().is_some() && self.renewals < MOST_RENEWALS
    }

    /// The same error, where it isn't the client's own pin that it is about: its session's worker is
    /// gone again and again, and it has asked for none.
    pub(crate) fn in_words(&self, error: DispatchError, partition: &PartitionKey) -> DispatchError {
        if self.asked.is_some() || self.pin().is_none() || !is_gone(&error) {
            return error;
        }
        let (partition, excluded) = (partition.clone(), Exclusions::default());
        RouteError::NoEndpoints { partition, excluded }.into()
    }

    /// Whether what was decided isn't what a hard binding stands for: another life of its worker.
    pub(crate) fn lost_by_decision(&self, receipt: &Receipt) -> bool {
        let elsewhere = |bound: Bound| bound != chosen(receipt);
        self.pin().is_some_and(elsewhere) && self.may_renew()
    }

    /// Whether a request that could be tried elsewhere must not: a hard binding holds while its
    /// worker only has too much to do.
    pub(crate) fn holds(&self, was_overload: bool) -> bool {
        was_overload && self.pin().is_some()
    }

    /// The worker of a hard binding couldn't be had: this request makes another binding, or goes by
    /// the one that somebody has made since. Nothing otherwise.
    pub(crate) async fn renew(
        &mut self,
        dispatcher: &Dispatcher,
        request: &mut RouteRequest,
        end: Instant,
    ) -> Result<(), Unsettled> {
        if self.pin().is_none() {
            return Ok(());
        }
        self.renewals = self.renewals.saturating_add(1);
        if self.lease.as_mut().is_some_and(SessionLease::lost) {
            self.tell(request);
            return Ok(());
        }
        self.enter(dispatcher, request, end).await
    }

    /// A worker has the request: the session is bound to it. What comes back is to be kept for as long as
    /// the request goes on.
    pub(crate) fn started(self, receipt: &Receipt) -> Option<SessionLease> {
        let mut lease = self.lease?;
        lease.started(chosen(receipt));
        Some(lease)
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

/// What the session is bound to now bears on a request of which nothing is made, unless it says itself
/// where to go.
pub(crate) fn foresee(dispatcher: &Dispatcher, request: &mut RouteRequest) {
    let router = dispatcher.router();
    let says_itself = request.affinity_target.is_some() || request.constraints.pinned.is_some();
    if let Some(session) = request.session.as_ref().filter(|_| !says_itself)
        && let Some(terms) = router.settings().session_affinity()
        && let Some(partition) = router.partition(&request.partition)
    {
        let now_ms = dispatcher.clock().now_ms();
        let bound = partition.peek_session(&Ask { session, pinned: None, terms, now_ms });
        let target = bound.map(|bound| bound.target());
        match terms.mode {
            AffinityMode::Hard => request.constraints.pinned = target,
            AffinityMode::Soft => request.affinity_target = target,
        }
    }
}

/// The stay of a request that somebody has sent to a worker already: the session is bound to that, if it
/// isn't bound yet and nobody else is about to bind it, or follows its requests. None if it isn't bound.
pub(crate) fn belated(
    dispatcher: &Dispatcher,
    request: &RouteRequest,
    at: Bound,
) -> Option<SessionLease> {
    let session = request.session.as_ref()?;
    let terms = dispatcher.router().settings().session_affinity()?;
    let partition = dispatcher.router().partition(&request.partition)?;
    let now_ms = dispatcher.clock().now_ms();
    let ask = Ask { session, pinned: None, terms, now_ms };
    let Ok(Entry::Held(mut lease)) = partition.enter_session(&ask) else { return None };
    lease.started(at);
    Some(lease)
}
