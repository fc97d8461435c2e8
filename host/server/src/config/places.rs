//! Where things stand in the file, for mistakes that are found later: by a policy that refuses its
//! parameters, or by a folder that lacks a type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pointsman_core::BuildError;
use pointsman_core::ids::{Role, WorkerId};
use pointsman_core::policy::InstantiateError;

use super::error::{At, ConfigError, Problem};
use super::reader::nearest;

/// Where a type is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePlace {
    /// The instance that uses it.
    pub instance: Arc<str>,
    /// The type.
    pub policy_type: Arc<str>,
    /// The value of `type`.
    pub type_at: At,
    /// The value of `parameters`, if it is there.
    pub parameters_at: Option<At>,
    /// The value of `stage`, if it is there.
    pub stage_at: Option<At>,
    /// The value of `limits`, if it is there.
    pub limits_at: Option<At>,
}

/// Where things stand in the file. Empty for a configuration that comes from none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The instances, by name.
    pub instances: BTreeMap<Arc<str>, At>,
    /// The values of the roles.
    pub roles: BTreeMap<Role, At>,
    /// Every use of a policy type, in the order of the file.
    pub types: Vec<TypePlace>,
    /// The workers.
    pub workers: BTreeMap<WorkerId, At>,
}

impl Places {
    /// The uses of types that aren't among the `known`, as mistakes.
    #[must_use]
    pub fn unknown_types(&self, known: &BTreeSet<&str>) -> Vec<ConfigError> {
        let unknown = self.types.iter().filter(|used| !known.contains(&*used.policy_type));
        unknown
            .map(|used| ConfigError {
                at: used.type_at.clone(),
                problem: Problem::UnknownType {
                    policy_type: used.policy_type.to_string(),
                    nearest: nearest(&used.policy_type, known.iter().copied()).map(str::to_owned),
                    known: known.iter().copied().collect::<Vec<_>>().join(", "),
                },
            })
            .collect()
    }

    /// The place in the file that a failed build is about.
    #[must_use]
    pub fn of(&self, error: &BuildError) -> Option<&At> {
        match error {
            BuildError::UnknownInstance { role, .. } => self.roles.get(role),
            BuildError::UnknownType { instance, policy_type, .. } => {
                self.type_place(instance, policy_type).map(|used| &used.type_at)
            }
            BuildError::NoStage { instance, policy_type, .. } => {
                let used = self.type_place(instance, policy_type)?;
                Some(used.stage_at.as_ref().unwrap_or(&used.type_at))
            }
            BuildError::Instantiate { instance, error, .. } => {
                let (policy_type, value): (_, fn(&TypePlace) -> Option<&At>) = match &**error {
                    InstantiateError::Refused { policy_type, .. } => {
                        (policy_type, |used| used.parameters_at.as_ref())
                    }
                    InstantiateError::Limits { policy_type, .. } => {
                        (policy_type, |used| used.limits_at.as_ref())
                    }
                    InstantiateError::Declaration { policy_type, .. }
                    | InstantiateError::Failed { policy_type, .. } => (policy_type, |_| None),
                };
                let used = self.type_place(instance, policy_type)?;
                Some(value(used).unwrap_or(&used.type_at))
            }
            BuildError::Abandoned(_) => None,
        }
    }

    /// A failed build in words, behind its place where it has one.
    #[must_use]
    pub fn explain(&self, error: &BuildError) -> String {
        self.of(error).map_or_else(|| error.to_string(), |at| format!("{at}: {error}"))
    }

    /// The first use of a type by an instance.
    fn type_place(&self, instance: &str, policy_type: &str) -> Option<&TypePlace> {
        let mut uses = self.types.iter();
        uses.find(|used| &*used.instance == instance && &*used.policy_type == policy_type)
    }
}
