//! How answers end, in the words that metrics have for it.

/// How an answer that a worker began ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Whole, and with its terminator if it streamed.
    Completed,
    /// Whole, but the worker itself reported an error in the middle of its stream.
    WorkerError,
    /// The worker broke it off, or left out the terminator.
    Truncated,
    /// The worker fell silent, or took longer than a request may.
    TimedOut,
    /// The client went away.
    Aborted,
}

impl Outcome {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::WorkerError => "worker_error",
            Self::Truncated => "truncated",
            Self::TimedOut => "timed_out",
            Self::Aborted => "aborted",
        }
    }
}
