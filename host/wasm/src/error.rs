//! Why a file isn't taken up as a policy: one sentence each, naming the file, the interface, what
//! was wanted and what was found.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pointsman_core::policy::{Cause, Digest};
use thiserror::Error;

use crate::component::Misfit;
use crate::trust::Distrust;

/// Why a component could not be loaded. For the operator.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file can't be read.
    #[error("{}: can't be read: {source}; check its permissions", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a FIFO, a device or the like.
    #[error("{}: is no regular file, wanted a component; put a file in its place", path.display())]
    NotAFile {
        /// Which.
        path: PathBuf,
    },
    /// The file is larger than what is taken.
    #[error("{}: {size} bytes, wanted at most {most}; strip debug information, or raise the limit", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Its size; at least.
        size: u64,
        /// The limit.
        most: u64,
    },
    /// It is not what may serve under its name.
    #[error("{}: {reason}", path.display())]
    Distrusted {
        /// Which file.
        path: PathBuf,
        /// What it holds.
        digest: Digest,
        /// Why.
        reason: Distrust,
    },
    /// Compiling it would take too long or too much memory.
    #[error("{}: {found} {what}, wanted at most {most}; split the code up, or build it another way", path.display())]
    TooIntricate {
        /// Which file.
        path: PathBuf,
        /// Of what it has too many.
        what: &'static str,
        /// How many; at least.
        found: u64,
        /// The limit.
        most: u64,
    },
    /// Compiling it took longer than it may.
    #[error("{}: compiling took longer than {limit:?} and was given up; make the component smaller, or raise the limit (compile_timeout)", path.display())]
    Slow {
        /// Which file.
        path: PathBuf,
        /// The limit.
        limit: Duration,
    },
    /// It isn't compiled, because too many others are that were given up.
    #[error("{}: waits to be compiled until one of {running} others ends that were given up; take those files away and restart", path.display())]
    Crowded {
        /// Which file.
        path: PathBuf,
        /// How many are compiled.
        running: usize,
    },
    /// The file's stem can't be a type's name.
    #[error("{}: the stem of the file's name is the policy's type, wanted letters, digits, '.', '_' and '-' (at most 64); rename the file", path.display())]
    Name {
        /// Which file.
        path: PathBuf,
    },
    /// The file's stem is a built-in's name.
    #[error("{}: {name:?} is the name of a built-in policy; rename the file", path.display())]
    BuiltinName {
        /// Which file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The file is empty.
    #[error("{}: is empty, wanted a WebAssembly component; write it to another name and rename it into place", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// It is not WebAssembly.
    #[error("{}: is not WebAssembly, wanted a component; build one with `pointsman policy build`", path.display())]
    NotWasm {
        /// Which file.
        path: PathBuf,
    },
    /// It is WebAssembly's text format.
    #[error("{}: is WebAssembly text, wanted a binary component; assemble it first (`wasm-tools parse`)", path.display())]
    Text {
        /// Which file.
        path: PathBuf,
    },
    /// It is a core module.
    #[error("{}: is a core module, wanted a component; build it with `pointsman policy build`, or run `wasm-tools component new`", path.display())]
    CoreModule {
        /// Which file.
        path: PathBuf,
    },
    /// It is cut short or broken.
    #[error("{}: is not a valid component: {reason}; build it again", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It imports what a policy can't have.
    #[error("{}: imports {found:?}, wanted nothing but {wanted}; a policy has no other way out, so build it without", path.display())]
    Import {
        /// Which file.
        path: PathBuf,
        /// The import.
        found: String,
        /// What may be imported.
        wanted: &'static str,
    },
    /// It was built for another version of the contract.
    #[error("{}: {reason}", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// For which, and what is taken.
        reason: Misfit,
    },
    /// It doesn't export what every policy must.
    #[error("{}: exports {found}, wanted {wanted}; implement the contract's world `policy`", path.display())]
    MissingExport {
        /// Which file.
        path: PathBuf,
        /// What it exports.
        found: String,
        /// What is missing.
        wanted: String,
    },
    /// A function of the contract has another signature.
    #[error("{}: {interface} isn't as the contract has it: {reason}; rebuild it with this version's SDK", path.display())]
    Signature {
        /// Which file.
        path: PathBuf,
        /// Which interface, or function in it.
        interface: String,
        /// How it differs.
        reason: String,
    },
    /// It needs more than this host's engine does.
    #[error("{}: can't be compiled: {reason}; check which WebAssembly features it was built with", path.display())]
    Compile {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It failed while it was started for a first look.
    #[error("{}: failed when it was started: {cause}: {detail}; look at what it runs before any call", path.display())]
    Start {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: Cause,
        /// In words.
        detail: String,
    },
}
