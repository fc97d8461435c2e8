//! `pointsman policy build`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use pointsman_build::{GuestOptions, Setup, Toolchain, build_many, for_stderr, prepare_folder};

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
        place(&self.out)?;
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

/// Whether components can be put there. Told first: a compiler and a build may take minutes.
fn place(out: &Path) -> Result<()> {
    if std::fs::metadata(out).is_ok_and(|found| !found.is_dir()) {
        bail!("--out {} is no folder; name one, into which each PACKAGE.wasm goes", out.display());
    }
    prepare_folder(out).with_context(|| {
        format!(
            "--out {}: no component can be put there; name a folder that you may write",
            out.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_component_can_not_go_is_told_before_anything_is_built() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("file");
        std::fs::write(&file, "")?;
        let told = |out: &Path| {
            let build = Build {
                crates: vec!["/nowhere".into()],
                out: out.to_owned(),
                features: vec![],
                no_default_features: false,
                offline: true,
            };
            build.run().err().map(|error| format!("{error:#}")).unwrap_or_default()
        };
        let inside = told(&file.join("inner"));
        anyhow::ensure!(told(&file).contains("is no folder; name one"), told(&file));
        anyhow::ensure!(inside.contains("name a folder that you may write"), inside);
        Ok(())
    }
}
