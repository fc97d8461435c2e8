//! Why the keeper did not do what it was asked.

use pointsman_core::fleet::FleetError;
use pointsman_core::ids::WorkerId;
use pointsman_core::router::RegisterError;
use thiserror::Error;

/// Why the keeper did not do what it was asked.
#[derive(Debug, Error)]
pub enum KeeperError {
    /// There is no such worker.
    #[error("no worker {0}; see GET /v1/workers for those that are registered")]
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

impl From<RegisterError> for KeeperError {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Fleet(FleetError::Unknown(id)) => Self::Unknown(id),
            other => Self::Refused(other),
        }
    }
}
