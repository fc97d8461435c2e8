//! State that outlives a reload.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Refusal, Result};

/// Carries state from one version of a policy to the next.
///
/// The old instance is asked to save, the new one, configured but not yet used, to restore. Only
/// when both versions have a handover. To keep the state in the same value that scores, wrap it in
/// [`Shared`](crate::Shared).
pub trait Handover: Send + 'static {
    /// The state, in a form that the next version can read; [`encode`] makes one.
    ///
    /// # Errors
    ///
    /// Keeps the old version serving.
    fn save(&self) -> Result<Vec<u8>>;

    /// Takes the state of the version before; [`decode`] reads it.
    ///
    /// # Errors
    ///
    /// Refuses the reload, and the old version goes on serving.
    fn restore(&mut self, state: &[u8]) -> Result;
}

/// State as JSON, which a later version can read even when it has gained fields.
///
/// # Errors
///
/// When the value has no JSON form, such as a map whose keys aren't strings.
pub fn encode<T: Serialize>(state: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(state).map_err(|error| Refusal::new(error).at("the state can't be saved"))
}

/// State that [`encode`] wrote.
///
/// # Errors
///
/// When the bytes aren't what `T` expects.
pub fn decode<T: DeserializeOwned>(state: &[u8]) -> Result<T> {
    serde_json::from_slice(state).map_err(|error| {
        Refusal::new(error).at("the state of the version before can't be read; \
             reload with \"state: discard\" to start anew")
    })
}
