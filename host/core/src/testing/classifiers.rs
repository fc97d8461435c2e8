//! Request classifiers made of closures.

use std::fmt;
use std::sync::Arc;

use crate::classifier::{
    Arrival, ClassifierDeclaration, ClassifierEnvironment, ClassifierProvider, ClassifierSpec,
    ClassifyRequest, LifecycleEvent, Release, RequestClassifier, Verdict,
};
use crate::policy::{Digest, InstantiateError, Limits, OnFailure, StageError};

/// A request of 100 tokens that wants nothing of a classifier.
#[must_use]
pub fn arrival(id: &str) -> Arrival {
    Arrival::new(id.into(), "default".into(), 100)
}

/// A classifier made of two closures.
pub struct Classifying<C, E> {
    declaration: ClassifierDeclaration,
    classify: C,
    on_event: E,
}

/// A classifier from closures, which may hold so many requests; a function, so that the closures'
/// types are known.
pub fn classifying<C, E>(most_held: u32, classify: C, on_event: E) -> Classifying<C, E>
where
    C: FnMut(&ClassifyRequest<'_>) -> Result<Verdict, StageError> + Send,
    E: FnMut(&LifecycleEvent<'_>, u64) -> Result<Vec<Release>, StageError> + Send,
{
    let declaration = ClassifierDeclaration { tick_ms: 0, most_held };
    Classifying { declaration, classify, on_event }
}

impl<C, E> Classifying<C, E> {
    /// The same, which wants to be told that time passes.
    #[must_use]
    pub fn ticking(mut self, tick_ms: u32) -> Self {
        self.declaration.tick_ms = tick_ms;
        self
    }
}

impl<C, E> fmt::Debug for Classifying<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Classifying").field(&self.declaration).finish()
    }
}

impl<C, E> RequestClassifier for Classifying<C, E>
where
    C: FnMut(&ClassifyRequest<'_>) -> Result<Verdict, StageError> + Send,
    E: FnMut(&LifecycleEvent<'_>, u64) -> Result<Vec<Release>, StageError> + Send,
{
    fn declaration(&self) -> ClassifierDeclaration {
        self.declaration
    }

    fn classify(&mut self, request: &ClassifyRequest<'_>) -> Result<Verdict, StageError> {
        (self.classify)(request)
    }

    fn on_event(
        &mut self,
        event: &LifecycleEvent<'_>,
        now_ms: u64,
    ) -> Result<Vec<Release>, StageError> {
        (self.on_event)(event, now_ms)
    }
}

type Make = dyn Fn(&ClassifierEnvironment) -> Result<Box<dyn RequestClassifier>, InstantiateError>
    + Send
    + Sync;

/// A classifier type that is made by a closure.
pub struct MadeClassifier {
    name: String,
    digest: Option<Digest>,
    make: Box<Make>,
}

impl MadeClassifier {
    /// The type `name`, whose instances `make` makes.
    #[must_use]
    pub fn new<C: RequestClassifier + 'static>(
        name: impl Into<String>,
        make: impl Fn() -> C + Send + Sync + 'static,
    ) -> Self {
        Self::fallible(name, move |_| Ok(Box::new(make())))
    }

    /// The same with a closure that is told where it serves, and may refuse.
    #[must_use]
    pub fn fallible(
        name: impl Into<String>,
        make: impl Fn(&ClassifierEnvironment) -> Result<Box<dyn RequestClassifier>, InstantiateError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { name: name.into(), digest: None, make: Box::new(make) }
    }

    /// The same as if it came from a component of this digest.
    #[must_use]
    pub fn with_digest(self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self }
    }
}

impl fmt::Debug for MadeClassifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadeClassifier").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ClassifierProvider for MadeClassifier {
    fn classifier_type(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    fn instantiate(
        &self,
        environment: &ClassifierEnvironment,
    ) -> Result<Box<dyn RequestClassifier>, InstantiateError> {
        (self.make)(environment)
    }
}

/// The choice of a type, without parameters.
#[must_use]
pub fn classifier_spec(classifier_type: &str, on_failure: OnFailure) -> ClassifierSpec {
    ClassifierSpec {
        classifier_type: classifier_type.into(),
        parameters: Arc::default(),
        limits: Limits::default(),
        on_failure,
    }
}
