//! `pointsman select`: `serve` with one door open.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::config::{Config, SelectConfig};
use crate::serve::Doors;

/// Serve worker selection alone.
#[derive(Debug, Args)]
pub(super) struct Select {
    /// The configuration file; left out, the defaults hold, and workers come over POST /workers
    #[arg(long, short, value_name = "FILE", env = "POINTSMAN_CONFIG")]
    config: Option<PathBuf>,
    /// Where to listen, in place of `select.address` [default: 127.0.0.1:8092]
    #[arg(long, short, value_name = "IP:PORT")]
    address: Option<SocketAddr>,
}

impl Select {
    /// Operators are served too if the file has `admin`: what isn't asked for isn't opened.
    pub(super) fn run(self) -> Result<ExitCode> {
        let mut config = match &self.config {
            Some(path) => Config::from_path(path)
                .with_context(|| format!("can't serve with {}", path.display()))?,
            None => Config::default(),
        };
        let select = config.select.get_or_insert_with(SelectConfig::default);
        if let Some(address) = self.address {
            select.listener.address = address;
        }
        config.epp = None;
        let doors = Doors { public: false, admin: config.places.key("admin").is_some() };
        super::block_on(crate::serve::run(config, self.config, doors))?;
        Ok(ExitCode::SUCCESS)
    }
}
