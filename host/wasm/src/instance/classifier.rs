//! One configured classifier of a component, as the core calls it.
//!
//! Owns the live store. A failure of that is the end of it: the core makes another one, and tells it
//! what there is.

use std::sync::Arc;

use pointsman_core::classifier::{
    ClassifierDeclaration, ClassifyRequest, LifecycleEvent, Release, RequestClassifier, Verdict,
};
use pointsman_core::clock::Moment;
use pointsman_core::policy::{StageError, Usage};

use super::Live;
use crate::convert;
use crate::text::quoted;

/// A classifier.
pub(crate) struct ComponentClassifier {
    policy_type: Arc<str>,
    live: Live,
    declaration: ClassifierDeclaration,
    /// Told apart from call to call, for a guest that asks for chance.
    seed: u64,
    usage: Usage,
}

impl ComponentClassifier {
    pub(crate) fn new(
        policy_type: Arc<str>,
        live: Live,
        declaration: ClassifierDeclaration,
        seed: u64,
    ) -> Self {
        Self { policy_type, live, declaration, seed, usage: Usage::default() }
    }

    fn called<R>(
        &mut self,
        now_ms: u64,
        call: impl FnOnce(&mut Live, Moment) -> Result<Result<R, String>, StageError>,
    ) -> Result<R, StageError> {
        self.seed = self.seed.wrapping_add(1);
        let answer = call(&mut self.live, Moment { now_ms, seed: self.seed });
        self.usage.memory_bytes = self.live.memory_bytes();
        self.usage.most_memory_bytes = self.usage.most_memory_bytes.max(self.usage.memory_bytes);
        answer?.map_err(|words| StageError::refused(quoted(&words)))
    }
}

impl RequestClassifier for ComponentClassifier {
    fn declaration(&self) -> ClassifierDeclaration {
        self.declaration
    }

    fn classify(&mut self, request: &ClassifyRequest<'_>) -> Result<Verdict, StageError> {
        let verdict = self.called(request.now_ms, |live, moment| {
            live.call(moment, |store, guest| {
                guest.classify(store, convert::classify_request(request))
            })
        })?;
        Ok(convert::verdict(verdict))
    }

    fn on_event(
        &mut self,
        event: &LifecycleEvent<'_>,
        now_ms: u64,
    ) -> Result<Vec<Release>, StageError> {
        let releases = self.called(now_ms, |live, moment| {
            live.call(moment, |store, guest| {
                convert::with_event(event, |event| guest.on_event(store, event, now_ms))
            })
        })?;
        Ok(releases.into_iter().map(convert::release).collect())
    }

    fn is_worn(&self) -> bool {
        self.live.is_bloated()
    }

    fn usage(&self) -> Option<Usage> {
        Some(self.usage)
    }

    fn last_fuel(&self) -> Option<u64> {
        Some(self.live.fuel_used())
    }
}

impl std::fmt::Debug for ComponentClassifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComponentClassifier")
            .field("policy_type", &self.policy_type)
            .field("declaration", &self.declaration)
            .field("usage", &self.usage)
            .finish_non_exhaustive()
    }
}
