//! The workers as the driver knows them.

use std::collections::BTreeMap;

use pointsman_core::fleet::Availability;

/// A worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) group: usize,
    pub(crate) ranks: u32,
    /// Part of its endpoint: another one is another engine.
    pub(crate) version: u32,
    /// Which life it is, over all workers.
    pub(crate) life: u64,
    pub(crate) availability: Availability,
}

impl Default for Known {
    fn default() -> Self {
        Self { group: 0, ranks: 1, version: 0, life: 0, availability: Availability::Ready }
    }
}

/// All of them, by id.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    pub(crate) present: BTreeMap<u64, Known>,
    /// As they were when they left.
    pub(crate) gone: BTreeMap<u64, Known>,
    lives: u64,
}

impl Crew {
    /// A worker begins a life.
    pub(crate) fn begin(&mut self, id: u64, known: Known) {
        self.lives += 1;
        self.gone.remove(&id);
        self.present.insert(id, Known { life: self.lives, ..known });
    }

    pub(crate) fn leave(&mut self, id: u64) {
        self.gone.extend(self.present.remove(&id).map(|known| (id, known)));
    }

    /// A worker says that it is there, as it was.
    pub(crate) fn repeat(&mut self, id: u64) {
        if let Some(known) = self.present.get_mut(&id)
            && known.availability == Availability::Draining
        {
            known.availability = Availability::Ready;
        }
    }

    pub(crate) fn set(&mut self, id: u64, availability: Availability) {
        if let Some(known) = self.present.get_mut(&id)
            && known.availability != Availability::Draining
        {
            known.availability = availability;
        }
    }

    /// Whether a worker lives this life.
    pub(crate) fn lives(&self, id: u64, life: u64) -> bool {
        self.present.get(&id).is_some_and(|known| known.life == life)
    }

    /// Rows of a group.
    pub(crate) fn rows(&self, group: usize) -> usize {
        let its = self.present.values().filter(|known| known.group == group);
        its.map(|known| known.ranks as usize).sum()
    }
}
