//! `pointsman mock-engine`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::mock_engine::{MockConfig, MockEngine};

/// Run a mock engine.
#[derive(Debug, Args)]
pub(super) struct MockEngineArgs {
    #[command(flatten)]
    config: MockConfig,
}

impl MockEngineArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { config } = self;
        config.check().context("can't run such an engine")?;
        super::block_on(async {
            let mut signals =
                crate::serve::Signals::listen().context("can't listen for signals")?;
            let address = config.addr;
            let engine = MockEngine::start(config)
                .with_context(|| format!("can't run an engine on {address}"))?;
            super::say(&format!("mock engine {} at {}\n", engine.name(), engine.url()))?;
            signals.next().await;
            engine.shutdown().await;
            Ok(ExitCode::SUCCESS)
        })
    }
}
