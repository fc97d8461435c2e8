//! Why a policy was not built.

use std::io;
use std::path::PathBuf;

use crate::cache::CacheError;
use crate::command::CommandError;
use crate::component::ComponentError;

/// Why a policy was not built, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The folder is no crate's.
    #[error("{crate_dir:?} holds no package's Cargo.toml: name the folder of a policy crate")]
    NoManifest {
        /// The folder.
        crate_dir: PathBuf,
    },
    /// Cargo can't read the crate's or the workspace's manifest.
    #[error("cargo could not read {manifest:?}: correct what it names\n{log}")]
    Manifest {
        /// The manifest.
        manifest: PathBuf,
        /// Cargo's last lines.
        log: String,
    },
    /// The crate makes no module.
    #[error(
        "the package {package:?} makes no WebAssembly module: add `[lib]` with `crate-type = [\"cdylib\", \"rlib\"]` to its Cargo.toml"
    )]
    NoModule {
        /// The package's name.
        package: String,
    },
    /// Two packages would be written to one file.
    #[error(
        "two packages are named {package:?}, and both would become `{package}.wasm`: rename one, or build them into two folders"
    )]
    SameName {
        /// The name.
        package: String,
    },
    /// Cargo isn't there.
    #[error("cargo did not run: install Rust with cargo, or put it on PATH")]
    NoCargo(#[source] CommandError),
    /// The crate doesn't compile for the guest target.
    #[error("{} did not build for {target}: correct what the compiler says{}", packages.join(", "), said(log))]
    DidNotBuild {
        /// The packages' names.
        packages: Vec<String>,
        /// The target.
        target: &'static str,
        /// What cargo and the compiler said; empty if it was shown as they said it.
        log: String,
    },
    /// The compiler of guests lacks its linker.
    #[error(
        "the rustc for guests has no linker for {target} ({rustc:?}): install lld, or set POINTSMAN_GUEST_RUSTC to a complete rustc{}",
        said(log)
    )]
    NoLinker {
        /// The compiler.
        rustc: PathBuf,
        /// The target.
        target: &'static str,
        /// What cargo and the compiler said; empty if it was shown as they said it.
        log: String,
    },
    /// The packages want a newer compiler than the guests' one.
    #[error(
        "the rustc for guests ({rustc:?}) is older than the packages want: remove the folder `guest-toolchain` from the cache folder, so that the \
         newest one is fetched, or set POINTSMAN_GUEST_RUSTC to a newer one{}",
        said(log)
    )]
    OldRustc {
        /// The compiler.
        rustc: PathBuf,
        /// What cargo said; empty if it was shown as it said it.
        log: String,
    },
    /// What rustc made is no policy.
    #[error("{package}: {source} (the module is {module:?})")]
    Component {
        /// The package's name.
        package: String,
        /// The module.
        module: PathBuf,
        /// What is wrong with it.
        source: ComponentError,
    },
    /// A folder has the component's name.
    #[error(
        "{component:?} is a folder, and the component is to stand there: take it away, or name another folder with --out"
    )]
    FolderInTheWay {
        /// Where.
        component: PathBuf,
    },
    /// There is no room for the build.
    #[error("the disk is full: free space where {path:?} is, or give another target directory")]
    DiskFull {
        /// The folder that was written to.
        path: PathBuf,
    },
    /// The cache folder can't be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A file could not be read or written.
    #[error("could not {doing} {path:?} ({source}): check the permissions there")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A tool's words behind the sentence about them.
fn said(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("\n{log}") }
}

impl BuildError {
    /// The error for a file operation, a full disk told apart. Made to be used with `map_err`.
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| {
            if crate::command::is_full(&source) {
                Self::DiskFull { path }
            } else {
                Self::Io { doing, path, source }
            }
        }
    }
}
