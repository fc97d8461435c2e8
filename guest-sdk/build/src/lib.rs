//! From a policy's source to a component: finds or sets up a compiler for WebAssembly, builds the crate, encodes the result.
//!
//! Two callers: the CLI (`policy build`, `demo`) and build scripts that need guests made from source. The crate knows Rust guests and the
//! tools that make them. It doesn't know the router, wasmtime, or what a policy's contract says: any wit-bindgen guest will do.
//!
//! ```no_run
//! use pointsman_build::{GuestOptions, Quiet, Setup, Toolchain, build_policy};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let setup = Setup::from_env()?;
//! let toolchain = Toolchain::ensure(&setup, &Quiet)?;
//! let built = build_policy(&toolchain, "policies/least-busy".as_ref(), &GuestOptions::default(), &Quiet)?;
//! assert_eq!(built.digest.len(), 64);
//! # Ok(())
//! # }
//! ```
//!
//! A first [`Toolchain::ensure`] may download and compile for a minute; later ones read two files. Nothing is installed system-wide.

#![forbid(unsafe_code)]

mod cache;
mod command;
mod component;
mod environment;
mod guest;
mod progress;
mod setup;
mod toolchain;
mod write;

pub use cache::CacheError;
pub use command::CommandError;
pub use component::{ComponentError, componentize, digest};
pub use guest::{BuildError, Built, GuestOptions, build_many, build_policy};
pub use progress::{Lines, Progress, Quiet, Spinner, Step, for_stderr};
pub use setup::Setup;
pub use toolchain::{RustupOutcome, Source, Target, Toolchain, ToolchainError};
pub use write::{prepare_folder, write_atomically};
