//! The decision core: which worker gets a request, and what it then carries.
//!
//! Everything here is synchronous and does no I/O. Time, chance and the fleet come in as
//! arguments, so that a decision can be made again, bit for bit, from its record. Sockets, async
//! runtimes, wasm and YAML are other crates' business.
//!
//! The modules stand in the order in which a request meets them.

pub mod clock;
pub mod ids;

pub mod disaggregation;
pub mod fleet;
pub mod request;

pub mod hashing;
pub mod index;

pub mod cache;

pub mod affinity;
pub mod eligibility;
pub mod hosted;
pub mod ledger;

mod lanes;
pub mod policy;

pub mod admission;
pub mod classifier;
pub mod queue;

pub mod outcome;
pub mod partition;
pub mod receipt;
pub mod recording;
pub mod rollout;
pub mod router;

mod error;
pub mod testing;

pub use error::{BuildError, RouteError};
