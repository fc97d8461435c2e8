//! Why the server did not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

use crate::config::At;
use crate::discovery::FileWorkerError;
use crate::policies::{LookError, OpenError};
use crate::prompts::LoadError;

/// Why the server did not start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// An address could not be listened on.
    #[error("can't listen on {address}: {source}; choose another address, or stop what has it")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A listener that isn't for everybody could be reached by anybody.
    #[error(
        "the {door} listener would be open to the network on {address}; set `{door}.tokens`, or \
         listen on a loopback address"
    )]
    Exposed {
        /// Its key.
        door: &'static str,
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// A certificate or a key could not be read.
    #[error("can't read {path}: {source}; give a PEM file that the router may read")]
    TlsFile {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A certificate or a key isn't what it should be.
    #[error("no use for {path}: {reason}; give a PEM file with {expected}")]
    TlsContent {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A listener's TLS can't be served.
    #[error("{at}: {error}")]
    Tls {
        /// The value in the configuration that names the file.
        at: At,
        /// Which, and why.
        error: Box<ServeError>,
    },
    /// The file of decisions can't be written.
    #[error("can't write recording.file, {file}: {source}; name a file that the router may write")]
    Recording {
        /// Which.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no thread to be had.
    #[error("can't start a thread: {0}; raise the limit on this user's processes")]
    Thread(std::io::Error),
    /// The policies folder can't be used.
    #[error(transparent)]
    Folder(#[from] LookError),
    /// The policies can't be what the configuration wants.
    #[error(transparent)]
    Policies(#[from] OpenError),
    /// A worker of the file was refused.
    #[error("{place}{error}")]
    Worker {
        /// Where it stands in the file, ready to be put before the error.
        place: String,
        /// Which, and why.
        error: Box<FileWorkerError>,
    },
    /// A model's tokenizer can't be used.
    #[error("{place}{error}")]
    Tokenizer {
        /// Where it stands in the file, ready to be put before the error.
        place: String,
        /// Which, and why.
        error: Box<LoadError>,
    },
    /// The thread that made the policies, or read tokenizers, died.
    #[error("the start was abandoned: {0}; see the log for a panic")]
    Abandoned(String),
}

impl ServeError {
    /// The file of a certificate or a key that it is about.
    pub(super) fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::TlsFile { path, .. } | Self::TlsContent { path, .. } => Some(path),
            _ => None,
        }
    }
}
