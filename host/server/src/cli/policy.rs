//! `pointsman policy`: from source to component, a look into one, and one out of a registry.

mod build;
pub mod inspect;
mod pull;
mod replay;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Policy {
    /// Build policy crates to components, with a wasm toolchain that is set up if there is none
    Build(build::Build),
    /// Show what a component is: its name, stages and inputs, or what it classifies requests with, its imports and digest
    Inspect(inspect::Inspect),
    /// Pull a component out of an OCI registry into the policies folder, proven by its digest
    Pull(Box<pull::Pull>),
    /// Make recorded decisions again, by the same policy or another one, and show where it differs
    Replay(replay::ReplayArgs),
}

impl Policy {
    pub(super) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Build(build) => build.run(),
            Self::Inspect(inspect) => inspect.run(),
            Self::Pull(pull) => pull.run(),
            Self::Replay(replay) => replay.run(),
        }
    }
}
