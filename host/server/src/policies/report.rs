//! What a reload did, for whoever asked for it.

use std::sync::Arc;

use pointsman_core::policy::Digest;
use serde::Serialize;

use super::trial::Warning;
use crate::discovery::FileChanges;

/// A version that took another's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// The type.
    #[serde(rename = "type")]
    pub policy_type: Arc<str>,
    /// What it was; none for a type that had no good version before.
    pub from: Option<Digest>,
    /// What it is; none for one that was removed and that nothing uses.
    pub to: Option<Digest>,
}

/// What was refused, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// A policy type, `configuration`, or `folder`.
    pub what: String,
    /// What was found; none for what has no digest.
    pub digest: Option<Digest>,
    /// In a sentence.
    pub reason: String,
}

/// What a reload did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReloadReport {
    /// New versions that are in place now.
    pub replaced: Vec<Replaced>,
    /// Whether a changed configuration was taken up.
    pub configuration_changed: bool,
    /// What a changed configuration did to the workers that it names.
    pub workers: FileChanges,
    /// Changed parts of the configuration that only a restart takes up.
    pub needs_restart: Vec<&'static str>,
    /// What was refused; the last good serves on in its place.
    pub refused: Vec<Refusal>,
    /// What the file says that is likely not meant, in sentences.
    pub doubts: Vec<String>,
    /// What serves and is likely not meant so, by instance.
    pub warnings: Vec<Warning>,
    /// Partitions that were switched.
    pub partitions: usize,
    /// Partitions among them whose policy's state was handed over.
    pub handed_over: usize,
    /// How long it took.
    pub millis: u64,
}

impl ReloadReport {
    /// Something was refused, so that not all is as the folder and the file want it.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        !self.refused.is_empty() || !self.workers.refused.is_empty()
    }

    /// Nothing was found to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.replaced.is_empty()
            && !self.configuration_changed
            && self.workers.is_empty()
            && self.refused.is_empty()
    }
}
