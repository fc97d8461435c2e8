//! Which classifier admits requests: the operator's choice, and the seats that it makes.

use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use super::facts::Capacity;
use super::provider::ClassifierEnvironment;
use super::seat::Seat;
use crate::error::listed;
use crate::ids::{PartitionKey, Role};
use crate::policy::{Catalog, InstantiateError, Limits, OnFailure, RouterSettings, StageError};

/// The operator's choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassifierSpec {
    /// The type's name in the catalogue.
    #[serde(rename = "type")]
    pub classifier_type: Arc<str>,
    /// Its parameters; an object.
    pub parameters: Arc<serde_json::Map<String, serde_json::Value>>,
    /// What it may use.
    pub limits: Limits,
    /// What becomes of a request that it fails on: it is admitted as it is, gets an error, or is
    /// offered to the version before. To leave a classifier out is to admit what it would be asked about.
    pub on_failure: OnFailure,
}

/// Why a partition got no classifier.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SeatError {
    /// A type that there isn't.
    #[error("request_classifier: unknown type {classifier_type:?}; known: {}", listed(.known))]
    UnknownType {
        /// Which.
        classifier_type: String,
        /// What there is, sorted.
        known: Vec<String>,
    },
    /// A type that there is, and that can't classify.
    #[error(
        "request_classifier: type {classifier_type:?} is a policy and classifies no requests; name it in worker_selection"
    )]
    ClassifiesNothing {
        /// Which.
        classifier_type: String,
    },
    /// It could not be made.
    #[error("request_classifier: {0}")]
    Instantiate(#[from] InstantiateError),
    /// It failed on made-up requests.
    #[error(
        "request_classifier: type {classifier_type:?} fails on made-up requests, in {call}: {error}"
    )]
    DryRun {
        /// Which.
        classifier_type: String,
        /// In which call.
        call: &'static str,
        /// How.
        error: StageError,
    },
}

/// What a seat is made for.
#[derive(Clone, Debug)]
pub(crate) struct SeatContext<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) partition: &'a PartitionKey,
    pub(crate) block_size: u32,
    pub(crate) settings: &'a Arc<RouterSettings>,
    pub(crate) policy_classes: &'a Arc<[Arc<str>]>,
    pub(crate) workers: Arc<[Capacity]>,
    pub(crate) seed: u64,
    pub(crate) trial: bool,
}

impl ClassifierSpec {
    /// Whether requests for workers of a role are classified: those of a request's answer, so that
    /// none is classified twice.
    #[must_use]
    pub fn is_for(role: Role) -> bool {
        matches!(role, Role::Aggregated | Role::Decode)
    }

    /// Makes the classifier of a partition; none for a role that isn't classified.
    pub(crate) fn seat(&self, cx: SeatContext<'_>) -> Result<Option<Seat>, SeatError> {
        if !Self::is_for(cx.partition.role) {
            return Ok(None);
        }
        let provider = cx.catalog.classifier(&self.classifier_type);
        let provider = provider.ok_or_else(|| self.no_classifier(cx.catalog))?;
        let environment = ClassifierEnvironment {
            partition: cx.partition.clone(),
            block_size: cx.block_size,
            parameters: self.parameters.clone(),
            settings: cx.settings.clone(),
            policy_classes: cx.policy_classes.clone(),
            workers: cx.workers,
            limits: self.limits,
            seed: cx.seed,
            trial: cx.trial,
        };
        Ok(Some(Seat::new(provider.clone(), environment, self.on_failure)?))
    }

    /// Why the type makes no classifier.
    fn no_classifier(&self, catalog: &Catalog) -> SeatError {
        let classifier_type = self.classifier_type.to_string();
        if catalog.get(&classifier_type).is_some() {
            return SeatError::ClassifiesNothing { classifier_type };
        }
        let known = catalog.classifier_names().map(str::to_owned).collect();
        SeatError::UnknownType { classifier_type, known }
    }
}
