//! `pointsman policy build`, once or whenever a source changes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use pointsman_build::{
    Built, GuestOptions, Language, Setup, build_folders, for_stderr, prepare_folder,
};

use super::kept;
use super::watch::{Sources, settled};

/// What `--help` says of the set-up.
const ENVIRONMENT: &str = "\
The toolchain of Rust is found or set up in this order; nothing is installed system-wide:
  POINTSMAN_GUEST_RUSTC   the rustc that it names
  the rustc in use, if it has a wasm target
  rustup target add, for 60 seconds at most; not with POINTSMAN_NO_RUSTUP=1
  on Debian and its relatives, the distribution's packages, unpacked into the cache folder
Tools of other languages are installed into the cache folder, once:
  Python       componentize-py from PyPI; needs python3 with venv
  JavaScript   componentize-qjs from npm; needs node and npm
  C            ziglang from PyPI; needs python3 with venv
The cache folder is POINTSMAN_CACHE_DIR, else $XDG_CACHE_HOME/pointsman, else ~/.cache/pointsman.";

/// How often sources are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Build policies.
#[derive(Debug, Args)]
#[command(after_long_help = ENVIRONMENT)]
pub(in crate::cli) struct Build {
    /// The policies' folders, each with a Cargo.toml (Rust), pyproject.toml (Python), package.json (JavaScript) or policy.toml (C)
    #[arg(required = true, value_name = "FOLDER")]
    crates: Vec<PathBuf>,
    /// Where the components go, each as NAME.wasm; a policies folder takes them up at once
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Crates' features to turn on, separated by commas
    #[arg(long, value_delimiter = ',')]
    features: Vec<String>,
    /// Leave the crates' default features out
    #[arg(long)]
    no_default_features: bool,
    /// Do without the network
    #[arg(long)]
    offline: bool,
    /// Build again whenever a source changes, until Ctrl-C; what doesn't build leaves the component as it is
    #[arg(long)]
    watch: bool,
}

impl Build {
    pub(in crate::cli) fn run(self) -> Result<ExitCode> {
        place(&self.out)?;
        let progress = for_stderr();
        let setup = Setup::from_env().context("the environment's settings are of no use")?;
        let options = GuestOptions {
            out_dir: Some(self.out),
            features: self.features,
            default_features: !self.no_default_features,
            offline: self.offline,
            ..GuestOptions::default()
        };
        let build = || -> Result<Vec<Built>> {
            let built = build_folders(&setup, &self.crates, &options, &*progress)
                .context("the policy could not be built")?;
            built.iter().try_for_each(tell)?;
            Ok(built)
        };
        if !self.watch {
            return build().map(|_| ExitCode::SUCCESS);
        }
        // The mistakes of a first build are mended like those of any other.
        let mut sources = Sources::of(&self.crates);
        loop {
            let mut seen = sources.stamp();
            match build() {
                Ok(built) => {
                    sources.learn(built.into_iter().flat_map(|built| built.inputs));
                    // Those elsewhere are known from now on.
                    seen = settled(&seen, sources.stamp());
                }
                Err(error) => super::super::report(&error),
            }
            let files = seen.len();
            eprintln!("pointsman: watching {files} files; Ctrl-C ends that");
            let mut now = seen.clone();
            while now == seen {
                std::thread::sleep(LOOK);
                now = sources.stamp();
            }
            // Editors write in steps: until nothing has changed from one look to the next.
            loop {
                std::thread::sleep(LOOK);
                let then = sources.stamp();
                if then == now {
                    break;
                }
                now = then;
            }
        }
    }
}

/// Builds a policy that is only to be looked at, and says where its component is.
pub(super) fn component(folder: &Path, offline: bool) -> Result<PathBuf> {
    let build = || {
        let setup = Setup::from_env().context("the environment's settings are of no use")?;
        let options = GuestOptions { offline, ..GuestOptions::default() };
        let built = build_folders(&setup, &[folder.to_owned()], &options, &*for_stderr());
        let built = built.context("the policy could not be built")?.pop();
        built.context("nothing was built")
    };
    match Language::of(folder) {
        // Its component isn't in its folder, and cargo knows what is to be done.
        Ok(Language::Rust) | Err(_) => Ok(build()?.component),
        Ok(_) => kept::or_build(folder, build),
    }
}

fn tell(built: &Built) -> Result<()> {
    super::super::say(&format!(
        "{}  {} bytes  sha256 {}\n",
        built.component.display(),
        built.component_bytes,
        built.digest
    ))
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
                watch: false,
            };
            build.run().err().map(|error| format!("{error:#}")).unwrap_or_default()
        };
        let inside = told(&file.join("inner"));
        anyhow::ensure!(told(&file).contains("is no folder; name one"), told(&file));
        anyhow::ensure!(inside.contains("name a folder that you may write"), inside);
        Ok(())
    }
}
