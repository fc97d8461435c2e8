//! `pointsman policy`: from source to component, and a look into one.

mod build;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Policy {
    /// Build a policy crate to a component, with a wasm toolchain that is set up if there is none
    Build(build::Build),
}

impl Policy {
    pub(super) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Build(build) => build.run(),
        }
    }
}
