//! An instance, with what it was made from, so that another can be made in its place.

use std::sync::Arc;

use crate::policy::catalog::{Digest, PolicyEnvironment, PolicyProvider};
use crate::policy::failure::{Cause, StageError};
use crate::policy::instance::PolicyInstance;

/// An instance, with what it was made from.
#[derive(Debug)]
pub struct Source {
    pub(super) instance: Box<dyn PolicyInstance>,
    policy_type: Arc<str>,
    digest: Option<Digest>,
    origin: Option<(Arc<dyn PolicyProvider>, PolicyEnvironment)>,
}

impl Source {
    /// An instance of `policy_type`, which can't be made anew.
    #[must_use]
    pub fn new(
        instance: Box<dyn PolicyInstance>,
        policy_type: Arc<str>,
        digest: Option<Digest>,
    ) -> Self {
        Self { instance, policy_type, digest, origin: None }
    }

    /// Remembers who made it, and what it was told.
    #[must_use]
    pub fn made_by(
        self,
        provider: Arc<dyn PolicyProvider>,
        environment: PolicyEnvironment,
    ) -> Self {
        Self { origin: Some((provider, environment)), ..self }
    }

    /// Its type.
    #[must_use]
    pub fn policy_type(&self) -> &Arc<str> {
        &self.policy_type
    }

    /// Its component's identity; none for a native policy.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    pub(super) fn is_spoilt(&self) -> bool {
        self.instance.is_spoilt()
    }

    /// Makes another instance in place of this one, told the same and with no state.
    pub(super) fn renew(&mut self) -> Result<(), StageError> {
        let unavailable = |text: String| StageError::new(Cause::Unavailable, text);
        let Some((provider, environment)) = &self.origin else {
            return Err(unavailable("it is not known how it was made".to_owned()));
        };
        let made = provider
            .instantiate(environment)
            .map_err(|error| unavailable(format!("no new instance could be made: {error}")))?;
        // Stages are known by their place in the declaration.
        if made.declaration() != self.instance.declaration() {
            let text = "it declares other stages than it did before with the same configuration";
            return Err(unavailable(text.to_owned()));
        }
        self.instance = made;
        Ok(())
    }
}
