//! What became of the decisions, for policies that learn.

use crate::Result;
use crate::request::Worker;

/// One thing that happened to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutcomeEvent {
    /// The router turns to the worker with the request.
    Dispatched,
    /// The worker's first output arrived.
    FirstToken,
    /// The answer ended well, after so many output tokens; 0 where they couldn't be counted.
    Completed(u64),
    /// The answer failed, in a few words.
    Failed(String),
    /// The client went away.
    Cancelled,
}

/// An event, with what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The decision, as in [`Request::decision_id`](crate::Request::decision_id).
    pub decision_id: u64,
    /// The worker that the event concerns.
    pub worker: Worker,
    /// When, on the clock of [`Request::now_ms`](crate::Request::now_ms).
    pub at_ms: u64,
    /// What.
    pub event: OutcomeEvent,
}

/// Learns from what became of the decisions.
///
/// Called between decisions, off their path, in batches and in order. Outcomes may be lost when an
/// instance is replaced. To learn in the same value that scores, wrap it in
/// [`Shared`](crate::Shared). All booked decisions of the partition are told, whoever made them; what
/// the events mean, and the reasons of failures, stand in the contract's page.
pub trait Observer: Send + 'static {
    /// Takes note.
    ///
    /// # Errors
    ///
    /// The contract has no place for an error here; the SDK logs it as a warning.
    fn observe(&mut self, outcomes: &[Outcome]) -> Result;
}
