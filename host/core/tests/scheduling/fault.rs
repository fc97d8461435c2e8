//! What can be broken on purpose, and what a run can find broken.

use std::fmt;

/// One way in which a driver can do its part wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A cancelled request's booking is never given back.
    LeakCancelled,
    /// A request is booked twice.
    BookTwice,
    /// What a worker's earlier life carried is booked on the later one.
    CarryOver,
    /// Who leaves the line is not taken out of it.
    KeepWaiter,
    /// The line isn't told when a request is due.
    IgnoreDue,
    /// The line isn't told of strict priority.
    IgnoreStrict,
    /// The prefill is not given back at the first token.
    KeepPrefill,
    /// Nobody looks at the line when the bell rings.
    Deaf,
    /// Nobody looks at the line when its classes, or what is booked, are other ones.
    ReloadUnseen,
    /// Who comes is decided without a look at the line.
    PassAll,
    /// What nobody speaks of any more is kept.
    NeverExpire,
}

/// A promise that can be found broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// A row's active requests are the live ones of its worker's life.
    Requests,
    /// A row's prefill tokens are those of its live requests without a first token.
    Prefill,
    /// There are as many live leases as live requests.
    Leases,
    /// A second count of the books finds nothing wrong.
    Audit,
    /// What is pending in each class is who waits in it.
    Pending,
    /// Only who waits is answered, and once.
    Answers,
    /// Nobody is decided, or waits on, once he is due; nobody is told so before.
    DueTime,
    /// Nobody of higher strict priority who might pass was left.
    StrictPriority,
    /// Who is decided was the first of its lane.
    Order,
    /// Nobody passes whose ranks are busy.
    Busy,
    /// Nobody waits at the head of a lane who may pass.
    WorkConserving,
    /// When everything has ended, nothing is left.
    Rest,
}

/// A broken promise.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) promise: Promise,
    pub(crate) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.detail)
    }
}

/// Fails with a promise, unless it is kept.
pub(crate) fn keep(
    promise: Promise,
    kept: bool,
    detail: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if kept { Ok(()) } else { Err(Violation { promise, detail: detail() }) }
}
