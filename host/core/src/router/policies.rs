//! Policies and settings as one value, and the pipelines that they make of a partition.
//!
//! Owns what "decided alike" means: whether a partition has to be switched when policies are
//! replaced. It doesn't know which partitions there are.

use std::sync::Arc;

use crate::clock::Chance;
use crate::ids::{PartitionKey, Role};
use crate::partition::Next;
use crate::policy::builtin;
use crate::policy::selection::{
    BuildContext, BuildError, SelectionSpec, TypeUse, default_instance,
};
use crate::policy::{Catalog, RouterSettings};

/// Policies and settings: all that partitions are decided by.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// The types that there are.
    pub catalog: Catalog,
    /// Which instance serves which role.
    pub selection: SelectionSpec,
    /// The router's settings.
    pub settings: Arc<RouterSettings>,
}

impl Policies {
    /// Whether a role is decided as `others` have it: the same instance of the same types, told the
    /// same.
    pub(super) fn decide_as(&self, others: &Self, role: Role) -> bool {
        let mine = self.selection.with_rollout(role);
        let theirs = others.selection.with_rollout(role);
        let alike = |used: &TypeUse| {
            let name = &*used.policy_type;
            match (self.catalog.get(name), others.catalog.get(name)) {
                (Some(mine), Some(theirs)) => {
                    let same = mine.digest().is_some() && mine.digest() == theirs.digest();
                    same || Arc::ptr_eq(mine, theirs) || builtin::NAMES.contains(&name)
                }
                _ => false,
            }
        };
        self.settings == others.settings
            && !mine.is_empty()
            && mine == theirs
            && mine.iter().all(|instance| instance.recipe.types().into_iter().all(alike))
    }

    /// Makes the pipelines of a partition.
    pub(super) fn build(
        &self,
        partition: &PartitionKey,
        block_size: u32,
        seed: u64,
        replicas: usize,
    ) -> Result<Made, BuildError> {
        let cx = BuildContext {
            catalog: &self.catalog,
            partition,
            block_size,
            settings: &self.settings,
            seed,
            trial: false,
        };
        // The fallback is always the host's own, whatever the catalogue holds.
        let builtin = Catalog::builtin();
        let fallback =
            default_instance().build(&BuildContext { catalog: &builtin, ..cx.clone() })?;
        let current = self.selection.build(&cx)?;
        let hosting = current.hosting(replicas, |place| {
            // Each draws numbers of its own.
            let seed = Chance::new(seed ^ (place as u64 + 1)).bits();
            self.selection.build(&BuildContext { seed, ..cx.clone() })
        })?;
        let (shadows, canary) = self.selection.build_rollout(&cx, hosting.is_none())?;
        Ok(Made {
            block_size,
            next: Next { current, fallback, hosting, busy: self.settings.busy, shadows, canary },
        })
    }
}

/// The pipelines of one partition, not yet in place.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) block_size: u32,
    pub(super) next: Next,
}
