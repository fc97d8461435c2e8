//! Whether a rustc can compile for wasm: it can if its folder for the target holds a core library.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Target, ToolchainError};
use crate::command::{self, CommandError};

/// What a rustc has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) target: Target,
    pub(super) sysroot: PathBuf,
}

/// The target of the rustc in use, if it has one. A rustc that doesn't run has none.
pub(super) fn in_use(rustc: &Path) -> Option<Found> {
    find_in(&libdir(rustc).ok()?)
}

/// The target of the rustc that the user named, which must have one.
pub(super) fn chosen(rustc: &Path) -> Result<Found, ToolchainError> {
    let looked = libdir(rustc)
        .map_err(|source| ToolchainError::ChosenDoesNotRun { rustc: rustc.into(), source })?;
    find_in(&looked)
        .ok_or_else(|| ToolchainError::ChosenHasNoTarget { rustc: rustc.into(), looked })
}

/// Where the rustc looks for the first target's libraries. It names the folder even if there is none.
fn libdir(rustc: &Path) -> Result<PathBuf, CommandError> {
    let mut call = Command::new(rustc);
    call.args(["--print", "target-libdir", "--target", Target::UnknownUnknown.triple()]);
    Ok(command::output(&mut call)?.trim_end().into())
}

/// Looks in the first target's folder, then in the others' beside it (`SYSROOT/lib/rustlib/TARGET/lib`).
fn find_in(first: &Path) -> Option<Found> {
    let rustlib = first.parent()?.parent()?;
    let sysroot = rustlib.parent()?.parent()?;
    let target = Target::ALL
        .into_iter()
        .find(|target| has_core(&rustlib.join(target.triple()).join("lib")))?;
    Some(Found { target, sysroot: sysroot.into() })
}

/// Whether a folder holds a compiled core library.
pub(super) fn has_core(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with("libcore-") && name.ends_with(".rlib"))
    })
}

#[cfg(all(test, unix))]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A stand-in for rustc that names folders under its own, with core libraries for the given targets.
    fn rustc_with(targets: &[Target]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let rustlib = folder.path().join("lib/rustlib");
        for target in targets {
            let lib = rustlib.join(target.triple()).join("lib");
            std::fs::create_dir_all(&lib).unwrap();
            std::fs::write(lib.join("libcore-0123.rlib"), "").unwrap();
        }
        let rustc = folder.path().join("rustc");
        std::fs::write(
            &rustc,
            format!("#!/bin/sh\necho '{}/wasm32-unknown-unknown/lib'\n", rustlib.display()),
        )
        .unwrap();
        std::fs::set_permissions(&rustc, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, rustc)
    }

    #[test]
    fn the_target_without_a_system_is_preferred() {
        let (folder, rustc) = rustc_with(&[Target::Wasip2, Target::UnknownUnknown]);
        let found = in_use(&rustc).unwrap();
        assert_eq!(found, Found { target: Target::UnknownUnknown, sysroot: folder.path().into() });
    }

    #[test]
    fn wasi_will_do_when_it_is_all_there_is() {
        let (_folder, rustc) = rustc_with(&[Target::Wasip2]);
        assert_eq!(in_use(&rustc).unwrap().target, Target::Wasip2);
    }

    #[test]
    fn a_rustc_in_use_without_a_target_is_passed_over_but_a_chosen_one_is_an_error() {
        let (_folder, rustc) = rustc_with(&[]);
        assert_eq!(in_use(&rustc), None);
        let error = chosen(&rustc).unwrap_err();
        assert!(matches!(&error, ToolchainError::ChosenHasNoTarget { .. }), "{error}");
        assert!(error.to_string().contains("unset it"), "{error}");
    }

    #[test]
    fn a_chosen_rustc_that_does_not_run_is_an_error() {
        assert_eq!(in_use(Path::new("/nowhere/rustc")), None);
        assert!(matches!(
            chosen(Path::new("/nowhere/rustc")),
            Err(ToolchainError::ChosenDoesNotRun { .. })
        ));
    }
}
