//! The ranks of an index, by slot.
//!
//! Owns which slot stands for which rank. A rank whose cache is cleared gets a new slot, so that
//! clearing takes no time; the old one is *dead* until the runs have been swept of it. What is known
//! of a slot besides is its [`Life`].

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;

use super::holders::{Slot, SlotSet};
use super::life::Life;
use super::limits::Extras;
use crate::ids::WorkerRank;

/// All slots.
#[derive(Debug)]
pub(super) struct Ranks {
    by_rank: HashMap<WorkerRank, Slot>,
    slots: Vec<Option<(WorkerRank, Life)>>,
    free: Vec<Slot>,
    /// In the order in which they died.
    dead: Vec<Slot>,
    dead_set: SlotSet,
    version: Version,
    /// What is kept besides of all.
    extras: Extras,
}

/// Which slots stand for which ranks, of which index: changes with every change of that, and is
/// never the same for two indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    index: u64,
    change: u64,
}

impl Default for Ranks {
    fn default() -> Self {
        static INDEXES: AtomicU64 = AtomicU64::new(0);
        Self {
            by_rank: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            dead: Vec::new(),
            dead_set: SlotSet::default(),
            version: Version { index: INDEXES.fetch_add(1, Ordering::Relaxed), change: 0 },
            extras: Extras::default(),
        }
    }
}

impl Ranks {
    pub(super) fn version(&self) -> Version {
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
        self.version.change += 1;
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
        self.version.change += 1;
        let (_, life) = self.slots.get_mut(slot as usize)?.take()?;
        self.extras = self.extras - life.extras();
        if life.holds_nothing() {
            // No run has it, so that there is nothing to be swept.
            self.free.push(slot);
        } else {
            self.dead.push(slot);
            self.dead_set.insert(slot);
        }
        Some(life)
    }

    /// Ends the lives of some ranks, and returns them.
    pub(super) fn end_all(&mut self, which: impl Fn(WorkerRank) -> bool) -> Vec<Life> {
        let ranks: Vec<_> = self.by_rank.keys().copied().filter(|&rank| which(rank)).collect();
        ranks.into_iter().filter_map(|rank| self.end(rank)).collect()
    }

    /// Begins a rank's life anew. Returns what it held before; none if there is no such rank.
    pub(super) fn begin_anew(&mut self, rank: WorkerRank) -> Option<Life> {
        let slot = self.slot(rank)?;
        // An engine may say it often: one that holds nothing keeps its slot.
        if let Some(life) = self.life_mut(slot).filter(|life| life.holds_nothing()) {
            let life = std::mem::take(life);
            self.extras = self.extras - life.extras();
            return Some(life);
        }
        let life = self.end(rank);
        self.slot_for(rank);
        life
    }

    pub(super) fn life(&self, slot: Slot) -> Option<&Life> {
        self.slots.get(slot as usize)?.as_ref().map(|(_, life)| life)
    }

    pub(super) fn life_mut(&mut self, slot: Slot) -> Option<&mut Life> {
        self.slots.get_mut(slot as usize)?.as_mut().map(|(_, life)| life)
    }

    /// What is kept of the other ranks besides the blocks that they hold.
    pub(super) fn extras_of_others(&self, slot: Slot) -> Extras {
        self.extras - self.life(slot).map_or_else(Extras::default, Life::extras)
    }

    /// Takes note that a rank's have changed, and the others' have not.
    pub(super) fn note_extras(&mut self, rank: WorkerRank, others: Extras) {
        let life = self.slot(rank).and_then(|slot| self.life(slot));
        self.extras = others + life.map_or_else(Extras::default, Life::extras);
    }

    /// Gives memory back, when there is no rank and nothing to be swept.
    pub(super) fn give_back(&mut self) {
        let nobody = self.by_rank.is_empty() && self.dead.is_empty();
        if nobody && !self.slots.is_empty() {
            self.version.change += 1;
            let version = self.version;
            *self = Self { version, ..Self::default() };
        }
    }

    /// What is kept of all, counted anew.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let lives = self.iter().filter_map(|(_, slot)| self.life(slot));
        let counted = lives.fold(Extras::default(), |sum, life| sum + life.extras());
        assert_eq!(counted, self.extras);
    }

    /// Ranks and their slots, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (WorkerRank, Slot)> + '_ {
        self.by_rank.iter().map(|(&rank, &slot)| (rank, slot))
    }

    /// How many slots there are, the free and the dead included.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// How many slots are dead.
    pub(super) fn dead(&self) -> usize {
        self.dead.len()
    }

    /// The slots that are dead.
    pub(super) fn dead_set(&self) -> &SlotSet {
        &self.dead_set
    }

    /// The runs have been swept of the first `count` dead slots: they may be used again.
    pub(super) fn bury(&mut self, count: usize) {
        for slot in self.dead.drain(..count.min(self.dead.len())) {
            self.dead_set.remove(slot);
            self.free.push(slot);
        }
    }
}
