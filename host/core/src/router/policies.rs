//! Policies and settings as one value, and the pipelines that they make of a partition.
//!
//! Owns what "decided alike" means: whether a partition has to be switched when policies are
//! replaced. It doesn't know which partitions there are.

use std::sync::Arc;

use crate::classifier::{Capacity, ClassifierSpec, Seat, SeatContext, SeatError};
use crate::clock::Chance;
use crate::ids::{PartitionKey, Role};
use crate::partition::Next;
use crate::policy::builtin;
use crate::policy::selection::{
    BuildContext, BuildError, SelectionSpec, TypeUse, default_instance,
};
use crate::policy::{Catalog, RouterSettings};
use crate::queue::{Profile, QueueSettings};

/// Policies and settings: all that partitions are decided by.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// The types that there are.
    pub catalog: Catalog,
    /// Which instance serves which role.
    pub selection: SelectionSpec,
    /// Who admits requests; none admits all.
    pub classifier: Option<ClassifierSpec>,
    /// The router's settings.
    pub settings: Arc<RouterSettings>,
    /// In which classes requests wait. A change of these alone leaves every policy as it is.
    pub queue: Arc<QueueSettings>,
}

impl Policies {
    /// Whether requests are admitted as `others` have it: by the same classifier, told the same.
    pub(super) fn classify_as(&self, others: &Self, partition: &PartitionKey) -> bool {
        let alike = |spec: &ClassifierSpec| {
            let name = &*spec.classifier_type;
            match (self.catalog.classifier(name), others.catalog.classifier(name)) {
                (Some(mine), Some(theirs)) => {
                    let same = mine.digest().is_some() && mine.digest() == theirs.digest();
                    same || Arc::ptr_eq(mine, theirs)
                }
                _ => false,
            }
        };
        self.classifier == others.classifier
            && self
                .classifier
                .as_ref()
                .is_none_or(|spec| self.settings == others.settings && alike(spec))
            && self.policy_classes(partition) == others.policy_classes(partition)
    }

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

    /// Makes the request classifier as for a partition of that role and block size, and asks it about
    /// made-up requests.
    pub fn try_classifier(
        &self,
        partition: &PartitionKey,
        block_size: u32,
    ) -> Result<(), SeatError> {
        let Some(spec) = &self.classifier else { return Ok(()) };
        let classes = self.policy_classes(partition);
        spec.try_out(SeatContext {
            catalog: &self.catalog,
            partition,
            block_size,
            settings: &self.settings,
            policy_classes: &classes,
            workers: Arc::default(),
            seed: 0,
            trial: true,
        })
    }

    /// What the requests of a partition can be given as a class.
    fn policy_classes(&self, partition: &PartitionKey) -> Arc<[Arc<str>]> {
        self.queue.profile(&partition.model).choices().cloned().collect()
    }

    /// Makes the pipelines of a partition.
    pub(super) fn build(
        &self,
        partition: &PartitionKey,
        block_size: u32,
        workers: Arc<[Capacity]>,
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
        let busy = self.settings.busy;
        let next = Next { current, fallback, hosting, busy, shadows, canary };
        let classes = self.policy_classes(partition);
        let of_seat = SeatContext {
            catalog: &self.catalog,
            partition,
            block_size,
            settings: &self.settings,
            policy_classes: &classes,
            workers,
            seed,
            trial: false,
        };
        let seat = self.classifier.as_ref().map(|spec| spec.seat(of_seat)).transpose()?;
        Ok(Made { block_size, next, seat: seat.flatten() })
    }
}

impl super::Router {
    /// In which classes requests of a model wait.
    #[must_use]
    pub fn queue_profile(&self, model: &str) -> Arc<Profile> {
        self.queue.load().profile(model).clone()
    }
}

/// The pipelines of one partition, not yet in place.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) block_size: u32,
    pub(super) next: Next,
    pub(super) seat: Option<Seat>,
}
