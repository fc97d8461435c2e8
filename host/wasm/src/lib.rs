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
//! Four things: arming (fuel, deadline, the limiter), lowering the request and the columns into
//! the guest, the guest's own work, lifting the answer. The parts that don't depend on the policy
//! are measured by `benches/select`; the last figures stand in `benches/README.md`.

#![forbid(unsafe_code)]

pub mod engine;

pub mod component;

mod bindings;
mod convert;
mod imports;
mod limits;
mod text;

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
pub use probe::{ProbeError, ProbeReport};
