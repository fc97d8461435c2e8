//! A component as the core's catalogue has it: a maker of configured instances.

use std::sync::Arc;

use pointsman_core::classifier::{
    ClassifierDeclaration, ClassifierEnvironment, ClassifierProvider, RequestClassifier,
};
use pointsman_core::policy::{
    Declaration, Digest, InstantiateError, Limits, PolicyEnvironment, PolicyInstance,
    PolicyProvider, StageError,
};

use super::{ComponentPolicy, Inner};
use crate::convert::{self, ClassifierText, EnvironmentText};
use crate::imports::LogSink;
use crate::instance::{ComponentClassifier, ComponentInstance, Live, Slot};
use crate::text::each_quoted;

impl PolicyProvider for ComponentPolicy {
    fn policy_type(&self) -> &str {
        &self.inner.policy_type
    }

    fn digest(&self) -> Option<&Digest> {
        Some(&self.inner.digest)
    }

    fn instantiate(
        &self,
        environment: &PolicyEnvironment,
    ) -> Result<Box<dyn PolicyInstance>, InstantiateError> {
        let (live, declaration) = self.inner.configured(environment)?;
        let slot = Slot::new(self.inner.clone(), environment.clone(), declaration);
        Ok(Box::new(ComponentInstance::new(slot, live)))
    }
}

impl ClassifierProvider for ComponentPolicy {
    fn classifier_type(&self) -> &str {
        &self.inner.policy_type
    }

    fn digest(&self) -> Option<&Digest> {
        Some(&self.inner.digest)
    }

    fn instantiate(
        &self,
        environment: &ClassifierEnvironment,
    ) -> Result<Box<dyn RequestClassifier>, InstantiateError> {
        let inner = &self.inner;
        let place = Place {
            // The name that its section has in the YAML.
            instance: "request_classifier".into(),
            partition: environment.partition.shown(environment.trial),
            limits: &environment.limits,
            seed: environment.seed,
            trial: environment.trial,
        };
        let mut live = inner.started(place)?;
        let text = ClassifierText::new(environment).map_err(|error| inner.no_json(&error))?;
        let answer = live
            .configure_classifier(&text, environment)
            .map_err(|error| inner.failed("configure-classifier", error))?;
        let declared = answer.map_err(|words| inner.refuses(&words))?;
        let declaration =
            ClassifierDeclaration { tick_ms: declared.tick_ms, most_held: declared.most_held };
        let policy_type = inner.policy_type.clone();
        let seed = environment.seed;
        Ok(Box::new(ComponentClassifier::new(policy_type, live, declaration, seed)))
    }
}

/// What a guest is started for.
struct Place<'a> {
    instance: Arc<str>,
    partition: String,
    limits: &'a Limits,
    seed: u64,
    trial: bool,
}

impl Inner {
    fn failed(&self, call: &'static str, error: StageError) -> InstantiateError {
        let policy_type = self.policy_type.to_string();
        let StageError { cause, detail } = error;
        InstantiateError::Failed { policy_type, call, cause, detail }
    }

    fn refuses(&self, words: &str) -> InstantiateError {
        let policy_type = self.policy_type.to_string();
        InstantiateError::Refused { policy_type, reason: each_quoted(words) }
    }

    fn no_json(&self, error: &serde_json::Error) -> InstantiateError {
        InstantiateError::Refused {
            policy_type: self.policy_type.to_string(),
            reason: format!("its parameters are no JSON: {error}"),
        }
    }

    /// Starts a guest within the limits of its owner, its log named after its place.
    fn started(&self, place: Place<'_>) -> Result<Live, InstantiateError> {
        let bounds = self.class.bounds(place.limits).map_err(|error| InstantiateError::Limits {
            policy_type: self.policy_type.to_string(),
            error,
        })?;
        // What goes wrong in a trial is told by whoever tries, and counted nowhere.
        let counters = if place.trial { Arc::default() } else { self.engine.counts().clone() };
        let log = LogSink::new(
            place.instance,
            Arc::clone(&self.policy_type),
            place.partition,
            place.limits,
            counters,
        );
        let started = self.start(&bounds, log, place.seed);
        started.map_err(|error| self.failed("its start", error.into()))
    }

    /// Starts a guest and configures it.
    pub(crate) fn configured(
        &self,
        environment: &PolicyEnvironment,
    ) -> Result<(Live, Declaration), InstantiateError> {
        let mut live = self.started(Place {
            instance: environment.instance.clone(),
            partition: environment.place(),
            limits: &environment.limits,
            seed: environment.seed,
            trial: environment.trial,
        })?;
        let text = EnvironmentText::new(environment).map_err(|error| self.no_json(&error))?;
        let answer =
            live.configure(&text, environment).map_err(|error| self.failed("configure", error))?;
        let raw = answer.map_err(|words| self.refuses(&words))?;
        let declaration = convert::declaration(raw, self.exports()).map_err(|error| {
            InstantiateError::Declaration {
                policy_type: self.policy_type.to_string(),
                reason: error.to_string(),
            }
        })?;
        Ok((live, declaration))
    }
}
