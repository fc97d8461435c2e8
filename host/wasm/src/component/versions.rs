//! The versions of the contract that this host takes, side by side, and which of them a component
//! was built for.
//!
//! A component names its version in everything that it imports and exports of the contract. Minor
//! versions below 1.0 differ, and each has an adapter here, which speaks the newest one's terms to
//! the rest of the crate. Patches only grow: any 0.1.x is found by the adapter of 0.1, as wasmtime's
//! linker matches names. What a component can do besides is none of this module's business.

mod v0_1;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use semver::Version;
use thiserror::Error;
use wasmtime::component::InstancePre;

use super::guest::{Entries, Find};
use crate::imports::State;
use crate::text::bounded;

/// The versions that are taken, oldest first; the last one is spoken without translation.
pub(crate) static TAKEN: [Contract; 1] =
    [Contract { version: Version::new(0, 1, 0), find: v0_1::find }];

/// One version of the contract, and how its guests are found.
pub(crate) struct Contract {
    version: Version,
    find: Find,
}

/// Why no adapter speaks with a component.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Misfit {
    /// Its version is before what is taken.
    #[error(
        "built for pointsman:policy {}; this host takes {taken}; rebuild it with a current SDK",
        short(.found)
    )]
    Older {
        /// Its version.
        found: Version,
        /// What is taken, in words.
        taken: String,
    },
    /// Its version is after what is taken.
    #[error(
        "built for pointsman:policy {}; this host takes {taken}; rebuild it with this host's SDK, or take a newer host",
        short(.found)
    )]
    Newer {
        /// Its version.
        found: Version,
        /// What is taken, in words.
        taken: String,
    },
    /// It names no version.
    #[error(
        "names {found:?}, which is of no version; this host takes pointsman:policy {taken}; rebuild it with a current SDK"
    )]
    Unversioned {
        /// What it names.
        found: String,
        /// What is taken, in words.
        taken: String,
    },
    /// It exports interfaces of several versions.
    #[error(
        "exports interfaces of pointsman:policy {} and of {}; build it for one of them",
        short(.one),
        short(.other)
    )]
    Mixed {
        /// One version.
        one: Version,
        /// Another.
        other: Version,
    },
}

/// A version as far as it is told: what follows its numbers may be of any length.
fn short(version: &Version) -> String {
    bounded(&version.to_string(), 60)
}

impl Contract {
    /// Finds the functions of a component that was built for it.
    pub(super) fn find(&self, pre: &InstancePre<State>) -> wasmtime::Result<Arc<dyn Entries>> {
        (self.find)(pre)
    }

    /// The version whose items it knows.
    pub(super) fn version(&self) -> &Version {
        &self.version
    }

    /// Whether what was built for `version` can be looked up as this one. A preview goes with
    /// nothing but itself, and so does each 0.0.x.
    fn takes(&self, version: &Version) -> bool {
        let own = &self.version;
        if *own == *version {
            return true;
        }
        let track = |v: &Version| match (v.major, v.minor) {
            (0, 0) => (0, 0, v.patch),
            (0, minor) => (0, minor, 0),
            (major, _) => (major, 0, 0),
        };
        own.pre.is_empty() && version.pre.is_empty() && track(own) == track(version)
    }

    /// As operators read it.
    fn shown(&self) -> String {
        match self.version {
            Version { major: 0, minor: 0, .. } => self.version.to_string(),
            Version { major: 0, minor, .. } => format!("0.{minor}.x"),
            Version { major, .. } => format!("{major}.x"),
        }
    }
}

/// What the host takes, in words.
fn shown(taken: &[Contract]) -> String {
    taken.iter().map(Contract::shown).collect::<Vec<_>>().join(", ")
}

/// Which of `taken` an import or export of the contract is of, and its own version.
pub(super) fn of<'a>(taken: &'a [Contract], name: &str) -> Result<(&'a Contract, Version), Misfit> {
    let version = name.split_once('@').and_then(|(_, version)| Version::parse(version).ok());
    let Some(found) = version else {
        return Err(Misfit::Unversioned { found: bounded(name, 200), taken: shown(taken) });
    };
    match taken.iter().find(|contract| contract.takes(&found)) {
        Some(contract) => Ok((contract, found)),
        None if taken.iter().all(|contract| contract.version < found) => {
            Err(Misfit::Newer { found, taken: shown(taken) })
        }
        None => Err(Misfit::Older { found, taken: shown(taken) }),
    }
}

/// Which of `taken` all these exports are of, and the version of the newest of them. None if there
/// are none.
pub(super) fn of_all<'a, 'n>(
    taken: &'a [Contract],
    names: impl Iterator<Item = &'n str>,
) -> Result<Option<(&'a Contract, Version)>, Misfit> {
    let mut all: Option<(&Contract, Version)> = None;
    for name in names {
        let (contract, version) = of(taken, name)?;
        all = Some(match all {
            Some((before, other)) if before.version != contract.version => {
                return Err(Misfit::Mixed { one: other, other: version });
            }
            Some((_, other)) => (contract, other.max(version)),
            None => (contract, version),
        });
    }
    Ok(all)
}
