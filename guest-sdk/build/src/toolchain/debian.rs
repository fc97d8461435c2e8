//! The third way: the distribution's own compiler for Firefox and Chromium builds, unpacked and never installed.
//!
//! Debian keeps `rustc-web` current on all its releases, security archive included. Its packages go into a work folder; the standard library
//! for wasm is compiled there from the matching source package, which carries its dependencies. Which versions these are is asked of apt.

mod apt;
mod plan;
mod std_build;
mod unpack;

use std::path::Path;
use std::process::Command;

use super::{RustupOutcome, ToolchainError};
use crate::command::{self, CommandError};
use crate::progress::{Progress, Step};
use crate::setup::Setup;
use apt::Apt;

/// Checks for the tools before anything is made, so that the error can say what the other ways were.
pub(super) fn check_tools(setup: &Setup, rustup: &RustupOutcome) -> Result<(), ToolchainError> {
    for tool in ["apt-get", "apt-cache", "dpkg-deb"] {
        if let Err(CommandError::NotFound { program }) =
            command::output(Command::new(tool).arg("--version"))
        {
            return Err(ToolchainError::NoApt {
                rustc: setup.rustc.clone(),
                rustup: rustup.clone(),
                missing: program,
            });
        }
    }
    command::output(Command::new(&setup.cargo).arg("--version"))
        .map(drop)
        .map_err(|source| ToolchainError::NoCargo { cargo: setup.cargo.clone(), source })
}

/// Fills `work/root` with a compiler that has the guest target, and says which version it is.
pub(super) fn set_up(
    setup: &Setup,
    work: &Path,
    progress: &dyn Progress,
) -> Result<String, ToolchainError> {
    let apt = Apt::new(&work.join("apt"))?;
    progress.step(&Step::RefreshingLists);
    let update_log = apt.update()?;
    let in_use = command::output(Command::new(&setup.rustc).arg("-V")).unwrap_or_default();
    let plan = plan::make(&apt, &update_log, &in_use)?;

    let debs = work.join("debs");
    apt.download(&plan.packages, &debs, progress)?;
    let packages = unpack::list(&debs)?;
    progress.step(&Step::Unpacking { packages: packages.len() });
    unpack::all(&packages, work)?;

    std_build::build(&setup.cargo, work, progress)?;
    Ok(plan.version)
}
