//! Trust: which content may serve under which name.
//!
//! Owns the pins (the only content that a type may have) and the public keys (whoever signs with one
//! of them may change what serves). A file is held to both before any of it is compiled, parsed or
//! looked up in a cache, on the very bytes that are compiled then. Signatures are minisign's, detached, in a
//! file beside the component with `.minisig` behind its name. It doesn't know where keys come from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use minisign_verify::{PublicKey, Signature};
use pointsman_core::policy::Digest;
use thiserror::Error;

use crate::component::digest;
use crate::error::LoadError;
use crate::file;

/// Bytes of a signature's file: four short lines.
const MOST_SIGNATURE_BYTES: u64 = 4_096;

/// Why a text is no key, or no pin.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TrustError {
    /// It is no public key of minisign's.
    #[error("not a minisign public key; give the second line of the .pub file, as in RWQ…")]
    Key,
    /// It is no digest.
    #[error(
        "not a digest; give sha256: and 64 hexadecimal digits, as `pointsman policy inspect` prints them"
    )]
    Pin,
}

/// Why a file may not serve.
#[derive(Debug, Error)]
pub enum Distrust {
    /// Its type is pinned to another content.
    #[error(
        "is sha256:{found}, and its type is pinned to sha256:{pinned}; put that content in its place, or change wasm.trust.pins"
    )]
    Pinned {
        /// What it has.
        found: Digest,
        /// What it should have.
        pinned: Digest,
    },
    /// There is no signature.
    #[error("is not signed: there is no {}; sign it with `minisign -Sm`, or take wasm.trust.keys out", .0.display())]
    Unsigned(PathBuf),
    /// There is something else in a signature's place.
    #[error("can't be held to its signature: {} is none of minisign's; sign the component again", .0.display())]
    Unreadable(PathBuf),
    /// The signature fits no key.
    #[error("isn't what was signed, or not by a key that is trusted: {} fits none of the {keys} keys in wasm.trust.keys; sign it again", path.display())]
    Untrusted {
        /// The signature.
        path: PathBuf,
        /// How many keys there are.
        keys: usize,
    },
}

/// Which content may serve. By default any.
#[derive(Clone, Default)]
pub struct Trust {
    pins: BTreeMap<String, Digest>,
    keys: Vec<PublicKey>,
}

impl Trust {
    /// Pins a type to one content: `sha256:` and its digits.
    pub fn pin(&mut self, policy_type: &str, digest: &str) -> Result<(), TrustError> {
        let hex = digest.strip_prefix("sha256:").ok_or(TrustError::Pin)?;
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(TrustError::Pin);
        }
        self.pins.insert(policy_type.to_owned(), Digest(hex.to_ascii_lowercase().into()));
        Ok(())
    }

    /// Trusts whoever signs with the key of this public one.
    pub fn key(&mut self, public: &str) -> Result<(), TrustError> {
        self.keys.push(PublicKey::from_base64(public).map_err(|_| TrustError::Key)?);
        Ok(())
    }

    /// The types that are pinned.
    pub fn pinned(&self) -> impl Iterator<Item = &str> {
        self.pins.keys().map(String::as_str)
    }

    /// Whether everything must be signed.
    #[must_use]
    pub fn wants_signatures(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Holds what is to become a file's content to all of it. The signature comes with it, or stands
    /// where the file is to be.
    pub fn admit(
        &self,
        policy_type: &str,
        path: &Path,
        bytes: &[u8],
        signature: Option<&[u8]>,
    ) -> Result<(), LoadError> {
        self.hold(policy_type, path, bytes, &digest(bytes), signature)
    }

    /// Holds a file's content to all of it.
    pub(crate) fn check(
        &self,
        policy_type: &str,
        path: &Path,
        bytes: &[u8],
        digest: &Digest,
    ) -> Result<(), LoadError> {
        self.hold(policy_type, path, bytes, digest, None)
    }

    fn hold(
        &self,
        policy_type: &str,
        path: &Path,
        bytes: &[u8],
        digest: &Digest,
        signature: Option<&[u8]>,
    ) -> Result<(), LoadError> {
        let distrust = |reason| LoadError::Distrusted {
            path: path.to_owned(),
            digest: digest.clone(),
            reason,
        };
        if let Some(pinned) = self.pins.get(policy_type).filter(|pinned| *pinned != digest) {
            let (found, pinned) = (digest.clone(), pinned.clone());
            return Err(distrust(Distrust::Pinned { found, pinned }));
        }
        if self.keys.is_empty() {
            return Ok(());
        }
        let beside = signature_of(path);
        let text = match signature {
            Some(text) => text.to_owned(),
            None => {
                let Some(file) = file::open(&beside)? else {
                    return Err(distrust(Distrust::Unsigned(beside)));
                };
                file::bytes(&beside, &file, MOST_SIGNATURE_BYTES)?
            }
        };
        let signature = (text.len() as u64 <= MOST_SIGNATURE_BYTES)
            .then(|| std::str::from_utf8(&text).ok())
            .flatten()
            .and_then(|text| Signature::decode(text).ok());
        let Some(signature) = signature else {
            return Err(distrust(Distrust::Unreadable(beside)));
        };
        // Signatures over the whole content, which old versions of minisign made of small files, are
        // as good as those over its hash.
        let fits = |key: &PublicKey| key.verify(bytes, &signature, true).is_ok();
        if self.keys.iter().any(fits) {
            return Ok(());
        }
        Err(distrust(Distrust::Untrusted { path: beside, keys: self.keys.len() }))
    }
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trust").field("pins", &self.pins).field("keys", &self.keys.len()).finish()
    }
}

/// Where a component's signature is.
#[must_use]
pub fn signature_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".minisig");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pin_and_no_key_is_refused() {
        let mut trust = Trust::default();
        for bad in ["", "sha256:", "sha256:00", "md5:00", &format!("sha256:{}", "g".repeat(64))] {
            assert_eq!(trust.pin("a", bad), Err(TrustError::Pin), "{bad}");
        }
        assert_eq!(trust.pin("a", &format!("sha256:{}", "AB".repeat(32))), Ok(()));
        assert_eq!(trust.pinned().collect::<Vec<_>>(), ["a"]);
        for bad in ["", "RWQ", "untrusted comment: minisign public key"] {
            assert_eq!(trust.key(bad), Err(TrustError::Key), "{bad}");
        }
        assert!(!trust.wants_signatures());
    }
}
