//! What becomes of a worker that fails its requests, among the others of its partition.
//!
//! Owns the look at all of them: [`Conduct`](super::conduct::Conduct) knows when one is due, and
//! [`may_leave_out`] how many may go. The proxy reports outcomes; it doesn't know what follows.

use std::collections::BTreeMap;

use std::time::Duration;

use pointsman_core::fleet::{Availability, Epoch};
use pointsman_core::ids::{PartitionKey, WorkerId};
use tokio::time::Instant;

use super::conduct::may_leave_out;
use super::roster::{Entry, Roster};

/// So many clients in a row are told that they ask too much before that is thought to be meant for
/// all.
const MOST_DECLINED: u32 = 5;

impl Roster {
    /// An exchange with one life of a worker ended well.
    pub(super) fn answered_well(&self, id: WorkerId, epoch: Epoch, began: Instant) {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&id).filter(|entry| entry.epoch == epoch) else { return };
        entry.standing.declined = 0;
        // What happens with each request costs no more than this.
        if entry.standing.conduct.did_well(began) {
            entry.nudge.timing.notify_one();
            self.apply(id, entry);
        }
    }

    /// An exchange with one life of a worker failed.
    pub(super) fn failed(&self, id: WorkerId, epoch: Epoch, began: Instant, why: &str) {
        let eject_after = self.config.health.eject_after;
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&id).filter(|entry| entry.epoch == epoch) else { return };
        // One that is out of reach anyway is somebody else's business.
        if !entry.standing.conduct.failed(began, eject_after) || !entry.standing.is_usable() {
            return;
        }
        let partition = entry.partition.clone();
        let mates = || entries.values().filter(|mate| mate.is_usable_in(&partition));
        let usable = mates().count();
        let failing = mates().filter(|mate| mate.standing.conduct.is_failing(eject_after)).count();
        if may_leave_out(failing, usable) {
            self.eject(&mut entries, id, why);
        } else {
            let news = entries.get_mut(&id).is_some_and(|entry| entry.standing.conduct.spare());
            if news {
                tracing::warn!(
                    worker = %id, %partition, failing, usable, last = why,
                    "a worker fails its requests, and so do most others: nobody is left out for it"
                );
            }
            self.readmit(&mut entries, &partition);
        }
    }

    /// One life of a worker told a client that it has had too many requests.
    pub(super) fn declined(&self, id: WorkerId, epoch: Epoch, for_: Duration) {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&id).filter(|entry| entry.epoch == epoch) else { return };
        entry.standing.declined = entry.standing.declined.saturating_add(1);
        if entry.standing.declined < MOST_DECLINED {
            return;
        }
        let partition = entry.partition.clone();
        let mates = || entries.values().filter(|mate| mate.partition == partition);
        let alone = |mate: &&Entry| mate.standing.availability() == Availability::Overloaded;
        let ready = |mate: &&Entry| mate.standing.availability() == Availability::Ready;
        let (out, left) = (mates().filter(alone).count(), mates().filter(ready).count());
        if !may_leave_out(out + 1, out + left) {
            return;
        }
        if let Some(entry) = entries.get_mut(&id) {
            entry.standing.declined = 0;
            entry.standing.overloaded(for_, Instant::now());
            entry.nudge.timing.notify_one();
            self.apply(id, entry);
        }
    }

    /// When workers leave or fall ill, those that were left out may be too many: then all of them
    /// are wanted again.
    pub(super) fn keep_enough(
        &self,
        entries: &mut BTreeMap<WorkerId, Entry>,
        partition: &PartitionKey,
    ) {
        let mates = || entries.values().filter(|mate| mate.is_usable_in(partition));
        let out = mates().filter(|mate| mate.standing.conduct.out_until().is_some()).count();
        if !may_leave_out(out, mates().count()) {
            self.readmit(entries, partition);
        }
    }

    fn eject(&self, entries: &mut BTreeMap<WorkerId, Entry>, id: WorkerId, why: &str) {
        let Some(entry) = entries.get_mut(&id) else { return };
        let conduct = &mut entry.standing.conduct;
        let pause = conduct.eject(why, Instant::now());
        tracing::warn!(
            worker = %id,
            partition = %entry.partition,
            failures_in_a_row = conduct.failures(),
            pause_ms = pause.as_millis() as u64,
            last = why,
            "a worker fails its requests, and is left out for a while"
        );
        entry.nudge.timing.notify_one();
        self.apply(id, entry);
    }

    fn readmit(&self, entries: &mut BTreeMap<WorkerId, Entry>, partition: &PartitionKey) {
        let out = |entry: &&mut Entry| {
            entry.partition == *partition && entry.standing.conduct.out_until().is_some()
        };
        for (&id, entry) in entries.iter_mut().filter(|(_, entry)| out(entry)) {
            entry.standing.conduct.readmit();
            entry.nudge.timing.notify_one();
            self.apply(id, entry);
        }
    }
}

impl Entry {
    fn is_usable_in(&self, partition: &PartitionKey) -> bool {
        self.partition == *partition && self.standing.is_usable()
    }
}
