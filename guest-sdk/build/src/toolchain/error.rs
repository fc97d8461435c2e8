//! Why there is no toolchain, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::cache::CacheError;
use crate::command::{self, CommandError};

/// What came of asking rustup; it explains the errors of the way that was taken next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RustupOutcome {
    /// It says that the target is there now.
    Added,
    /// The environment says not to ask.
    LeftOut,
    /// This system has no rustup.
    Absent,
    /// It was stopped at its limit.
    TimedOut(Duration),
    /// It failed; its last line.
    Failed(String),
}

impl fmt::Display for RustupOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added => f.write_str("rustup added the target, but for another rustc"),
            Self::LeftOut => f.write_str("rustup was left out, as POINTSMAN_NO_RUSTUP says"),
            Self::Absent => f.write_str("there is no rustup"),
            Self::TimedOut(limit) => {
                write!(f, "rustup did not finish within {} s", limit.as_secs())
            }
            Self::Failed(line) => write!(f, "rustup failed: {line}"),
        }
    }
}

/// Why no toolchain was found or set up.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// `POINTSMAN_GUEST_RUSTC` names nothing that runs.
    #[error(
        "POINTSMAN_GUEST_RUSTC is {rustc:?}, which does not run: set it to the path of a rustc, or unset it"
    )]
    ChosenDoesNotRun {
        /// What the variable says.
        rustc: PathBuf,
        /// What came of the call.
        source: CommandError,
    },
    /// `POINTSMAN_GUEST_RUSTC` names a rustc without a wasm target.
    #[error(
        "POINTSMAN_GUEST_RUSTC is {rustc:?}, which has neither wasm32-unknown-unknown nor wasm32-wasip2 (looked in {looked:?}): \
         name a rustc that has one of them, or unset it"
    )]
    ChosenHasNoTarget {
        /// What the variable says.
        rustc: PathBuf,
        /// Where its standard library for the first target would be.
        looked: PathBuf,
    },
    /// Nothing here can compile for wasm, and this isn't a system with apt.
    #[error(
        "{rustc:?} has no wasm target, {rustup}, and `{missing}` was not found, so the distribution's compiler can't be fetched: \
         run `rustup target add wasm32-unknown-unknown`, or set POINTSMAN_GUEST_RUSTC to a rustc that has the target"
    )]
    NoApt {
        /// The rustc in use.
        rustc: PathBuf,
        /// What rustup said.
        rustup: RustupOutcome,
        /// The tool that is missing.
        missing: String,
    },
    /// The standard library can't be built without cargo.
    #[error("`{cargo}` was not found or does not run: install Rust with cargo, or put it on PATH")]
    NoCargo {
        /// What was called.
        cargo: PathBuf,
        /// What came of the call.
        source: CommandError,
    },
    /// The package archive could not be reached.
    #[error(
        "the package archive could not be reached; check the network, proxy settings and apt's sources, then run this again, or set \
         POINTSMAN_GUEST_RUSTC to a rustc that has a wasm target. apt said:\n{log}"
    )]
    Network {
        /// apt's last lines.
        log: String,
    },
    /// The distribution doesn't have what is needed.
    #[error(
        "apt knows no usable {package:?}: enable the distribution's main and security archives, or run `rustup target add \
         wasm32-unknown-unknown`, or set POINTSMAN_GUEST_RUSTC to a rustc that has the target"
    )]
    NoPackage {
        /// The package, or the dependency that was looked for.
        package: String,
    },
    /// A package's content isn't what it is known to be.
    #[error(
        "the unpacked packages hold no {wanted}: the distribution has changed them; set POINTSMAN_GUEST_RUSTC to a rustc that has a wasm target"
    )]
    Unexpected {
        /// What was looked for.
        wanted: String,
    },
    /// The unpacked compiler doesn't start.
    #[error(
        "the distribution's rustc was unpacked but does not run here; check that the cache folder allows execution (no `noexec` mount), or set \
         POINTSMAN_GUEST_RUSTC to a rustc that has a wasm target"
    )]
    UnpackedDoesNotRun {
        /// What came of the call.
        source: CommandError,
    },
    /// The standard library did not build.
    #[error(
        "the standard library did not build for wasm; run this again, and if it fails the same way set POINTSMAN_GUEST_RUSTC to a rustc that has \
         a wasm target. cargo's last lines:\n{log}"
    )]
    StdDidNotBuild {
        /// Cargo's last lines.
        log: String,
    },
    /// There is no room for the download or the build.
    #[error(
        "the disk is full: free about 2 GB where {path:?} is, or set POINTSMAN_CACHE_DIR to a folder on another disk"
    )]
    DiskFull {
        /// The folder that was written to.
        path: PathBuf,
    },
    /// A tool of the package system failed in a way that isn't one of the above.
    #[error(
        "a tool of the package system failed; run this again, or set POINTSMAN_GUEST_RUSTC to a rustc that has a wasm target"
    )]
    Tool(#[source] CommandError),
    /// The cache folder can't be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A file of the cache could not be read or written.
    #[error(
        "could not {doing} {path:?} ({source}): check the permissions there, or set POINTSMAN_CACHE_DIR to another folder"
    )]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ToolchainError {
    /// The error for a file operation, a full disk told apart. Made to be used with `map_err`.
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| {
            if command::is_full(&source) {
                Self::DiskFull { path }
            } else {
                Self::Io { doing, path, source }
            }
        }
    }

    /// The error for a tool that worked in `path`, a full disk told apart from what `otherwise` makes of it.
    pub(crate) fn tool(
        path: impl Into<PathBuf>,
        otherwise: impl FnOnce(CommandError) -> Self,
    ) -> impl FnOnce(CommandError) -> Self {
        let path = path.into();
        move |error| {
            if error.is_full_disk() { Self::DiskFull { path } } else { otherwise(error) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_apart_from_other_file_errors() {
        let full = ToolchainError::io("write", "/c")(io::ErrorKind::StorageFull.into());
        assert!(matches!(full, ToolchainError::DiskFull { .. }));
        let denied = ToolchainError::io("write", "/c")(io::ErrorKind::PermissionDenied.into());
        assert!(denied.to_string().contains("POINTSMAN_CACHE_DIR"), "{denied}");
    }

    #[test]
    fn the_error_of_a_system_without_apt_says_what_rustup_said_and_what_to_do() {
        let error = ToolchainError::NoApt {
            rustc: "rustc".into(),
            rustup: RustupOutcome::TimedOut(Duration::from_secs(60)),
            missing: "apt-get".into(),
        };
        let text = error.to_string();
        assert!(
            text.contains("within 60 s")
                && text.contains("`apt-get`")
                && text.contains("POINTSMAN_GUEST_RUSTC"),
            "{text}"
        );
    }
}
