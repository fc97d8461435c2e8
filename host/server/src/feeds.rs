//! What engines tell of their caches, and how it gets into the index.
//!
//! Owns everything between an engine's KV-cache events and [`CacheSink`]: finding the endpoints,
//! connecting, the wire formats of all versions, losses and restarts. Discovery starts a [`Feed`]
//! for each rank of a worker that publishes and drops it when the rank goes; the admin API hands
//! over what is pushed. It doesn't know partitions, or what the index is asked.
//!
//! The modules stand in the order in which an event meets them.

pub mod endpoint;
pub mod sources;

pub mod zmtp;

mod msgpack;
pub mod wire;

pub mod cursor;
pub mod intake;
pub mod pushed;

pub mod stats;
pub mod subscriber;

pub use endpoint::{Address, Attach};
pub use intake::{CacheSink, Intake};
pub use sources::Source;
pub use stats::{FeedSnapshot, FeedState, FeedStats, Skip};
pub use subscriber::{Feed, FeedConfig, Timing};

#[cfg(test)]
mod testing;
