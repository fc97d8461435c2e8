//! Why a request didn't get past its classifier.

use thiserror::Error;

use crate::policy::Cause;

/// Why a request isn't admitted. No message has a classifier's own words: those are in the log.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClassificationError {
    /// The classifier refuses it.
    #[error("the request classifier refuses this request; the router's log says why")]
    Rejected,
    /// The classifier failed, and its owner wants that to be an error.
    #[error("the request classifier failed ({0}); the router's log says more")]
    Failed(Cause),
    /// Another live request has its id.
    #[error(
        "a request with the id {0:?} is being served; give each request an id of its own in x-request-id"
    )]
    Duplicate(String),
    /// Nobody waits for it any more.
    #[error("the request ended before it was classified")]
    LifecycleEnded,
}

impl ClassificationError {
    /// The stable word for it, in answers and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rejected => "request_classifier_rejected",
            Self::Failed(Cause::Trap) => "request_classifier_panicked",
            Self::Failed(_) => "request_classifier_failed",
            Self::Duplicate(_) => "duplicate_classification_request_id",
            Self::LifecycleEnded => "classification_lifecycle_ended",
        }
    }
}
