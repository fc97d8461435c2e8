//! A public production trace, replayed through the router's core against simulated engines.
//!
//! The core is the real one: policies by name, leases, events applied to the partition's cache. The
//! engines and the clock are simulated, so that an hour of traffic takes a moment and comes out
//! the same each time. Modules stand in the order in which a request meets them.

pub mod requests;

pub mod memory;

pub mod engine;

pub mod replay;

pub mod figures;

pub mod plan;

pub mod runs;

pub mod sweep;
