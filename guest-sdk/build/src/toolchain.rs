//! A rustc that can compile guests: found, or set up.
//!
//! The order: the rustc that the user named; the rustc in use, if it has a wasm target; a sysroot that an earlier run left in the cache;
//! `rustup target add`, within a limit; and on Debian-family systems the distribution's own compiler, unpacked into the cache. The finished
//! sysroot comes before rustup, so that a machine which can't reach rustup's server waits for it once and never again.

mod debian;
mod error;
mod probe;
mod rustup;
mod store;

use std::path::{Path, PathBuf};

pub use error::{RustupOutcome, ToolchainError};

use crate::cache;
use crate::progress::Progress;
use crate::setup::Setup;
use store::Store;

/// The target that guests are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// No system interface at all: a policy imports only what its contract names.
    UnknownUnknown,
    /// WASI 0.2; what comes out is a component already, with WASI imports.
    Wasip2,
}

impl Target {
    /// Both, the better one first.
    pub const ALL: [Self; 2] = [Self::UnknownUnknown, Self::Wasip2];

    /// The name that rustc and cargo use.
    #[must_use]
    pub fn triple(self) -> &'static str {
        match self {
            Self::UnknownUnknown => "wasm32-unknown-unknown",
            Self::Wasip2 => "wasm32-wasip2",
        }
    }
}

/// Where a toolchain came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `POINTSMAN_GUEST_RUSTC` names it.
    Chosen,
    /// The rustc in use had the target.
    InUse,
    /// The rustc in use has had the target since rustup added it just now.
    Rustup,
    /// The distribution's compiler, in the cache folder.
    Distribution {
        /// The package version that it was made from.
        version: String,
    },
}

/// A compiler for guests, ready for use.
#[derive(Clone, Debug)]
pub struct Toolchain {
    rustc: PathBuf,
    target: Target,
    source: Source,
    sysroot: PathBuf,
    cargo: PathBuf,
    cache_dir: PathBuf,
}

impl Toolchain {
    /// Finds a toolchain, or sets one up. Any number of processes may call this at once: one works, the others wait for it.
    ///
    /// Cold on Debian this takes about a minute, the network, and half a gigabyte in the cache folder; afterwards a tenth of a second and nothing else.
    pub fn ensure(setup: &Setup, progress: &dyn Progress) -> Result<Self, ToolchainError> {
        let found = find(setup, progress);
        progress.finish();
        found
    }

    /// The compiler.
    #[must_use]
    pub fn rustc(&self) -> &Path {
        &self.rustc
    }

    /// The target that it compiles for.
    #[must_use]
    pub fn target(&self) -> Target {
        self.target
    }

    /// Where it came from.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The folder that holds its libraries.
    pub(crate) fn sysroot(&self) -> &Path {
        &self.sysroot
    }

    /// The cargo to build with.
    pub(crate) fn cargo(&self) -> &Path {
        &self.cargo
    }

    /// The folder that a guest's target directory goes into by default.
    pub(crate) fn cache_dir(&self) -> &Path {
        &self.cache_dir
    }

    fn new(setup: &Setup, rustc: &Path, found: probe::Found, source: Source) -> Self {
        Self {
            rustc: rustc.into(),
            target: found.target,
            source,
            sysroot: found.sysroot,
            cargo: setup.cargo.clone(),
            cache_dir: setup.cache_dir.clone(),
        }
    }
}

fn find(setup: &Setup, progress: &dyn Progress) -> Result<Toolchain, ToolchainError> {
    if let Some(chosen) = &setup.guest_rustc {
        let found = probe::chosen(chosen)?;
        return Ok(Toolchain::new(setup, chosen, found, Source::Chosen));
    }
    if let Some(found) = probe::in_use(&setup.rustc) {
        return Ok(Toolchain::new(setup, &setup.rustc, found, Source::InUse));
    }
    let store = Store::new(&setup.cache_dir);
    if let Some(ready) = store.ready() {
        return Ok(ready.into_toolchain(setup));
    }
    let rustup = rustup::add_target(setup, progress);
    if let Some(found) =
        matches!(rustup, RustupOutcome::Added).then(|| probe::in_use(&setup.rustc)).flatten()
    {
        return Ok(Toolchain::new(setup, &setup.rustc, found, Source::Rustup));
    }

    debian::check_tools(setup, &rustup)?;
    cache::private_folder(store.folder())?;
    let ready = store.locked(progress, || match store.ready() {
        Some(ready) => Ok(ready),
        None => store.make(|work| debian::set_up(setup, work, progress)),
    })?;
    Ok(ready.into_toolchain(setup))
}

impl store::Ready {
    fn into_toolchain(self, setup: &Setup) -> Toolchain {
        let found =
            probe::Found { target: Target::UnknownUnknown, sysroot: self.folder.join("usr") };
        Toolchain::new(setup, &self.rustc(), found, Source::Distribution { version: self.version })
    }
}
