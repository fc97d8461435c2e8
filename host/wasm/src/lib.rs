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
//! the guest, the guest's own work, lifting the answer. The first is small; most of the floor is
//! wasmtime storing the request record field by field.
//!
//! | call | 1 row | 64 rows | 1,024 rows |
//! |---|---|---|---|
//! | `score`, written by hand | 0.7 us | 0.7 us | 1.2 us |
//! | `keep`, `score` or `pick` of `policies/least-busy` | | 1.1–1.3 us | |
//! | `decide` of it: all three stages in one call | | 1.8 us | 6.4 us |
//!
//! (Release build, two busy cores, best of ten, 2026-11-29.)

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
