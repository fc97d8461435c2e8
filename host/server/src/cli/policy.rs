//! `pointsman policy`: from source to component, and a look into one.

mod build;
mod inspect;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Policy {
    /// Build policy crates to components, with a wasm toolchain that is set up if there is none
    Build(build::Build),
    /// Show what a component is: its name, stages, inputs, imports and digest
    Inspect(inspect::Inspect),
}

impl Policy {
    pub(super) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Build(build) => build.run(),
            Self::Inspect(inspect) => inspect.run(),
        }
    }
}
