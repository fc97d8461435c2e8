//! Policies and classifiers made of closures: for the tests of this crate, of the crates around it, and of whoever
//! embeds it.
//!
//! Owns stages from closures, a policy type from a closure, what an instance is told, a policy with a
//! state to hand over, and choices from loads and caches that are given.
//! A router made with them is a real one; nothing here is a stand-in for the host.

mod classifiers;
#[cfg(test)]
mod fleets;
#[cfg(test)]
mod fused;
mod given;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fleet::Snapshot;
use crate::ids::{DEFAULT_GROUP, PartitionKey, Role};
use crate::policy::native::{NativePolicy, WorkerFilter, WorkerPicker, WorkerScorer};
use crate::policy::selection::{Recipe, TypeUse};
use crate::policy::{
    Candidates, Catalog, Declaration, Digest, Input, InstanceSpec, InstantiateError, Limits,
    OnFailure, PolicyEnvironment, PolicyInstance, PolicyProvider, Properties, RequestView, RowMask,
    SelectionSpec, StageError,
};
use crate::router::Policies;

pub use classifiers::{Classifying, MadeClassifier, arrival, classifier_spec, classifying};
#[cfg(test)]
pub(crate) use fleets::*;
#[cfg(test)]
pub(crate) use fused::Fused;
pub use given::{Given, GivenRow};

/// A stage made of a closure.
pub struct By<F>(Vec<Input>, F);

impl<F> fmt::Debug for By<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("By").field(&self.0).finish()
    }
}

impl<F> WorkerFilter for By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &mut RowMask) -> Result<(), StageError> + Send,
{
    fn inputs(&self) -> &[Input] {
        &self.0
    }

    fn keep(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        (self.1)(request, rows, verdicts)
    }
}

impl<F> WorkerScorer for By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &mut [f64]) -> Result<(), StageError> + Send,
{
    fn inputs(&self) -> &[Input] {
        &self.0
    }

    fn score(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        (self.1)(request, rows, costs)
    }
}

impl<F> WorkerPicker for By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &[f64]) -> Result<usize, StageError> + Send,
{
    fn inputs(&self) -> &[Input] {
        &self.0
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        (self.1)(request, rows, costs)
    }
}

/// A filter from a closure; a function, so that the closure's types are known.
pub fn filter<F>(inputs: &[Input], keep: F) -> By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &mut RowMask) -> Result<(), StageError> + Send,
{
    By(inputs.to_vec(), keep)
}

/// A scorer from a closure.
pub fn scorer<F>(inputs: &[Input], score: F) -> By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &mut [f64]) -> Result<(), StageError> + Send,
{
    By(inputs.to_vec(), score)
}

/// A picker from a closure.
pub fn picker<F>(inputs: &[Input], pick: F) -> By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &[f64]) -> Result<usize, StageError> + Send,
{
    By(inputs.to_vec(), pick)
}

/// A native policy without stages, which promises nothing.
#[must_use]
pub fn native() -> NativePolicy {
    NativePolicy::new(Properties::default())
}

/// A native policy whose whole state is a number, which it hands over.
#[derive(Debug)]
pub struct Stateful {
    parts: NativePolicy,
    declaration: Declaration,
    state: Arc<AtomicU64>,
    takes_state: bool,
}

impl Stateful {
    /// The stages of `parts`, which share `state`. Unless it `takes_state`, it refuses the one of
    /// the version before, when it has taken it already.
    #[must_use]
    pub fn new(parts: NativePolicy, state: Arc<AtomicU64>, takes_state: bool) -> Self {
        let mut declaration = parts.declaration().clone();
        declaration.properties.hands_over = true;
        Self { parts, declaration, state, takes_state }
    }
}

impl PolicyInstance for Stateful {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn keep(
        &mut self,
        filter: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        self.parts.keep(filter, request, rows, verdicts)
    }

    fn score(
        &mut self,
        scorer: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        self.parts.score(scorer, request, rows, costs)
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        self.parts.pick(request, rows, costs)
    }

    fn fleet_changed(&mut self, fleet: &Snapshot) -> Result<(), StageError> {
        self.parts.fleet_changed(fleet)
    }

    fn is_spoilt(&self) -> bool {
        self.parts.is_spoilt()
    }

    fn save(&mut self) -> Option<Result<Vec<u8>, StageError>> {
        Some(Ok(self.state.load(Ordering::Relaxed).to_le_bytes().to_vec()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), StageError> {
        let number = state.try_into().map(u64::from_le_bytes);
        match number {
            Ok(number) => {
                self.state.store(number, Ordering::Relaxed);
                let refused = StageError::refused("a state of another kind");
                self.takes_state.then_some(()).ok_or(refused)
            }
            _ => Err(StageError::refused("a state of another kind")),
        }
    }
}

type Make =
    dyn Fn(&PolicyEnvironment) -> Result<Box<dyn PolicyInstance>, InstantiateError> + Send + Sync;

/// A policy type that is made by a closure.
pub struct MadePolicy {
    name: String,
    digest: Option<Digest>,
    make: Box<Make>,
}

impl MadePolicy {
    /// The type `name`, whose instances `make` makes.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        make: impl Fn(&PolicyEnvironment) -> Result<Box<dyn PolicyInstance>, InstantiateError>
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

impl fmt::Debug for MadePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadePolicy").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PolicyProvider for MadePolicy {
    fn policy_type(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    fn instantiate(
        &self,
        environment: &PolicyEnvironment,
    ) -> Result<Box<dyn PolicyInstance>, InstantiateError> {
        (self.make)(environment)
    }
}

/// What an instance is told that serves aggregated workers of the model `m`, with blocks of 16 tokens.
#[must_use]
pub fn environment() -> PolicyEnvironment {
    PolicyEnvironment {
        instance: "tested".into(),
        partition: PartitionKey {
            model: "m".into(),
            routing_group: DEFAULT_GROUP.into(),
            role: Role::Aggregated,
        },
        block_size: 16,
        parameters: Arc::default(),
        settings: Arc::default(),
        limits: Limits::default(),
        seed: 1,
        trial: false,
    }
}

/// Policies in which `make` decides for aggregated workers.
pub fn policies<P: PolicyInstance + 'static>(
    on_failure: OnFailure,
    make: impl Fn() -> P + Send + Sync + 'static,
) -> Policies {
    fallible(on_failure, move |_| Ok(Box::new(make())))
}

/// The same with a closure that is told where it serves, and may refuse.
pub fn fallible(
    on_failure: OnFailure,
    make: impl Fn(&PolicyEnvironment) -> Result<Box<dyn PolicyInstance>, InstantiateError>
    + Send
    + Sync
    + 'static,
) -> Policies {
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(MadePolicy::new("made", make))).expect("no built-in is named so");
    Policies { catalog, selection: selection("made", on_failure), ..Policies::default() }
}

/// One instance, `mine`, of a type, which decides for aggregated workers.
#[must_use]
pub fn selection(policy_type: &str, on_failure: OnFailure) -> SelectionSpec {
    let recipe = Recipe::Whole(TypeUse {
        policy_type: policy_type.into(),
        parameters: Arc::default(),
        limits: Limits::default(),
    });
    let instance = InstanceSpec::new("mine", recipe, on_failure);
    SelectionSpec { roles: [(Role::Aggregated, "mine".into())].into(), instances: vec![instance] }
}

/// The built-in of this name for aggregated workers.
#[must_use]
pub fn builtin(policy_type: &str) -> Policies {
    Policies {
        catalog: Catalog::builtin(),
        selection: selection(policy_type, OnFailure::Reject),
        ..Policies::default()
    }
}
