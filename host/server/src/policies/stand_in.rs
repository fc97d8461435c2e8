//! What stands in for a component that there is no good version of.
//!
//! A router that starts beside a broken component must not refuse to serve: a broken policy fails
//! its decisions, and its owner said with `on_failure` what becomes of those. So a stand-in fails
//! every decision with the cause for which the component was refused, until a good version comes.

use std::sync::Arc;

use pointsman_core::classifier::{
    ClassifierDeclaration, ClassifierEnvironment, ClassifierProvider, ClassifyRequest,
    LifecycleEvent, Release, RequestClassifier, Verdict,
};
use pointsman_core::policy::candidates::Candidates;
use pointsman_core::policy::row_mask::RowMask;
use pointsman_core::policy::{
    Declaration, Digest, InstantiateError, PolicyEnvironment, PolicyInstance, PolicyProvider,
    RequestView, Stage, StageError,
};

/// Makes instances that fail every decision.
#[derive(Debug)]
pub(super) struct StandIn {
    policy_type: Arc<str>,
    error: StageError,
}

impl StandIn {
    pub(super) fn new(policy_type: Arc<str>, error: StageError) -> Self {
        Self { policy_type, error }
    }
}

impl PolicyProvider for StandIn {
    fn policy_type(&self) -> &str {
        &self.policy_type
    }

    fn digest(&self) -> Option<&Digest> {
        None
    }

    fn instantiate(
        &self,
        _environment: &PolicyEnvironment,
    ) -> Result<Box<dyn PolicyInstance>, InstantiateError> {
        // Stages of every kind, for recipes that take all of a kind. Whole, the filter fails first.
        let stage = Stage::new("stand-in", &[]);
        let declaration = Declaration {
            filters: vec![stage.clone()],
            scorers: vec![stage.clone()],
            picker: Some(stage),
            ..Declaration::default()
        };
        Ok(Box::new(Failing { declaration, error: self.error.clone() }))
    }
}

impl ClassifierProvider for StandIn {
    fn classifier_type(&self) -> &str {
        &self.policy_type
    }

    fn digest(&self) -> Option<&Digest> {
        None
    }

    fn instantiate(
        &self,
        _environment: &ClassifierEnvironment,
    ) -> Result<Box<dyn RequestClassifier>, InstantiateError> {
        Ok(Box::new(Unclassifying(self.error.clone())))
    }
}

#[derive(Debug)]
struct Unclassifying(StageError);

impl RequestClassifier for Unclassifying {
    fn declaration(&self) -> ClassifierDeclaration {
        ClassifierDeclaration::default()
    }

    fn classify(&mut self, _request: &ClassifyRequest<'_>) -> Result<Verdict, StageError> {
        Err(self.0.clone())
    }

    fn on_event(
        &mut self,
        _event: &LifecycleEvent<'_>,
        _now_ms: u64,
    ) -> Result<Vec<Release>, StageError> {
        Ok(Vec::new())
    }
}

#[derive(Debug)]
struct Failing {
    declaration: Declaration,
    error: StageError,
}

impl PolicyInstance for Failing {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn keep(
        &mut self,
        _filter: usize,
        _request: &RequestView<'_>,
        _rows: &Candidates<'_>,
        _verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        Err(self.error.clone())
    }

    fn score(
        &mut self,
        _scorer: usize,
        _request: &RequestView<'_>,
        _rows: &Candidates<'_>,
        _costs: &mut [f64],
    ) -> Result<(), StageError> {
        Err(self.error.clone())
    }

    fn pick(
        &mut self,
        _request: &RequestView<'_>,
        _rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        Err(self.error.clone())
    }
}
