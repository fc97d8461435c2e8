//! From a policy's source to a component: finds or sets up a compiler for WebAssembly, builds the crate, encodes the result.
//!
//! Two callers: the CLI (`policy build`, `demo`) and build scripts that need guests made from source. The crate knows guests and the tools that
//! make them. It doesn't know the router or wasmtime. Of Rust guests any of wit-bindgen's will do; for other languages it holds the contract's
//! files, and makes bindings of them.
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
mod contract;
mod environment;
mod guest;
mod language;
mod languages;
mod lock;
mod progress;
mod project;
mod setup;
mod toolchain;
mod tools;
mod write;

pub use cache::CacheError;
pub use command::CommandError;
pub use component::{ComponentError, componentize, digest};
pub use contract::{
    TYPES as CONTRACT_TYPES, digest as contract_digest, write_for_c as write_contract_for_c,
};
pub use guest::{BuildError, Built, GuestOptions, build_folders, build_many, build_policy};
pub use language::Language;
pub use progress::{Lines, Progress, Quiet, Spinner, Step, for_stderr};
pub use setup::Setup;
pub use toolchain::{RustupOutcome, Source, Target, Toolchain, ToolchainError};
pub use write::{prepare_folder, write_atomically};
