//! `pointsman policy new`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::author::template::{Origin, Sdk, TemplateStage, Wanted, make};

/// What `--help` says of the SDK.
const SDK: &str = "\
Of Rust: the SDK is in no registry. It is looked for in this order:
  --sdk          a folder (Pointsman's source tree, or guest-sdk in it), or a repository's URL, with #REVISION behind it
  POINTSMAN_SDK  the same
  the source tree that the working folder is in
  the source tree that this program was built from
Versions of further crates are those of that tree's Cargo.lock, so that nothing new is fetched.";

/// What it is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    /// Rust
    Rust,
    /// Python
    Python,
    /// JavaScript
    #[value(name = "js")]
    JavaScript,
}

/// Write a policy to begin with.
#[derive(Debug, Args)]
#[command(after_long_help = SDK)]
pub(in crate::cli) struct New {
    /// Its name: the crate's, and its type in the router's YAML
    #[arg(value_name = "NAME")]
    name: String,
    /// What it is to be
    #[arg(long, value_enum, default_value_t = TemplateStage::Policy)]
    stage: TemplateStage,
    /// What it is to be written in
    #[arg(long, value_enum, default_value_t = Language::Rust)]
    lang: Language,
    /// The folder to make; ./NAME unless set
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Where the SDK is: a folder, or a repository's URL
    #[arg(long, value_name = "PATH|URL", env = "POINTSMAN_SDK", hide_env_values = true)]
    sdk: Option<String>,
}

impl New {
    pub(in crate::cli) fn run(self) -> Result<ExitCode> {
        let origin = match (self.lang, &self.sdk) {
            (Language::Rust, Some(named)) => Origin::Rust(Sdk::named(named)?),
            (Language::Rust, None) => Origin::Rust(found()?),
            (Language::Python, _) => Origin::Python,
            (Language::JavaScript, _) => Origin::JavaScript,
        };
        let Self { name, stage, path, .. } = self;
        let folder = path.unwrap_or_else(|| PathBuf::from(&name));
        let wanted = Wanted { name, stage, origin, folder };
        let files = make(&wanted)?;
        let mut text = String::new();
        for file in &files {
            text += &format!("{}\n", file.display());
        }
        let folder = wanted.folder.display();
        text += &format!(
            "\nNext, and again after every change:\n  cd {folder}\n  pointsman policy test\n  pointsman policy check\n"
        );
        super::super::say(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Where nobody said: from the working folder up, then where this program comes from.
fn found() -> Result<Sdk> {
    let here = std::env::current_dir().unwrap_or_default();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(Sdk::found([here.as_path(), source])?)
}
