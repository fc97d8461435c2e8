//! What a reference leads to: an index of manifests, or a manifest with its layers.
//!
//! Owns which of them is the component. A layer is one if its media type says so; a detached
//! signature is one whose title ends in `.minisig`, as tools title the files that they push. It
//! believes no size and no digest; whoever fetches does the proof.

use std::collections::BTreeMap;

use serde::Deserialize;
use url::Url;

use super::error::PullError;

/// What is asked for.
pub(super) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// Bytes of a manifest: as much as registries take.
pub(super) const MOST_BYTES: u64 = 4 << 20;

/// Layers that are components.
const COMPONENTS: [&str; 2] = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];

/// Manifests within an index.
const MANIFESTS: [&str; 4] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// What layers are titled by.
const TITLE: &str = "org.opencontainers.image.title";

/// Bytes of a signature: four short lines.
const MOST_SIGNATURE: u64 = 4_096;

/// The most things that a message lists.
const MOST_LISTED: usize = 5;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    manifests: Option<Vec<Descriptor>>,
    layers: Option<Vec<Descriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    artifact_type: Option<String>,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
}

/// What a reference leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Holding {
    /// A manifest of this digest.
    Index(String),
    /// A component.
    Contents(Contents),
}

/// The parts of an artifact that are of use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) component: Blob,
    pub(super) signature: Option<Blob>,
}

/// A blob, as the manifest describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blob {
    /// The digits of its SHA-256.
    pub(super) digest: String,
    pub(super) size: u64,
}

/// Reads what was found at a place.
pub(super) fn read(url: &Url, body: &[u8]) -> Result<Holding, PullError> {
    let wrong = |what: String| PullError::Manifest { url: url.to_string(), what };
    let document: Document = serde_json::from_slice(body)
        .map_err(|error| wrong(format!("is neither a manifest nor an index: {error}")))?;
    match (document.manifests, document.layers) {
        (Some(manifests), None) => within(&manifests).map(Holding::Index).map_err(wrong),
        (None, Some(layers)) => contents(&layers).map(Holding::Contents).map_err(wrong),
        (None, None) => Err(wrong("has neither layers nor manifests".to_owned())),
        // Which of them it is would depend on who reads it.
        (Some(_), Some(_)) => Err(wrong("claims to be both a manifest and an index".to_owned())),
    }
}

/// The manifest of an index that is most likely meant.
fn within(manifests: &[Descriptor]) -> Result<String, String> {
    let is_wasm = |one: &&Descriptor| {
        let architecture = one.platform.as_ref().map_or("", |platform| &platform.architecture);
        architecture == "wasm" || one.artifact_type.as_ref().is_some_and(|of| of.contains("wasm"))
    };
    // What builders add about a manifest has no platform to speak of.
    let is_about = |one: &&Descriptor| {
        one.platform.as_ref().is_some_and(|platform| platform.architecture == "unknown")
    };
    let all = manifests.iter().filter(|one| MANIFESTS.contains(&&*one.media_type));
    let all: Vec<_> = all.filter(|one| !is_about(one)).collect();
    let wasm: Vec<_> = all.iter().copied().filter(is_wasm).collect();
    let likely = if wasm.is_empty() { all } else { wasm };
    match likely.as_slice() {
        [] => Err("is an index without a manifest".to_owned()),
        [only] => digest(only),
        several => {
            let digests = several.iter().map(|one| shown(&one.digest)).take(MOST_LISTED);
            let digests: Vec<_> = digests.collect();
            Err(format!(
                "is an index of {} manifests, any of which may be meant: name one by its digest, as \
                 in @{}",
                several.len(),
                digests.join(", @")
            ))
        }
    }
}

/// The component among layers, and its signature.
fn contents(layers: &[Descriptor]) -> Result<Contents, String> {
    let components = layers.iter().filter(|layer| COMPONENTS.contains(&&*layer.media_type));
    let components: Vec<_> = components.collect();
    let component = match components.as_slice() {
        [only] => blob(only)?,
        [] => {
            let types = layers.iter().map(|layer| shown(&layer.media_type)).take(MOST_LISTED);
            let types = types.collect::<Vec<_>>().join(", ");
            let types = if types.is_empty() { "none".to_owned() } else { types };
            return Err(format!("has no layer of type {}, only: {types}", COMPONENTS.join(" or ")));
        }
        several => return Err(format!("has {} components, wanted one", several.len())),
    };
    let is_signature = |layer: &&Descriptor| {
        let title = layer.annotations.as_ref().and_then(|notes| notes.get(TITLE));
        title.is_some_and(|title| title.ends_with(".minisig"))
    };
    let signatures: Vec<_> = layers.iter().filter(is_signature).collect();
    let signature = match signatures.as_slice() {
        [] => None,
        [only] if only.size <= MOST_SIGNATURE => Some(blob(only)?),
        [only] => return Err(format!("has a signature of {} bytes", only.size)),
        several => return Err(format!("has {} signatures, wanted one", several.len())),
    };
    Ok(Contents { component, signature })
}

fn blob(of: &Descriptor) -> Result<Blob, String> {
    Ok(Blob { digest: digest(of)?, size: of.size })
}

fn digest(of: &Descriptor) -> Result<String, String> {
    let found = &of.digest;
    super::sha256(found).ok_or_else(|| {
        format!("names {:?}, wanted a digest of sha256 with 64 digits", shown(found))
    })
}

/// A registry's text in a message.
fn shown(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic()).take(100).collect()
}
