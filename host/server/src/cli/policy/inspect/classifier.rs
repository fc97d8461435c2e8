//! What a request classifier is: configured as for a partition of aggregated workers, and put to the
//! made-up requests that `check` puts to it.

use std::sync::Arc;

use pointsman_core::classifier::{
    ClassifierDeclaration, ClassifierEnvironment, ClassifierProvider, ClassifierSpec, SeatError,
};
use pointsman_core::policy::{Catalog, InstantiateError, OnFailure, PolicyEnvironment};
use pointsman_core::queue::{Profile, QueuePolicy};
use pointsman_core::router::Policies;
use pointsman_wasm::ComponentPolicy;
use serde::Serialize;

/// What there is to say of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Classifier {
    /// What it wants of the host; none when it refuses to be configured.
    #[serde(flatten)]
    declaration: Option<ClassifierDeclaration>,
    /// Why it refuses to be configured.
    pub(super) refusal: Option<String>,
    /// Why it fails on made-up requests.
    pub(super) failure: Option<String>,
}

impl Classifier {
    /// Of a component that exports one, told what a policy beside it would be told; and why it could not
    /// be made.
    pub(super) fn of(
        component: &Arc<ComponentPolicy>,
        told: &PolicyEnvironment,
    ) -> (Self, Option<InstantiateError>) {
        // Those of a router that says nothing of queueing.
        let classes = Profile::of_threshold(None, QueuePolicy::default());
        let environment = ClassifierEnvironment {
            partition: told.partition.clone(),
            block_size: told.block_size,
            parameters: told.parameters.clone(),
            settings: told.settings.clone(),
            policy_classes: classes.choices().cloned().collect(),
            workers: Arc::default(),
            limits: told.limits,
            seed: told.seed,
            trial: true,
        };
        match ClassifierProvider::instantiate(&**component, &environment) {
            Ok(made) => {
                let declaration = Some(made.declaration());
                (Self { declaration, refusal: None, failure: tried(component, told) }, None)
            }
            Err(error) => {
                (Self { refusal: Some(error.to_string()), ..Self::default() }, Some(error))
            }
        }
    }

    /// The same in words.
    pub(super) fn lines(&self) -> Vec<String> {
        let declared = self.declaration.map(|ClassifierDeclaration { tick_ms, most_held }| {
            let ticks = match tick_ms {
                0 => "no ticks".to_owned(),
                tick_ms => format!("a tick every {tick_ms} ms"),
            };
            format!("holds {most_held} requests at most, wants {ticks}")
        });
        let refused = self.refusal.as_ref().map(|refusal| format!("not known: {refusal}"));
        let failed = self.failure.as_ref().map(|failure| format!("fails: {failure}"));
        [declared, refused, failed].into_iter().flatten().collect()
    }
}

/// Why it fails on made-up requests.
fn tried(component: &Arc<ComponentPolicy>, told: &PolicyEnvironment) -> Option<String> {
    let mut catalog = Catalog::default();
    if let Err(taken) = catalog.insert_classifier(component.clone()) {
        return Some(taken.to_string());
    }
    let spec = ClassifierSpec {
        classifier_type: component.classifier_type().into(),
        parameters: told.parameters.clone(),
        limits: told.limits,
        on_failure: OnFailure::default(),
    };
    let policies = Policies {
        catalog,
        classifier: Some(spec),
        settings: told.settings.clone(),
        ..Policies::default()
    };
    let tried = policies.try_classifier(&told.partition, told.block_size);
    tried.err().map(|error| match error {
        SeatError::DryRun { call, error, .. } => format!("in {call} of a made-up request: {error}"),
        other => other.to_string(),
    })
}
