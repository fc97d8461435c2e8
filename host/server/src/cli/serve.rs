//! `pointsman serve`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use super::ConfigArg;
use crate::config::Config;
use crate::serve::Doors;

/// Serve requests.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigArg,
}

impl Serve {
    pub(super) fn run(self) -> Result<ExitCode> {
        let path = self.config.config;
        let config = Config::from_path(&path)
            .with_context(|| format!("can't serve with {}", path.display()))?;
        super::block_on(crate::serve::run(config, Some(path), Doors::default()))?;
        Ok(ExitCode::SUCCESS)
    }
}
