//! The front door: partitions by key, the fleet, and the policies in place.
//!
//! Owns which partitions there are, from a partition's first worker until a while after its last,
//! and the two phases of putting policies in place: first every partition's instances are made and
//! configured, then all are switched; one refusal keeps what was there everywhere. It doesn't know
//! how workers are found or where policies come from.

mod map;
mod policies;
mod retention;
mod routing;
mod switches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use thiserror::Error;

use crate::fleet::{Availability, Fleet, FleetError, Worker, WorkerSpec};
use crate::hosted::STRIPES;
use crate::ids::{PartitionKey, WorkerId};
use crate::partition::{Next, Partition, Slot};
use crate::policy::RouterSettings;
use crate::policy::failure::StageFailure;
use crate::policy::selection::BuildError;
use crate::queue::QueueSettings;
use map::PartitionMap;
use policies::Made;
use retention::Vacancies;
use switches::Switches;

pub use policies::Policies;
pub use retention::Retention;
pub use switches::SwitchError;

/// Why a worker could not be taken up.
#[derive(Debug, Error)]
pub enum RegisterError {
    /// The fleet refuses it.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// It begins a partition that no policy could be made for.
    #[error("no policy for its partition: {0}")]
    Policy(#[from] BuildError),
}

/// Why policies could not be put in place. What was there goes on.
#[derive(Debug, Error)]
pub enum InstallError {
    /// An instance could not be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// State could not be handed over.
    #[error("{partition}: {failure}; set `state: discard` on the instance to go on without it")]
    Handover {
        /// Where.
        partition: PartitionKey,
        /// How.
        failure: StageFailure,
    },
}

/// Policies made and configured for every partition, not yet in place.
#[derive(Debug)]
pub struct Prepared {
    policies: Policies,
    made: BTreeMap<PartitionKey, Made>,
}

/// What an installation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// The partitions that were switched.
    pub partitions: usize,
    /// Those among them whose state was handed over.
    pub handed_over: usize,
}

/// The router.
///
/// Locks are taken in this order, and never held while waiting for anything else: the policies,
/// then partitions in the order of their keys, or the fleet; the vacancies; a ledger last.
#[derive(Debug)]
pub struct Router {
    partitions: PartitionMap,
    /// The current policies; also the lock under which workers are registered, policies installed
    /// and partitions begun and forgotten.
    policies: Mutex<Policies>,
    /// The instances that an operator has turned off; asked under the policies' lock only.
    switches: Mutex<Switches>,
    /// Partitions without workers; which of them go is asked under the policies' lock only.
    vacancies: Mutex<Vacancies>,
    settings: ArcSwap<RouterSettings>,
    queue: ArcSwap<QueueSettings>,
    fleet: Mutex<Fleet>,
    next_decision: AtomicU64,
    seed: u64,
    /// Instances of each policy that may decide side by side.
    replicas: usize,
}

impl Router {
    /// A router without workers. `seed` is for the instances' own random numbers.
    #[must_use]
    pub fn new(policies: Policies, seed: u64) -> Self {
        Self {
            partitions: PartitionMap::default(),
            settings: ArcSwap::new(policies.settings.clone()),
            queue: ArcSwap::new(policies.queue.clone()),
            policies: Mutex::new(policies),
            switches: Mutex::default(),
            vacancies: Mutex::default(),
            fleet: Mutex::default(),
            next_decision: AtomicU64::new(1),
            seed,
            replicas: 1,
        }
    }

    /// The same, to be asked by so many threads at once: of a policy whose instances may decide side
    /// by side, so many are made for each partition, but no more than [`STRIPES`].
    #[must_use]
    pub fn for_threads(self, threads: usize) -> Self {
        Self { replicas: threads.clamp(1, STRIPES), ..self }
    }

    /// Registers a worker, or changes a registered one. May take a while when it begins a
    /// partition, whose policy is made then.
    pub fn upsert_worker(&self, spec: WorkerSpec) -> Result<(), RegisterError> {
        // Held to the end, so that registrations are serial and a partition's pipelines are always
        // made for its workers' block size.
        let policies = self.policies.lock();
        // Asked first, so that a refused worker leaves no empty partition behind.
        self.fleet.lock().check(&spec)?;
        self.ensure_partition(&policies, &spec.partition, spec.block_size.get())?;
        let mut fleet = self.fleet.lock();
        for partition in fleet.upsert(spec)? {
            self.realign(&fleet, &partition);
        }
        Ok(())
    }

    /// Takes a worker out at once. What it carries is forgotten.
    pub fn remove_worker(&self, id: WorkerId) -> Result<Worker, FleetError> {
        let mut fleet = self.fleet.lock();
        let worker = fleet.remove(id)?;
        self.realign(&fleet, &worker.spec.partition);
        Ok(worker)
    }

    /// Sets whether a worker may be given requests. Returns whether that changed.
    pub fn set_availability(
        &self,
        id: WorkerId,
        availability: Availability,
    ) -> Result<bool, FleetError> {
        let mut fleet = self.fleet.lock();
        let changed = fleet.set_availability(id, availability)?;
        if let Some(partition) = &changed {
            self.realign(&fleet, partition);
        }
        Ok(changed.is_some())
    }

    /// All workers, ascending by id.
    #[must_use]
    pub fn workers(&self) -> Vec<Worker> {
        self.fleet.lock().workers().cloned().collect()
    }

    /// A worker by id.
    #[must_use]
    pub fn worker(&self, id: WorkerId) -> Option<Worker> {
        self.fleet.lock().get(id).cloned()
    }

    /// Forgets partitions that have been without workers for longer than [`Retention`] says, and
    /// without a booking: their counts and what their policies had learnt are lost, and a request
    /// for one is answered as if it had never been. Returns which. What the others know of caches is
    /// tidied up.
    ///
    /// Time comes from here alone: call it every few seconds. Waits for a registration or an
    /// installation that is going on, so call it where waiting is allowed.
    pub fn forget_vacant(&self, now_ms: u64) -> Vec<PartitionKey> {
        for partition in self.partitions() {
            partition.tidy(now_ms);
        }
        // Nobody registers a worker meanwhile, so that a partition without one stays so.
        let _policies = self.policies.lock();
        self.forget(Some(now_ms))
    }

    /// Requests that a worker carries now; 0 if there is none of that id.
    #[must_use]
    pub fn active_requests_of(&self, id: WorkerId) -> u64 {
        let Some(worker) = self.worker(id) else { return 0 };
        let partition = self.partition(&worker.spec.partition);
        partition.map_or(0, |partition| partition.ledger().active_requests_of(id))
    }

    /// A partition by key.
    #[must_use]
    pub fn partition(&self, key: &PartitionKey) -> Option<Arc<Partition>> {
        self.partitions.get(key)
    }

    /// All partitions, in the order of their keys.
    #[must_use]
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        self.partitions.all()
    }

    /// What the instances' own random numbers come from.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> Arc<RouterSettings> {
        self.settings.load_full()
    }

    /// The policies in place.
    #[must_use]
    pub fn policies(&self) -> Policies {
        self.policies.lock().clone()
    }

    /// First phase: makes and configures every partition's instances. May take a while; decisions
    /// go on.
    pub fn prepare(&self, policies: Policies) -> Result<Prepared, BuildError> {
        let mut made = BTreeMap::new();
        for partition in self.partitions() {
            let pipelines = policies.build(
                partition.key(),
                partition.block_size(),
                partition.capacities(),
                self.seed,
                self.replicas,
            )?;
            made.insert(partition.key().clone(), pipelines);
        }
        Ok(Prepared { policies, made })
    }

    /// Second phase: switches every partition whose policy changed, between two decisions. If state can't be handed over
    /// in one of them, none is switched.
    pub fn install(&self, prepared: Prepared) -> Result<Installed, InstallError> {
        let Prepared { policies, mut made } = prepared;
        // Nobody begins a partition meanwhile.
        let mut current = self.policies.lock();
        let partitions = self.partitions();
        let mut ready = Vec::with_capacity(partitions.len());
        for partition in &partitions {
            let block_size = partition.block_size();
            let prepared = made.remove(partition.key());
            ready.push(match prepared.filter(|made| made.block_size == block_size) {
                Some(made) => made,
                // It was begun, or begun anew, since.
                None => {
                    let workers = partition.capacities();
                    policies.build(
                        partition.key(),
                        block_size,
                        workers,
                        self.seed,
                        self.replicas,
                    )?
                }
            });
        }
        // Every partition is held before the first is switched; one order for all, so that two
        // installations can't wait for each other.
        let queues = |its: &Partition| policies.queue.profile(&its.key().model).queues();
        let mut held: Vec<(MutexGuard<'_, Slot>, Next, bool)> = Vec::with_capacity(ready.len());
        let mut installed = Installed::default();
        let mut seats = Vec::new();
        for (partition, Made { mut next, seat, .. }) in partitions.iter().zip(ready) {
            if !policies.classify_as(&current, partition.key()) {
                seats.push((partition.desk(), seat));
            }
            // What decides alike goes on, with all that it has learnt.
            if policies.decide_as(&current, partition.key().role) {
                continue;
            }
            let mut slot = partition.hold();
            let handed = slot.hand_over(&mut next).map_err(|failure| InstallError::Handover {
                partition: partition.key().clone(),
                failure,
            })?;
            installed.handed_over += usize::from(handed);
            held.push((slot, next, queues(partition)));
        }
        installed.partitions = held.len();
        self.settings.store(policies.settings.clone());
        // Classes that stay as they are go on with what they have.
        if **self.queue.load() != *policies.queue {
            self.queue.store(policies.queue.clone());
        }
        for (mut slot, next, queues) in held {
            slot.replace(next, queues);
        }
        partitions.iter().for_each(|partition| partition.set_queues(queues(partition)));
        seats.into_iter().for_each(|(desk, seat)| desk.replace(seat));
        *current = policies;
        self.switches.lock().heed(&current.selection, &partitions);
        Ok(installed)
    }

    /// Turns an instance off: the built-in default decides in its place, whatever its owner wants of
    /// failures, until it is turned on again, its name is gone from the policies, or the router ends.
    /// Its state stays as it is. Returns in how many partitions it
    /// decides or watches.
    pub fn disable(&self, instance: &str) -> Result<usize, SwitchError> {
        self.switch(instance, true)
    }

    /// Turns an instance on again, and a canary that was rolled back. Returns in how many partitions
    /// it decides or watches.
    pub fn enable(&self, instance: &str) -> Result<usize, SwitchError> {
        self.switch(instance, false)
    }

    /// The instances that are turned off.
    #[must_use]
    pub fn disabled(&self) -> Vec<Arc<str>> {
        self.switches.lock().disabled().cloned().collect()
    }

    fn switch(&self, instance: &str, off: bool) -> Result<usize, SwitchError> {
        // No partition is begun and no policies are put in place meanwhile.
        let policies = self.policies.lock();
        let mut switches = self.switches.lock();
        switches.turn(&policies.selection, instance, off)?;
        let partitions = self.partitions();
        switches.heed(&policies.selection, &partitions);
        if !off {
            partitions.iter().for_each(|partition| partition.resume_canary(instance));
        }
        let decides = |partition: &&Arc<Partition>| {
            let is_canary = partition.canary().is_some_and(|canary| &*canary.instance == instance);
            let is_shadow = || partition.has_shadow(instance);
            let decides = policies.selection.instance_name(partition.key().role) == instance;
            decides || is_canary || is_shadow()
        };
        Ok(partitions.iter().filter(decides).count())
    }

    fn ensure_partition(
        &self,
        policies: &Policies,
        key: &PartitionKey,
        block_size: u32,
    ) -> Result<(), BuildError> {
        let found = self.partition(key);
        if found.as_ref().is_some_and(|partition| partition.block_size() == block_size) {
            return Ok(());
        }
        let workers = Arc::default();
        let made = policies.build(key, block_size, workers, self.seed, self.replicas)?;
        let Made { next, seat, .. } = made;
        if let Some(partition) = found {
            partition.begin_anew(block_size, next);
            partition.desk().replace(seat);
            self.switches.lock().heed(&policies.selection, [&partition]);
            return Ok(());
        }
        // Whoever registers workers under ever new names must not be able to fill the memory
        // between two looks at the clock.
        self.forget(None);
        let Next { current, fallback, hosting, busy, shadows, canary } = next;
        let partition = Partition::new(key.clone(), block_size, current, fallback);
        let partition = Arc::new(partition.followed_by(shadows, canary).hosted_by(hosting, busy));
        partition.desk().replace(seat);
        // What an operator has set is for the whole model.
        partition.set_busy(self.partitions.of_model(&key.model, |sibling| sibling.busy_here()));
        partition.set_queues(self.queue_profile(&key.model).queues());
        self.switches.lock().heed(&policies.selection, [&partition]);
        self.partitions.insert(partition);
        Ok(())
    }

    fn realign(&self, fleet: &Fleet, partition: &PartitionKey) {
        let Some(found) = self.partition(partition) else { return };
        let snapshot = fleet.snapshot(partition);
        let is_vacant = snapshot.workers.is_empty();
        found.realign(snapshot);
        // Noted behind it, so that whoever looks finds the partition as it was noted.
        self.vacancies.lock().note(partition, is_vacant);
    }
}

#[cfg(test)]
mod tests;
