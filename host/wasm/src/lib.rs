//! Policies as WebAssembly components: found in a folder, compiled, linked, limited, called.
//!
//! Presents each component as a [`pointsman_core::policy::PolicyProvider`], so that the core never
//! learns what a policy is made of. Knows nothing of HTTP, of the operator's YAML or of discovery.
//!
//! The way of a component, which is also the order of the modules:
//!
//! 1. [`PolicyEngine`]: the settings of all compiled code, the clock that ends calls, the thread
//!    that replaces lost instances.
//! 2. [`ComponentPolicy`]: bytes checked, compiled, linked once; makes instances.
//! 3. The instance: one store per (policy instance, partition), fresh fuel for every call.
//! 4. [`PolicyFolder`]: which files there are, which version of each serves, and why.
//!
//! # What a call costs
//!
//! A `decide` by `policies/default-cost`, 64 rows, five of its nine columns one number, in instructions (`valgrind`,
//! release build, 2026-11-30; some 11 of them take a nanosecond):
//!
//! | part | instructions |
//! |---|---|
//! | the core's: rows, columns, checks of the answer, trace | 2,900 |
//! | arming and disarming (fuel, deadline, limiter, log), values turned into the contract's | 600 |
//! | lowering: fourteen flat values; one call into the guest for room for the list of numbers, and its copy | 700 |
//! | wasmtime's way in and out of the two calls: the function found, the trap handler, the places checked | 1,750 |
//! | lifting the answer: its list copied | 1,050 |
//! | the guest: values turned into the SDK's, views of the columns, three stages, its heap | 3,300 |
//! | the guest: the formula over 64 rows, and the lowest cost | 2,000 |
//!
//! `request` and `candidates` are so few values that they go by registers; stored in the guest's memory field by field, as more than
//! sixteen would be, each would cost some 80 instructions. A list that is there costs a call into the guest, one that isn't
//! costs nothing. An answer of the SDK's stands in memory that the guest keeps, so that nobody frees it. At 1,024 rows and more, the formula, the
//! columns' copies and the checks of costs are nearly all of it.

#![forbid(unsafe_code)]

pub mod engine;

pub mod component;

mod bindings;
mod convert;
mod deadline;
mod file;
mod imports;
mod limits;
mod text;
pub mod trust;

mod instance;
pub mod probe;

pub mod catalog;

pub mod counters;
pub mod error;

pub use catalog::{FolderOptions, FolderState, PolicyFolder, TypeChange, TypeStatus, WatchGuard};
pub use component::{ComponentPolicy, Description, SizeClass};
pub use counters::{Counters, CountersSnapshot};
pub use engine::{EngineConfig, EngineError, PolicyEngine};
pub use error::LoadError;
pub use file::open_regular;
pub use probe::{ProbeError, ProbeReport};
pub use trust::{Distrust, Trust, TrustError, signature_of};
