//! Requests and events as a log keeps them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::classifier::facts::{
    Admitted, Arrival, Capacity, ClassifyRequest, LifecycleEvent, LiveRequest,
};
use crate::ids::WorkerRank;

/// A request as a classifier saw it, but for the time of the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedRequest {
    /// Its facts.
    pub arrival: Arrival,
    /// The most tokens that it had reached.
    pub progress_tokens: u64,
    /// When it came to the door, in milliseconds on the router's clock.
    pub arrived_at_ms: u64,
}

impl LoggedRequest {
    pub(super) fn of(request: &ClassifyRequest<'_>) -> Self {
        let ClassifyRequest { arrival, progress_tokens, arrived_at_ms, now_ms: _ } = *request;
        Self { arrival: arrival.clone(), progress_tokens, arrived_at_ms }
    }

    /// As a classifier sees it at a time.
    #[must_use]
    pub fn view(&self, now_ms: u64) -> ClassifyRequest<'_> {
        let Self { arrival, progress_tokens, arrived_at_ms } = self;
        let (progress_tokens, arrived_at_ms) = (*progress_tokens, *arrived_at_ms);
        ClassifyRequest { arrival, progress_tokens, arrived_at_ms, now_ms }
    }
}

/// An event. See [`LifecycleEvent`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoggedEvent {
    /// See [`LifecycleEvent::Inherited`].
    Inherited {
        /// As it came.
        request: Box<LoggedRequest>,
        /// What it went on with.
        admitted: Admitted,
        /// Where it was sent last.
        worker: Option<WorkerRank>,
        /// Whether its first output had come.
        responding: bool,
    },
    /// See [`LifecycleEvent::Admitted`].
    Admitted(Arc<str>),
    /// See [`LifecycleEvent::Sent`].
    Sent(Arc<str>, WorkerRank),
    /// See [`LifecycleEvent::Responding`].
    Responding(Arc<str>),
    /// See [`LifecycleEvent::Completed`].
    Completed(Arc<str>, Option<u64>),
    /// See [`LifecycleEvent::Aborted`].
    Aborted(Arc<str>, Option<WorkerRank>),
    /// See [`LifecycleEvent::FleetChanged`].
    FleetChanged(Arc<[Capacity]>),
    /// See [`LifecycleEvent::Tick`].
    Tick,
}

impl LoggedEvent {
    pub(super) fn of(event: &LifecycleEvent<'_>) -> Self {
        match *event {
            LifecycleEvent::Inherited(LiveRequest { request, admitted, worker, responding }) => {
                let (request, admitted) = (LoggedRequest::of(&request).into(), admitted.clone());
                Self::Inherited { request, admitted, worker, responding }
            }
            LifecycleEvent::Admitted(id) => Self::Admitted(id.into()),
            LifecycleEvent::Sent(id, worker) => Self::Sent(id.into(), worker),
            LifecycleEvent::Responding(id) => Self::Responding(id.into()),
            LifecycleEvent::Completed(id, tokens) => Self::Completed(id.into(), tokens),
            LifecycleEvent::Aborted(id, worker) => Self::Aborted(id.into(), worker),
            LifecycleEvent::FleetChanged(fleet) => Self::FleetChanged(fleet.into()),
            LifecycleEvent::Tick => Self::Tick,
        }
    }

    /// As a classifier is told of it at a time.
    #[must_use]
    pub fn view(&self, now_ms: u64) -> LifecycleEvent<'_> {
        match self {
            Self::Inherited { request, admitted, worker, responding } => {
                LifecycleEvent::Inherited(LiveRequest {
                    request: request.view(now_ms),
                    admitted,
                    worker: *worker,
                    responding: *responding,
                })
            }
            Self::Admitted(id) => LifecycleEvent::Admitted(id),
            Self::Sent(id, worker) => LifecycleEvent::Sent(id, *worker),
            Self::Responding(id) => LifecycleEvent::Responding(id),
            Self::Completed(id, tokens) => LifecycleEvent::Completed(id, *tokens),
            Self::Aborted(id, worker) => LifecycleEvent::Aborted(id, *worker),
            Self::FleetChanged(fleet) => LifecycleEvent::FleetChanged(fleet),
            Self::Tick => LifecycleEvent::Tick,
        }
    }

    /// Whose request it is about; none for what is about nobody's.
    #[must_use]
    pub fn request_id(&self) -> Option<&Arc<str>> {
        match self {
            Self::Inherited { request, .. } => Some(&request.arrival.request_id),
            Self::Admitted(id)
            | Self::Sent(id, _)
            | Self::Responding(id)
            | Self::Completed(id, _)
            | Self::Aborted(id, _) => Some(id),
            Self::FleetChanged(_) | Self::Tick => None,
        }
    }

    /// The word for what happened.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Inherited { .. } => "inherited",
            Self::Admitted(_) => "admitted",
            Self::Sent(..) => "sent",
            Self::Responding(_) => "responding",
            Self::Completed(..) => "completed",
            Self::Aborted(..) => "aborted",
            Self::FleetChanged(_) => "fleet-changed",
            Self::Tick => "tick",
        }
    }
}
