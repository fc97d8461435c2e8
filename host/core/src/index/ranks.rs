//! The ranks of an index, by slot.
//!
//! Owns which slot stands for which rank, and what must be known of a slot besides the runs that it
//! holds: copies of blocks beyond the first, names that only its engine uses, stretches that wait
//! for their parent. A rank whose cache is cleared gets a new slot, so that clearing takes no time;
//! the old one is *dead* until the runs have been swept of it.

use hashbrown::HashMap;

use super::holders::Slot;
use super::orphans::Orphans;
use super::tier::Tier;
use super::tree::Alias;
use crate::ids::WorkerRank;

/// What is known of one life of a rank's cache.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Blocks held, by tier.
    pub(super) held: [usize; Tier::COUNT],
    /// Copies beyond the first, by sequence hash.
    pub(super) copies: HashMap<(u64, Tier), u32>,
    /// Names of blocks that this engine alone uses.
    pub(super) aliases: HashMap<u64, Alias>,
    pub(super) orphans: Orphans,
}

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    by_rank: HashMap<WorkerRank, Slot>,
    slots: Vec<Option<(WorkerRank, Life)>>,
    free: Vec<Slot>,
    dead: Vec<Slot>,
    /// Grows with every change of which slot stands for which rank.
    version: u64,
}

impl Ranks {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn slot(&self, rank: WorkerRank) -> Option<Slot> {
        self.by_rank.get(&rank).copied()
    }

    /// The slot of a rank, made if there is none.
    pub(super) fn slot_for(&mut self, rank: WorkerRank) -> Slot {
        if let Some(&slot) = self.by_rank.get(&rank) {
            return slot;
        }
        self.version += 1;
        let entry = Some((rank, Life::default()));
        let slot = match self.free.pop() {
            Some(slot) => {
                if let Some(place) = self.slots.get_mut(slot as usize) {
                    *place = entry;
                }
                slot
            }
            None => {
                self.slots.push(entry);
                self.slots.len() as Slot - 1
            }
        };
        self.by_rank.insert(rank, slot);
        slot
    }

    /// Ends a rank's life here; what it held is swept by and by. None if there is no such rank.
    pub(super) fn end(&mut self, rank: WorkerRank) -> Option<Life> {
        let slot = self.by_rank.remove(&rank)?;
        self.version += 1;
        self.dead.push(slot);
        Some(self.slots.get_mut(slot as usize)?.take()?.1)
    }

    pub(super) fn life(&self, slot: Slot) -> Option<&Life> {
        self.slots.get(slot as usize)?.as_ref().map(|(_, life)| life)
    }

    pub(super) fn life_mut(&mut self, slot: Slot) -> Option<&mut Life> {
        self.slots.get_mut(slot as usize)?.as_mut().map(|(_, life)| life)
    }

    /// Ranks and their slots, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (WorkerRank, Slot)> + '_ {
        self.by_rank.iter().map(|(&rank, &slot)| (rank, slot))
    }

    /// How many slots there are, the free and the dead included.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn dead(&self) -> &[Slot] {
        &self.dead
    }

    /// The runs have been swept of the first `count` dead slots: they may be used again.
    pub(super) fn bury(&mut self, count: usize) {
        self.free.extend(self.dead.drain(..count.min(self.dead.len())));
    }
}
