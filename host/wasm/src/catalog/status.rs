//! What the folder shows of itself.

use std::path::PathBuf;

use pointsman_core::policy::Digest;
use serde::Serialize;

use crate::component::SizeClass;

/// One type, or one file that can't be one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeStatus {
    /// The type's name: the file's stem.
    #[serde(rename = "type")]
    pub policy_type: String,
    /// The file.
    pub path: PathBuf,
    /// The version that serves; none when none ever loaded, or the file is gone.
    pub active: Option<Digest>,
    /// The version that stands in the folder, where it could be read.
    pub wanted: Option<Digest>,
    /// The version that is being compiled, or waits for that.
    pub compiling: Option<Digest>,
    /// Since when the active version serves, in milliseconds of Unix time.
    pub since_ms: Option<u64>,
    /// The active version's size in bytes.
    pub size: Option<u64>,
    /// How much room it needs.
    pub class: Option<SizeClass>,
    /// What it imports.
    pub imports: Vec<String>,
    /// Why the version in the folder doesn't serve, in a sentence; none when it does.
    pub error: Option<String>,
}

/// What happened to one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum TypeChange {
    /// It is there for the first time, or again.
    Added {
        /// The type.
        #[serde(rename = "type")]
        policy_type: String,
        /// Its version.
        digest: Digest,
    },
    /// Another version of it loaded.
    Replaced {
        /// The type.
        #[serde(rename = "type")]
        policy_type: String,
        /// The version before.
        before: Digest,
        /// Its version.
        digest: Digest,
    },
    /// Its file is gone. Instances in use go on.
    Removed {
        /// The type.
        #[serde(rename = "type")]
        policy_type: String,
    },
    /// A version of it doesn't load. What served before goes on.
    Refused {
        /// The type.
        #[serde(rename = "type")]
        policy_type: String,
        /// Why.
        error: String,
    },
}

/// What a look through the folder found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FolderState {
    /// What is other than at the look before.
    pub changes: Vec<TypeChange>,
    /// Every type.
    pub types: Vec<TypeStatus>,
    /// Why the folder itself can't be read; what served before goes on.
    pub error: Option<String>,
    /// Whether a file may still be on its way, so that another look is due soon.
    pub unsettled: bool,
    /// The types whose newest version is being compiled, or waits for that: another look is due
    /// when one has ended.
    pub compiling: Vec<String>,
}

impl FolderState {
    /// Whether what serves is other than before.
    #[must_use]
    pub fn serves_otherwise(&self) -> bool {
        self.changes.iter().any(|change| !matches!(change, TypeChange::Refused { .. }))
    }
}
