//! The policy types that there are, by name.
//!
//! Owns the map from a type's name to its [`PolicyProvider`]. A catalogue is a value: a reload makes
//! another one, and what was built from the old one goes on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::instance::PolicyInstance;
use super::limits::{Limits, RacingLimits};
use super::settings::RouterSettings;
use crate::classifier::ClassifierProvider;
use crate::ids::PartitionKey;

/// A component's identity: the SHA-256 of its bytes, in hex.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub Arc<str>);

impl Digest {
    /// Its first twelve digits, for tables and headers.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an instance is told once.
#[derive(Clone, Debug)]
pub struct PolicyEnvironment {
    /// The instance's name in the YAML.
    pub instance: Arc<str>,
    /// What it serves.
    pub partition: PartitionKey,
    /// Tokens in one block there.
    pub block_size: u32,
    /// Its `parameters`; an object.
    pub parameters: Arc<serde_json::Map<String, serde_json::Value>>,
    /// The router's settings.
    pub settings: Arc<RouterSettings>,
    /// What it may use.
    pub limits: Limits,
    /// A seed of its own.
    pub seed: u64,
    /// Whether it is made to be tried and not to serve: how it fails isn't counted.
    pub trial: bool,
}

impl PolicyEnvironment {
    /// What it serves, for messages.
    #[must_use]
    pub fn place(&self) -> String {
        self.partition.shown(self.trial)
    }
}

/// Why no instance could be made. For the operator: shown at load, and whenever a reload fails.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InstantiateError {
    /// The policy refused its parameters or its place.
    #[error("type {policy_type:?} refuses to be configured: {reason}")]
    Refused {
        /// The policy's type.
        policy_type: String,
        /// In the policy's words.
        reason: String,
    },
    /// Its declaration isn't one.
    #[error("type {policy_type:?} declares what this host can't take: {reason}")]
    Declaration {
        /// The policy's type.
        policy_type: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Its limits and its size don't go together.
    #[error("type {policy_type:?} can't have these limits: {error}")]
    Limits {
        /// The policy's type.
        policy_type: String,
        /// Which of them, and how.
        error: RacingLimits,
    },
    /// A call failed while it was made.
    #[error("type {policy_type:?} failed in {call}: {cause}: {detail}")]
    Failed {
        /// The policy's type.
        policy_type: String,
        /// Which call.
        call: &'static str,
        /// Why.
        cause: super::failure::Cause,
        /// In words.
        detail: String,
    },
}

/// Makes instances of one policy type.
pub trait PolicyProvider: Send + Sync + fmt::Debug {
    /// The type's name, as the YAML names it.
    fn policy_type(&self) -> &str;

    /// The component's identity; none for a native policy.
    fn digest(&self) -> Option<&Digest>;

    /// Makes one instance. May take a while (a component is instantiated and configured), so call
    /// it off the decision path.
    fn instantiate(
        &self,
        environment: &PolicyEnvironment,
    ) -> Result<Box<dyn PolicyInstance>, InstantiateError>;
}

/// All types that can be named now.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    types: BTreeMap<Arc<str>, Arc<dyn PolicyProvider>>,
    classifiers: BTreeMap<Arc<str>, Arc<dyn ClassifierProvider>>,
}

impl Catalog {
    /// The built-ins alone.
    #[must_use]
    pub fn builtin() -> Self {
        let mut catalog = Self::default();
        super::builtin::providers().into_iter().for_each(|provider| {
            catalog.types.insert(provider.policy_type().into(), provider);
        });
        catalog
    }

    /// Adds a type, or replaces it. A built-in's name can't be taken.
    pub fn insert(&mut self, provider: Arc<dyn PolicyProvider>) -> Result<(), NameTaken> {
        let name: Arc<str> = provider.policy_type().into();
        if super::builtin::NAMES.contains(&&*name) {
            return Err(NameTaken(name.to_string()));
        }
        self.types.insert(name, provider);
        Ok(())
    }

    /// A type by name.
    #[must_use]
    pub fn get(&self, policy_type: &str) -> Option<&Arc<dyn PolicyProvider>> {
        self.types.get(policy_type)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(|name| &**name)
    }

    /// Adds a type of request classifiers, or replaces it. The name of a built-in policy can't be
    /// taken.
    pub fn insert_classifier(
        &mut self,
        provider: Arc<dyn ClassifierProvider>,
    ) -> Result<(), NameTaken> {
        let name: Arc<str> = provider.classifier_type().into();
        if super::builtin::NAMES.contains(&&*name) {
            return Err(NameTaken(name.to_string()));
        }
        self.classifiers.insert(name, provider);
        Ok(())
    }

    /// A type of request classifiers by name.
    #[must_use]
    pub fn classifier(&self, classifier_type: &str) -> Option<&Arc<dyn ClassifierProvider>> {
        self.classifiers.get(classifier_type)
    }

    /// The names of all types of request classifiers, sorted.
    pub fn classifier_names(&self) -> impl Iterator<Item = &str> {
        self.classifiers.keys().map(|name| &**name)
    }
}

/// A component is named as a built-in is.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is the name of a built-in policy; rename the component's file")]
pub struct NameTaken(pub String);
