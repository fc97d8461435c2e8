//! Which instances an operator has turned off.
//!
//! Owns the names, and tells the partitions that they decide in. It doesn't know who decides there
//! meanwhile, or how long it lasts: a switch is the operator's alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;

use crate::error::listed;
use crate::partition::Partition;
use crate::policy::selection::{DEFAULT, SelectionSpec};

/// Why an instance can't be turned off or on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SwitchError {
    /// It is what would decide in its place.
    #[error(
        "\"default\" is the built-in that decides when others are turned off; turn off the instance that it \
         stands in for, or change the roles in the YAML"
    )]
    BuiltIn,
    /// There is none of that name.
    #[error("no instance is named {instance:?}; known: {}", listed(.known))]
    Unknown {
        /// Which.
        instance: String,
        /// What there is.
        known: Vec<String>,
    },
}

/// The switches.
#[derive(Debug, Default)]
pub(super) struct Switches {
    off: BTreeSet<Arc<str>>,
}

impl Switches {
    pub(super) fn disabled(&self) -> impl Iterator<Item = &Arc<str>> {
        self.off.iter()
    }

    /// Turns an instance off or on.
    pub(super) fn turn(
        &mut self,
        selection: &SelectionSpec,
        instance: &str,
        off: bool,
    ) -> Result<(), SwitchError> {
        if instance == DEFAULT {
            return Err(SwitchError::BuiltIn);
        }
        let found = selection.instances.iter().find(|spec| &*spec.name == instance);
        let Some(spec) = found else {
            let known = selection.instances.iter().map(|spec| spec.name.to_string()).collect();
            return Err(SwitchError::Unknown { instance: instance.to_owned(), known });
        };
        if off {
            self.off.insert(spec.name.clone());
        } else {
            self.off.remove(instance);
        }
        Ok(())
    }

    /// Has these partitions go by the switches; forgets those of instances that are gone.
    pub(super) fn heed<'a>(
        &mut self,
        selection: &SelectionSpec,
        partitions: impl IntoIterator<Item = &'a Arc<Partition>>,
    ) {
        self.off.retain(|name| selection.instances.iter().any(|spec| spec.name == *name));
        for partition in partitions {
            let name = selection.instance_name(partition.key().role);
            partition.set_disabled(self.off.contains(name));
            partition.switch_canary(|canary| self.off.contains(canary));
            partition.switch_shadows(|shadow| self.off.contains(shadow));
        }
    }
}
