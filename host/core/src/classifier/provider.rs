//! The seam between the host and a classifier, whatever it is made of.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::facts::{Capacity, ClassifyRequest, LifecycleEvent, Release, Verdict};
use crate::ids::PartitionKey;
use crate::policy::{Digest, InstantiateError, Limits, RouterSettings, StageError, Usage};

/// What a classifier is told once.
#[derive(Clone, Debug)]
pub struct ClassifierEnvironment {
    /// What it serves.
    pub partition: PartitionKey,
    /// Tokens in one block there.
    pub block_size: u32,
    /// Its `parameters`; an object.
    pub parameters: Arc<serde_json::Map<String, serde_json::Value>>,
    /// The router's settings.
    pub settings: Arc<RouterSettings>,
    /// The classes that it may give, sorted.
    pub policy_classes: Arc<[Arc<str>]>,
    /// The workers at the time; changes are told.
    pub workers: Arc<[Capacity]>,
    /// What it may use.
    pub limits: Limits,
    /// A seed of its own.
    pub seed: u64,
    /// Whether it is made to be tried and not to serve: how it fails isn't counted.
    pub trial: bool,
}

/// What a classifier wants of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassifierDeclaration {
    /// How often it is to be told that time passes, in milliseconds; 0 is never.
    pub tick_ms: u32,
    /// The most requests that it may hold at once.
    pub most_held: u32,
}

/// One configured classifier, serving one partition for all of its life.
///
/// The host calls it serially, from any thread, and checks every answer. A call must not block: it is
/// bounded by fuel in a component, and by its author's care natively. After a panic, or an error of
/// the causes that end an instance, it isn't asked again.
pub trait RequestClassifier: Send + fmt::Debug {
    /// What it wants. The same for all of its life.
    fn declaration(&self) -> ClassifierDeclaration;

    /// What becomes of a request. Asked once for each, unless the instance was replaced meanwhile.
    fn classify(&mut self, request: &ClassifyRequest<'_>) -> Result<Verdict, StageError>;

    /// Takes note of an event, in order; the answer releases held requests.
    fn on_event(
        &mut self,
        event: &LifecycleEvent<'_>,
        now_ms: u64,
    ) -> Result<Vec<Release>, StageError>;

    /// Whether another one should take its place, for want of room. Asked between two calls.
    fn is_worn(&self) -> bool {
        false
    }

    /// What it has used; none if nobody keeps count of that.
    fn usage(&self) -> Option<Usage> {
        None
    }

    /// The fuel that the last call used; none where calls aren't metered.
    fn last_fuel(&self) -> Option<u64> {
        None
    }
}

/// Makes instances of one classifier type.
pub trait ClassifierProvider: Send + Sync + fmt::Debug {
    /// The type's name, as the YAML names it.
    fn classifier_type(&self) -> &str;

    /// The component's identity; none for a native classifier.
    fn digest(&self) -> Option<&Digest>;

    /// Makes one instance, and configures it.
    fn instantiate(
        &self,
        environment: &ClassifierEnvironment,
    ) -> Result<Box<dyn RequestClassifier>, InstantiateError>;
}
