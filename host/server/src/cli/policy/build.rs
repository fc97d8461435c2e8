//! `pointsman policy build`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use pointsman_build::{GuestOptions, Setup, Toolchain, build_many, for_stderr};

/// What `--help` says of the set-up.
const ENVIRONMENT: &str = "\
The toolchain is found or set up in this order; nothing is installed system-wide:
  POINTSMAN_GUEST_RUSTC   the rustc that it names
  the rustc in use, if it has a wasm target
  rustup target add, for 60 seconds at most; not with POINTSMAN_NO_RUSTUP=1
  on Debian and its relatives, the distribution's packages, unpacked into the cache folder
The cache folder is POINTSMAN_CACHE_DIR, else $XDG_CACHE_HOME/pointsman, else ~/.cache/pointsman.";

/// Build policies.
#[derive(Debug, Args)]
#[command(after_long_help = ENVIRONMENT)]
pub(in crate::cli) struct Build {
    /// The crates' folders, each with a Cargo.toml
    #[arg(required = true, value_name = "CRATE_DIR")]
    crates: Vec<PathBuf>,
    /// Where the components go, each as PACKAGE.wasm; a policies folder takes them up at once
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Features to turn on, separated by commas
    #[arg(long, value_delimiter = ',')]
    features: Vec<String>,
    /// Leave the crates' default features out
    #[arg(long)]
    no_default_features: bool,
    /// Do without the network
    #[arg(long)]
    offline: bool,
}

impl Build {
    pub(in crate::cli) fn run(self) -> Result<ExitCode> {
        let progress = for_stderr();
        let setup = Setup::from_env().context("the environment's settings are of no use")?;
        let toolchain = Toolchain::ensure(&setup, &*progress)
            .context("no toolchain for WebAssembly could be set up")?;
        let options = GuestOptions {
            out_dir: Some(self.out),
            features: self.features,
            default_features: !self.no_default_features,
            offline: self.offline,
            ..GuestOptions::default()
        };
        let built = build_many(&toolchain, &self.crates, &options, &*progress)
            .context("the policy could not be built")?;
        for built in built {
            super::super::say(&format!(
                "{}  {} bytes  sha256 {}\n",
                built.component.display(),
                built.component_bytes,
                built.digest
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
