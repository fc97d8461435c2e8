//! Why a request got no worker, and why no policy could be put in place.
//!
//! The server maps [`RouteError`] to a status and a stable kind in one place of its own.

use std::sync::Arc;

use thiserror::Error;

use crate::eligibility::{Exclusions, PinProblem};
use crate::ids::{PartitionKey, WorkerTarget};
use crate::policy::failure::StageFailure;
use crate::queue::QueueRejected;

pub use crate::policy::selection::BuildError;

/// Why a request got no worker.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RouteError {
    /// No such partition.
    #[error("no worker serves {0}; ask for a model that one serves")]
    NoPartition(PartitionKey),
    /// The partition has no worker that may have it.
    #[error("no worker of {partition} may have this request: {excluded}")]
    NoEndpoints {
        /// Where.
        partition: PartitionKey,
        /// Why each was left out.
        excluded: Exclusions,
    },
    /// Some might, but all of those have too much to do.
    #[error("all eligible workers of {0} are overloaded; try again later")]
    AllEligibleWorkersOverloaded(PartitionKey),
    /// The policy's filters rejected all of them.
    #[error(
        "policy {policy:?} filtered out all {eligible} eligible rows of {partition}; try again later"
    )]
    AllEligibleWorkersFiltered {
        /// Where.
        partition: PartitionKey,
        /// Whose filters.
        policy: String,
        /// How many there were.
        eligible: u32,
    },
    /// The pinned worker can't have it.
    #[error("worker {target} {why}", why = problem.describe())]
    PinnedWorker {
        /// Which.
        target: WorkerTarget,
        /// Why not.
        problem: PinProblem,
    },
    /// The policy sends requests only where they say, and this one doesn't say.
    #[error(
        "policy {policy:?} sends a request only to the worker that it names, and this one names none; \
         pin it to a worker, or send it in a session that is bound to one"
    )]
    NoTarget {
        /// Where.
        partition: PartitionKey,
        /// Which policy.
        policy: Arc<str>,
    },
    /// The policy failed, and its owner wants that to be an error. What the policy itself said is
    /// in the failure, for the operator, and not in the message, which may reach the client.
    #[error(
        "policy {policy:?} failed to select a worker ({cause}); the router's log says more",
        policy = _0.policy, cause = _0.cause
    )]
    Policy(Box<StageFailure>),
    /// It would have to wait, and as much waits as may.
    #[error("{rejected} ({partition})")]
    QueueRejected {
        /// Where.
        partition: PartitionKey,
        /// In which class, and of what too much waits.
        rejected: QueueRejected,
    },
    /// Its time went by before it was decided.
    #[error(
        "the request for {partition} was due {late_ms} ms ago, and still waited; \
         give it more time, or try again later"
    )]
    DeadlineExceeded {
        /// Where.
        partition: PartitionKey,
        /// By how much it is late, in milliseconds.
        late_ms: u64,
    },
    /// It would have to wait, and said that it won't.
    #[error(
        "all workers of {partition} that may have the request are busy, and `do_not_queue` is set; \
         try again later, or let it wait in class {policy_class:?}"
    )]
    DoNotQueue {
        /// Where.
        partition: PartitionKey,
        /// In which class it would have waited.
        policy_class: Arc<str>,
    },
}

impl RouteError {
    /// The stable word for it, in answers and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoPartition(_) => "no_such_model",
            Self::NoEndpoints { .. } => "no_endpoints",
            Self::AllEligibleWorkersOverloaded(_) => "all_eligible_workers_overloaded",
            Self::AllEligibleWorkersFiltered { .. } => "all_eligible_workers_filtered",
            Self::PinnedWorker { problem, .. } => match problem {
                PinProblem::NotAllowed => "pinned_worker_not_allowed",
                PinProblem::Overloaded => "pinned_worker_overloaded",
                _ => "pinned_worker_unavailable",
            },
            Self::NoTarget { .. } => "no_target_worker",
            Self::Policy(_) => "worker_selection_policy",
            Self::QueueRejected { .. } => "queue_rejected",
            Self::DeadlineExceeded { .. } => "deadline_exceeded",
            Self::DoNotQueue { .. } => "do_not_queue",
        }
    }
}

/// Names one after the other, or `none`.
pub(crate) fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
