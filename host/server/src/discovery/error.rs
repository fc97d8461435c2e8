//! Why the keeper did not do what it was asked.

use pointsman_core::fleet::FleetError;
use pointsman_core::ids::WorkerId;
use pointsman_core::router::RegisterError;
use thiserror::Error;

use super::cache::PushRefusal;
use crate::feeds::pushed;

/// Why the keeper did not do what it was asked.
#[derive(Debug, Error)]
pub enum KeeperError {
    /// There is no such worker.
    #[error("no worker {0}; see the list of workers for those that are registered")]
    Unknown(WorkerId),
    /// Its lease can't be renewed, since it has none.
    #[error("worker {0} has no lease to renew; register it with `lease`, or send no heartbeats")]
    NoLease(WorkerId),
    /// It is leaving; only a new registration brings it back.
    #[error("worker {0} is draining; register it again to bring it back")]
    Draining(WorkerId),
    /// The router refuses it.
    #[error(transparent)]
    Refused(RegisterError),
    /// The router is being stopped.
    #[error("the router is stopping; register the worker elsewhere")]
    Stopping,
}

/// Why pushed events were not taken. None of them were, unless it says that the worker began anew.
#[derive(Debug, Error)]
pub enum PushError {
    /// There is no such worker.
    #[error("no worker {0}; see the list of workers for those that are registered")]
    Unknown(WorkerId),
    /// The worker takes none, or not for that rank.
    #[error("worker {worker} {refusal}")]
    Refused {
        /// Which.
        worker: WorkerId,
        /// Why.
        refusal: PushRefusal,
    },
    /// The body isn't what it should be.
    #[error(transparent)]
    Body(#[from] pushed::PushError),
    /// Others are pushing, and it isn't over soon.
    #[error("too many events are being pushed at a time; push these again in a second")]
    Busy,
    /// The thread that took them died; a bug of ours.
    #[error("the events were abandoned: {0}; push them again")]
    Abandoned(String),
}

impl From<RegisterError> for KeeperError {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Fleet(FleetError::Unknown(id)) => Self::Unknown(id),
            other => Self::Refused(other),
        }
    }
}
