//! The seam between what finds components and what puts them in place.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pointsman_core::classifier::ClassifierProvider;
use pointsman_core::policy::{Digest, PolicyProvider};
use thiserror::Error;

use super::schema::ParametersSchema;
use crate::config::At;

/// What a look found for one policy type.
#[derive(Clone, Debug)]
pub struct Found {
    /// The type's name.
    pub policy_type: Arc<str>,
    /// What was found; none when it could not be read.
    pub digest: Option<Digest>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// The version of the contract that it was built for; none when it could not be loaded.
    pub contract: Option<String>,
    /// The interfaces that it imports, sorted.
    pub imports: Vec<String>,
    /// What it says its parameters are; none when it doesn't say.
    pub schema: Option<Arc<ParametersSchema>>,
    /// Ready to make instances; or why not, in a sentence.
    pub provider: Result<Makes, String>,
}

/// What instances can be made of a component: at least one of the two.
#[derive(Clone, Debug, Default)]
pub struct Makes {
    /// Policies, which select workers.
    pub policy: Option<Arc<dyn PolicyProvider>>,
    /// Request classifiers.
    pub classifier: Option<Arc<dyn ClassifierProvider>>,
}

impl Makes {
    /// The component's identity.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        let policy = self.policy.as_ref().and_then(|policy| policy.digest());
        policy.or_else(|| self.classifier.as_ref().and_then(|classifier| classifier.digest()))
    }
}

/// Why nothing could be looked at.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct LookError(pub String);

impl LookError {
    /// The same, behind its place in the configuration where it has one.
    #[must_use]
    pub fn at(self, place: Option<&At>) -> Self {
        place.map_or_else(|| self.clone(), |place| Self(format!("{place}: {self}")))
    }
}

/// Where components come from.
///
/// Asked by one thread at a time, where blocking is allowed: a look reads files.
pub trait Components: Send + Sync + fmt::Debug {
    /// Everything that is there now, each type once. What is new is compiled beside it, and is
    /// there at a later look; until then the version before it is.
    ///
    /// # Errors
    ///
    /// The place as a whole can't be read; what was known stays so.
    fn look(&self) -> Result<Vec<Found>, LookError>;

    /// Whether a later look may find more than the last, though nothing changes any more: a file
    /// is on its way or being compiled. Never for ever.
    fn is_busy(&self) -> bool {
        false
    }

    /// Calls `wake` soon after something changed or was compiled, until the guard is dropped. None where changes
    /// can't be watched; then only the periodic look finds them.
    fn watch(&self, wake: Box<dyn Fn() + Send + Sync>) -> Option<Box<dyn Send + Sync>>;

    /// What happened to components up to now, as counts by name; for metrics.
    fn counts(&self) -> BTreeMap<String, u64>;
}

/// No folder: the built-ins alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoComponents;

impl Components for NoComponents {
    fn look(&self) -> Result<Vec<Found>, LookError> {
        Ok(Vec::new())
    }

    fn watch(&self, _wake: Box<dyn Fn() + Send + Sync>) -> Option<Box<dyn Send + Sync>> {
        None
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}
