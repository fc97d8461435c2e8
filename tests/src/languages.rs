//! Policies in languages other than Rust, built as `policy build` does.
//!
//! Their tools come from PyPI and npm. Where those can't be had, tests that need them say so on standard error and do nothing, unless
//! `POINTSMAN_NEEDS_LANGUAGES` is set, as in CI: then they fail.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pointsman_build::{BuildError, GuestOptions, Quiet, Setup, build_folders};
use tempfile::TempDir;

/// Builds a copy of a folder, so that no tool leaves anything beside the source; none where the tools can't be had, which is told.
pub fn build(folder: &Path) -> Result<Option<Component>> {
    let place = tempfile::tempdir()?;
    let source = place.path().join("source");
    std::fs::create_dir(&source)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), source.join(entry.file_name()))?;
        }
    }
    let options = GuestOptions { out_dir: Some(place.path().into()), ..GuestOptions::default() };
    match build_folders(&Setup::from_env()?, &[&source], &options, &Quiet) {
        Ok(built) => {
            let file = built.first().context("one folder, one component")?.component.clone();
            Ok(Some(Component { file, source, _place: place }))
        }
        Err(error) if is_without_tools(&error) => {
            match std::env::var_os("POINTSMAN_NEEDS_LANGUAGES") {
                Some(_) => Err(error.into()),
                None => {
                    let why = anyhow::Error::from(error);
                    // Past the test's own capture: a skip is to be seen.
                    let told = format!(
                        "SKIPPED: {} was not built, nor tested: {why:#}\n",
                        folder.display()
                    );
                    std::io::stderr().lock().write_all(told.as_bytes())?;
                    Ok(None)
                }
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether this machine is to blame, and not the source.
fn is_without_tools(error: &BuildError) -> bool {
    matches!(
        error,
        BuildError::NoPython { .. } | BuildError::NoNode { .. } | BuildError::NotInstalled { .. }
    )
}

/// A component that was built; it goes away with this.
#[derive(Debug)]
pub struct Component {
    /// The component.
    pub file: PathBuf,
    /// The copy of its source.
    pub source: PathBuf,
    _place: TempDir,
}
