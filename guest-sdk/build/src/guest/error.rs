//! Why a policy was not built.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::cache::CacheError;
use crate::command::CommandError;
use crate::component::ComponentError;
use crate::toolchain::ToolchainError;

/// Why a policy was not built, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The folder is no policy's.
    #[error(
        "{crate_dir:?} holds no manifest: name a policy's folder, with Cargo.toml (Rust), pyproject.toml (Python), package.json (JavaScript) or \
         policy.toml (C) in it"
    )]
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
    /// The folder could be of either language.
    #[error(
        "{folder:?} holds {} and {}, and a policy is written in one language: take one of them away",
        manifests[0],
        manifests[1]
    )]
    TwoManifests {
        /// The folder.
        folder: PathBuf,
        /// Both.
        manifests: [&'static str; 2],
    },
    /// A manifest that isn't a crate's can't be used.
    #[error("{manifest:?}: {what}")]
    Project {
        /// The manifest.
        manifest: PathBuf,
        /// What is wrong, and what may stand there.
        what: String,
    },
    /// A tool that comes from PyPI can't be installed without Python.
    #[error(
        "{tool} needs python3 with venv: install both (Debian: apt install python3 python3-venv), or put python3 on PATH"
    )]
    NoPython {
        /// The tool, with its version.
        tool: String,
        /// What came of the call.
        source: CommandError,
    },
    /// A tool that comes from npm can't be installed without Node.
    #[error(
        "{tool} needs node 18 or later with npm: install both (Debian: apt install nodejs npm), or put them on PATH"
    )]
    NoNode {
        /// The tool, with its version.
        tool: String,
        /// What came of the call.
        source: CommandError,
    },
    /// The registry could not be reached, or hasn't the tool for this system.
    #[error(
        "{tool} could not be installed: check the network, proxy settings and the free space in the cache folder"
    )]
    NotInstalled {
        /// The tool, with its version.
        tool: String,
        /// What the installer said.
        source: CommandError,
    },
    /// The network may not be used, and the tool isn't in the cache yet.
    #[error("{tool} is not in the cache folder: build once without --offline")]
    ToolOffline {
        /// The tool, with its version.
        tool: String,
    },
    /// The language's tool did not start.
    #[error("{project} could not be built")]
    ToolDidNotRun {
        /// The policy's name.
        project: String,
        /// What came of the call.
        source: CommandError,
    },
    /// The language's tool found something wrong with the source.
    #[error("{project} did not build ({status}): correct what its tool says\n{log}")]
    ToolRefused {
        /// The policy's name.
        project: String,
        /// How the tool ended.
        status: ExitStatus,
        /// All that it said.
        log: String,
    },
    /// No compiler of Rust for WebAssembly.
    #[error("no toolchain for WebAssembly could be set up")]
    Toolchain(#[source] Box<ToolchainError>),
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
