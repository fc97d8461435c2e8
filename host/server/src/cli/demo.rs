//! `pointsman demo`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::demo::{self, Options};

/// Run the guided tour.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// End after the tour, with exit code 0 only if all held
    #[arg(long)]
    once: bool,
    /// Print one JSON document instead of prose
    #[arg(long)]
    json: bool,
    /// Show this policy of the source tree's policies folder, in place of least-busy and least-prefill
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
}

impl Demo {
    pub(super) fn run(self) -> Result<ExitCode> {
        let options = Options { once: self.once, json: self.json, policy: self.policy };
        let held = super::block_on(demo::run(options))?;
        Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
