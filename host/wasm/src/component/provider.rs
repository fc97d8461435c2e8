//! A component as the core's catalogue has it: a maker of configured instances.

use std::sync::Arc;

use pointsman_core::policy::{
    Declaration, Digest, InstantiateError, Limits, PolicyEnvironment, PolicyInstance,
    PolicyProvider, StageError,
};

use super::{ComponentPolicy, Inner};
use crate::convert::{self, EnvironmentText};
use crate::imports::LogSink;
use crate::instance::{ComponentInstance, Live, Slot};
use crate::text::each_quoted;

impl PolicyProvider for ComponentPolicy {
    fn policy_type(&self) -> &str {
        &self.inner.policy_type
    }

    fn digest(&self) -> Option<&Digest> {
        Some(&self.inner.digest)
    }

    fn limits_beside(&self, limits: &Limits) -> Option<Limits> {
        // Limits that race are in force nowhere.
        let bounds = self.inner.class.bounds(limits).ok()?;
        Some(Limits {
            fuel: Some(bounds.fuel),
            memory: Some(bounds.memory),
            deadline: Some(bounds.deadline),
            recycle_at: Some(bounds.recycle_at),
            table_elements: Some(bounds.table_elements),
            ..*limits
        })
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

impl Inner {
    /// Starts a guest and configures it.
    pub(crate) fn configured(
        &self,
        environment: &PolicyEnvironment,
    ) -> Result<(Live, Declaration), InstantiateError> {
        let policy_type = || self.policy_type.to_string();
        let failed = |call| {
            move |error: StageError| InstantiateError::Failed {
                policy_type: policy_type(),
                call,
                cause: error.cause,
                detail: error.detail,
            }
        };
        let bounds = self
            .class
            .bounds(&environment.limits)
            .map_err(|error| InstantiateError::Limits { policy_type: policy_type(), error })?;
        let text =
            EnvironmentText::new(environment).map_err(|error| InstantiateError::Refused {
                policy_type: policy_type(),
                reason: format!("its parameters are no JSON: {error}"),
            })?;
        // What goes wrong in a trial is told by whoever tries, and counted nowhere.
        let counters =
            if environment.trial { Arc::default() } else { self.engine.counts().clone() };
        let log = LogSink::new(
            environment.instance.clone(),
            Arc::clone(&self.policy_type),
            environment.place(),
            &environment.limits,
            counters,
        );
        let started = self.start(&bounds, log, environment.seed);
        let mut live = started.map_err(StageError::from).map_err(failed("its start"))?;
        let answer = live.configure(&text, environment).map_err(failed("configure"))?;
        let raw = answer.map_err(|words| InstantiateError::Refused {
            policy_type: policy_type(),
            reason: each_quoted(&words),
        })?;
        let declaration = convert::declaration(raw, self.exports()).map_err(|error| {
            InstantiateError::Declaration { policy_type: policy_type(), reason: error.to_string() }
        })?;
        Ok((live, declaration))
    }
}
