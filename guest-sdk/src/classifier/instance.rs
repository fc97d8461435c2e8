//! A configured classifier: the three calls of the contract, on plain Rust values. The component's
//! exports call this, and so does a native build.

use super::{
    Classifier, ClassifierEnvironment, ClassifyRequest, LifecycleEvent, Release, Releases,
    RequestClassifier, Verdict,
};
use crate::{Refusal, Result, parameters};

/// What a classifier wants of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// How often a tick should come, in milliseconds; 0 is never.
    pub tick_ms: u32,
    /// The most requests that it holds at once.
    pub most_held: u32,
}

/// One instance of a classifier, which serves one partition.
pub struct Instance(Box<dyn RequestClassifier>);

impl Instance {
    /// Parses the parameters and builds the classifier.
    ///
    /// # Errors
    ///
    /// Whatever the parameters or the classifier refuse.
    pub fn configure<C: Classifier>(environment: &ClassifierEnvironment) -> Result<Self> {
        if environment.partition.block_size == 0 {
            return Err(Refusal::from("the partition's block size is 0; the router must give one"));
        }
        let parameters = parameters::parse::<C::Parameters>(&environment.parameters)?;
        C::build(parameters, environment).map(Self)
    }

    /// What it wants.
    pub fn declaration(&self) -> Declaration {
        Declaration { tick_ms: self.0.tick_ms(), most_held: self.0.most_held() }
    }

    /// What becomes of a request.
    ///
    /// # Errors
    ///
    /// The classifier's refusal.
    pub fn classify(&mut self, request: &ClassifyRequest) -> Result<Verdict> {
        self.0.classify(request)
    }

    /// Takes note of an event.
    ///
    /// # Errors
    ///
    /// The classifier's refusal.
    pub fn on_event(&mut self, event: &LifecycleEvent, now_ms: u64) -> Result<Vec<Release>> {
        let mut releases = Releases::default();
        self.0.on_event(event, now_ms, &mut releases)?;
        Ok(releases.0)
    }
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Instance").field(&self.declaration()).finish()
    }
}
