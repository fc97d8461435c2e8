//! A component out of an OCI registry: found by reference, taken only if it is what it should be.
//!
//! Owns the way from a [`Reference`] to bytes that are proven: the manifest by its digest, the
//! component by the digest and size in the manifest. Nothing that a registry says is believed beyond
//! that: sizes are limits, redirects are followed within bounds and without credentials, and the whole
//! of it has a time limit. It writes nothing and knows no policy; `cli::policy::pull` does.
//!
//! `reference` reads what was asked for, `credentials` who asks, `exchange` is one question over HTTP,
//! `access` answers the registry's challenge, `manifest` finds the component in what it holds.

mod access;
mod credentials;
mod error;
mod exchange;
mod manifest;
mod reference;

use std::fmt::Write as _;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use access::Access;
pub use credentials::{Credentials, CredentialsError};
pub use error::PullError;
use exchange::Exchange;
use manifest::{Blob, Contents, Holding};
pub use reference::{Reference, ReferenceError};

/// Indexes within an index: registries hold one level, and one more does no harm.
const MOST_INDEXES: usize = 2;

/// How a registry is asked.
#[derive(Clone, Debug)]
pub struct PullOptions {
    /// Over HTTP without TLS.
    pub plain_http: bool,
    /// Who asks, where the registry wants to know.
    pub credentials: Option<Credentials>,
    /// Bytes of the largest component that is taken.
    pub most_bytes: u64,
    /// For all of it.
    pub timeout: Duration,
}

/// A component, with what is known of where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The component; nobody has looked into it.
    pub component: Vec<u8>,
    /// The SHA-256 of it, in hex.
    pub digest: String,
    /// That of its manifest: with it, the same is asked for again.
    pub manifest: String,
    /// A detached signature that came with it.
    pub signature: Option<Vec<u8>>,
}

/// Fetches a component.
///
/// # Errors
///
/// Where it failed, why, and what to do about it.
pub async fn pull(reference: &Reference, options: &PullOptions) -> Result<Artifact, PullError> {
    timeout(options.timeout, fetch(reference, options)).await.unwrap_or_else(|_| {
        Err(PullError::TimedOut { reference: reference.to_string(), limit: options.timeout })
    })
}

async fn fetch(reference: &Reference, options: &PullOptions) -> Result<Artifact, PullError> {
    let exchange = Exchange::new(reference, options.plain_http)?;
    let mut access = Access::new(exchange, reference, options.credentials.clone());
    let mut wanted = reference.digest().map(str::to_owned);
    let mut indexes = 0;
    let (contents, digest) = loop {
        let url = reference.manifest(wanted.as_deref(), options.plain_http)?;
        let (body, told) = access.manifest(&url).await?;
        let digest = hex(&Sha256::digest(&body));
        let other = wanted.iter().chain(&told).find(|wanted| **wanted != digest).cloned();
        if let Some(wanted) = other {
            return Err(PullError::Digest { url: url.to_string(), found: digest, wanted });
        }
        match manifest::read(&url, &body)? {
            Holding::Contents(contents) => break (contents, digest),
            Holding::Index(within) if indexes < MOST_INDEXES => {
                indexes += 1;
                wanted = Some(within);
            }
            Holding::Index(_) => {
                let what = "its index leads to indexes only".to_owned();
                return Err(PullError::Manifest { url: url.to_string(), what });
            }
        }
    };
    let Contents { component, signature } = contents;
    let signature = match signature {
        Some(blob) => Some(take(&mut access, reference, options, &blob).await?),
        None => None,
    };
    let bytes = take(&mut access, reference, options, &component).await?;
    Ok(Artifact { component: bytes, digest: component.digest, manifest: digest, signature })
}

/// A blob that is what the manifest says.
async fn take(
    access: &mut Access,
    reference: &Reference,
    options: &PullOptions,
    blob: &Blob,
) -> Result<Vec<u8>, PullError> {
    let url = reference.blob(&blob.digest, options.plain_http)?;
    if blob.size > options.most_bytes {
        let (size, most) = (blob.size, options.most_bytes);
        return Err(PullError::TooLarge { url: url.to_string(), size, most });
    }
    let bytes = access.blob(&url, blob.size).await?;
    let found = hex(&Sha256::digest(&bytes));
    if found != blob.digest {
        let (url, wanted) = (url.to_string(), blob.digest.clone());
        return Err(PullError::Digest { url, found, wanted });
    }
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string doesn't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The digits of a SHA-256 that is written `sha256:…`, in lower case.
fn sha256(text: &str) -> Option<String> {
    let digits = text.strip_prefix("sha256:")?;
    let good = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    good.then(|| digits.to_ascii_lowercase())
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
