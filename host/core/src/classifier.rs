//! Request classifiers: who admits requests to the queue, holds them until an event, or refuses them.
//!
//! Owns the traits ([`RequestClassifier`], [`ClassifierProvider`]), what they are told and answer, and
//! a partition's [`Desk`]: its classifier, the lifecycles of its requests, and those that are held.
//! Everything is synchronous, and time is an argument: who waits, and on what, is the server's
//! business. It doesn't know queues: an admitted request goes on with a class, a due time, a cost and
//! a target, and what those mean is decided behind.

mod bench;
mod counts;
mod desk;
mod error;
mod facts;
mod held;
mod lifecycle;
mod lifecycles;
mod log;
mod provider;
mod seat;
mod spec;
mod trial;

pub use counts::ClassifierCounts;
pub use desk::{ClassifierReport, Desk};
pub use error::ClassificationError;
pub use facts::{
    Admission, Admitted, Arrival, Capacity, ClassifyRequest, LifecycleEvent, LiveRequest, Release,
    Verdict, capacities,
};
pub use lifecycle::{Lifecycle, Ticket};
pub use lifecycles::{Arrived, Released};
pub use log::{Answer, Beginning, ClassifierLog, LogEntry, Logged, LoggedEvent, LoggedRequest};
pub use provider::{
    ClassifierDeclaration, ClassifierEnvironment, ClassifierProvider, RequestClassifier,
};
pub use seat::Seat;
pub(crate) use spec::SeatContext;
pub use spec::{ClassifierSpec, SeatError};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
