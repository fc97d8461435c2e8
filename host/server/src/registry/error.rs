//! Why a component could not be had: the place, the value, the remedy.

use std::time::Duration;

use http::StatusCode;
use thiserror::Error;

/// Why there is no component. For the operator; nothing was written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PullError {
    /// No connection, or one that broke.
    #[error(
        "{url}: {reason}; check the registry's name and the network, and for a registry without TLS say --plain-http"
    )]
    Unreachable {
        /// What was asked.
        url: String,
        /// Why.
        reason: String,
    },
    /// It doesn't speak TLS.
    #[error(
        "{url}: it answers without TLS; to ask a registry in the clear, where nobody else listens, say --plain-http"
    )]
    NoTls {
        /// What was asked.
        url: String,
    },
    /// There is nothing to check a registry's certificate by.
    #[error(
        "{url}: no certificates of authorities were found here ({reason}); install the system's, or name them in SSL_CERT_FILE"
    )]
    NoAuthorities {
        /// What was to be asked.
        url: String,
        /// Why.
        reason: String,
    },
    /// The time is up.
    #[error(
        "{reference}: not all there within {limit:?}; see why the registry is slow, or raise --timeout"
    )]
    TimedOut {
        /// What was asked for.
        reference: String,
        /// The limit.
        limit: Duration,
    },
    /// The registry says no.
    #[error("{url}: answered {status}{}; {}", said(.detail), remedy(*.status))]
    Status {
        /// What was asked.
        url: String,
        /// The answer.
        status: StatusCode,
        /// What the registry says beside it.
        detail: String,
    },
    /// It asks for proof in a way that isn't understood, or can't be given.
    #[error("{url}: asks who is there, and {what}")]
    Challenge {
        /// What was asked.
        url: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// It sends elsewhere, and that isn't followed.
    #[error("{url}: sends to {to:?}, {what}; ask the registry's operator")]
    Redirect {
        /// What was asked.
        url: String,
        /// Where it sends.
        to: String,
        /// Why that isn't followed.
        what: &'static str,
    },
    /// It sends more than is taken.
    #[error("{url}: more than {most} bytes, which no such document has; check the reference")]
    TooLong {
        /// What was asked.
        url: String,
        /// The limit.
        most: u64,
    },
    /// The component is larger than what is taken.
    #[error(
        "{url}: {size} bytes, wanted at most {most}; strip debug information, or name a configuration with a larger wasm.max_component_size by --trust"
    )]
    TooLarge {
        /// The blob.
        url: String,
        /// Its size, as the manifest has it.
        size: u64,
        /// The limit.
        most: u64,
    },
    /// It sends more or less than the manifest says.
    #[error(
        "{url}: sent {found}, and the manifest says {wanted} bytes; pull again, and if that stays so push it anew"
    )]
    Size {
        /// The blob.
        url: String,
        /// How much came, in words.
        found: String,
        /// How much it should be.
        wanted: u64,
    },
    /// It sends something else than was asked for.
    #[error(
        "{url}: is sha256:{found}, wanted sha256:{wanted}; the registry or somebody before it changed it: don't use it, and ask who pushed it"
    )]
    Digest {
        /// What was asked.
        url: String,
        /// What came.
        found: String,
        /// What was wanted.
        wanted: String,
    },
    /// The manifest can't be used.
    #[error(
        "{url}: {what}; name a component that was pushed as an OCI artifact, as by `oras push {{REFERENCE}} NAME.wasm:application/wasm`"
    )]
    Manifest {
        /// Which.
        url: String,
        /// Why.
        what: String,
    },
}

fn said(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(" ({detail:?})") }
}

fn remedy(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 => "give --username and --password-file of somebody who may pull it",
        404 => "check the repository and the tag; a private one may need --username",
        429 => "it has had enough for now: try again later, or log in",
        500..=599 => "the registry is unwell: try again later",
        _ => "check that it is a registry",
    }
}
