//! `pointsman epp`: `serve` with one door open.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use super::ConfigArg;
use crate::config::{Config, EppConfig};
use crate::serve::Doors;

/// Serve the endpoint picker alone.
#[derive(Debug, Args)]
pub(super) struct Epp {
    #[command(flatten)]
    config: ConfigArg,
    /// Where to listen, in place of `epp.address` [default: 127.0.0.1:9002]
    #[arg(long, short, value_name = "IP:PORT")]
    address: Option<SocketAddr>,
}

impl Epp {
    /// Operators are served too if the file has `admin`: what isn't asked for isn't opened.
    pub(super) fn run(self) -> Result<ExitCode> {
        let path: PathBuf = self.config.config;
        let mut config = Config::from_path(&path)
            .with_context(|| format!("can't serve with {}", path.display()))?;
        let epp = config.epp.get_or_insert_with(EppConfig::default);
        if let Some(address) = self.address {
            epp.listener.address = address;
        }
        config.select = None;
        let doors = Doors { public: false, admin: config.places.key("admin").is_some() };
        super::block_on(crate::serve::run(config, Some(path), doors))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test's panic is its message")]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};
    use serde::Deserialize as _;

    use super::*;

    #[test]
    fn the_manifests_container_is_started_with_flags_that_there_are() {
        let manifests = include_str!("../../deploy/kubernetes.yaml");
        let each = serde_yaml::Deserializer::from_str(manifests);
        let mut all = each.map(|one| serde_json::Value::deserialize(one).unwrap());
        let deployment = all.find(|one| one["kind"] == "Deployment").unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let words = container["args"].as_array().unwrap().iter().map(|one| one.as_str().unwrap());
        let words: Vec<&str> = words.collect();
        assert_eq!(words[0], "epp");
        let read = Epp::augment_args(Command::new("epp")).try_get_matches_from(words);
        let read = Epp::from_arg_matches(&read.unwrap()).unwrap();
        assert_eq!(read.config.config, PathBuf::from("/etc/pointsman/pointsman.yaml"));
    }
}
