//! The slots that hold a run's first blocks only, and how many of them.
//!
//! Owns how those depths are kept: listed while they are few, a byte for each slot when they are
//! many. It doesn't know how long the run is.

use super::{Slot, SlotSet, bits, words_for};

/// How many depths are listed, at least, before each slot gets a place for its own.
const MANY: usize = 16;

/// Slots that hold a run's first blocks only, and how many: at least one.
#[derive(Clone, Debug)]
pub(in crate::index) enum Partial {
    /// A few, ascending by slot.
    Listed(Vec<(Slot, u8)>),
    /// Many: a depth for each slot, 0 for those that aren't among them.
    Spread { len: u32, depths: Box<[u8]> },
}

impl Default for Partial {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl Partial {
    pub(in crate::index) fn get(&self, slot: Slot) -> usize {
        match self {
            Self::Listed(list) => find(list, slot)
                .ok()
                .and_then(|at| list.get(at))
                .map_or(0, |&(_, depth)| usize::from(depth)),
            Self::Spread { depths, .. } => {
                depths.get(slot as usize).map_or(0, |&depth| usize::from(depth))
            }
        }
    }

    /// Sets a slot's depth; 0 takes it out.
    pub(super) fn set(&mut self, slot: Slot, depth: u8) {
        match self {
            Self::Listed(list) => match (find(list, slot), depth) {
                (Ok(at), 0) => {
                    list.remove(at);
                }
                (Ok(at), depth) => {
                    if let Some(entry) = list.get_mut(at) {
                        entry.1 = depth;
                    }
                }
                (Err(_), 0) => {}
                (Err(at), depth) => {
                    list.insert(at, (slot, depth));
                    self.spread_out();
                }
            },
            Self::Spread { len, depths } => {
                if slot as usize >= depths.len() {
                    if depth == 0 {
                        return;
                    }
                    let mut grown = std::mem::take(depths).into_vec();
                    grown.resize((words_for(slot) + grown.len() / 256) * 64, 0);
                    *depths = grown.into_boxed_slice();
                }
                if let Some(place) = depths.get_mut(slot as usize) {
                    *len = *len + u32::from(depth > 0) - u32::from(*place > 0);
                    *place = depth;
                }
                self.list_few();
            }
        }
    }

    /// Takes slots out.
    pub(super) fn forget(&mut self, gone: &SlotSet) {
        match self {
            Self::Listed(list) => list.retain(|&(slot, _)| !gone.contains(slot)),
            Self::Spread { len, depths } => {
                for slot in bits(gone.words()) {
                    if let Some(depth) = depths.get_mut(slot as usize) {
                        *len -= u32::from(std::mem::take(depth) > 0);
                    }
                }
                self.list_few();
            }
        }
    }

    /// Lists the depths if only a few are left.
    fn list_few(&mut self) {
        if let Self::Spread { len, .. } = self
            && (*len as usize) < MANY / 2
        {
            *self = Self::Listed(self.iter().collect());
        }
    }

    /// Gives each slot a place, if so many are listed that this is no waste.
    pub(super) fn spread_out(&mut self) {
        let Self::Listed(list) = self else { return };
        let highest = list.last().map_or(0, |&(slot, _)| slot);
        if list.len() < MANY || list.len() * 16 < highest as usize {
            return;
        }
        let mut depths = vec![0; words_for(highest) * 64].into_boxed_slice();
        for &(slot, depth) in list.iter() {
            if let Some(place) = depths.get_mut(slot as usize) {
                *place = depth;
            }
        }
        *self = Self::Spread { len: list.len() as u32, depths };
    }

    /// All of them, ascending by slot.
    pub(in crate::index) fn iter(&self) -> impl Iterator<Item = (Slot, u8)> + '_ {
        let (list, depths): (&[(Slot, u8)], &[u8]) = match self {
            Self::Listed(list) => (list, &[]),
            Self::Spread { depths, .. } => (&[], depths),
        };
        let spread = depths.iter().enumerate().filter(|&(_, &depth)| depth > 0);
        list.iter().copied().chain(spread.map(|(slot, &depth)| (slot as Slot, depth)))
    }

    /// Takes out and returns those of at least so many blocks.
    pub(super) fn take_from(&mut self, depth: usize) -> Vec<(Slot, u8)> {
        let reached: Vec<_> = self.iter().filter(|&(_, d)| usize::from(d) >= depth).collect();
        if !reached.is_empty() {
            let left: Vec<_> = self.iter().filter(|&(_, d)| usize::from(d) < depth).collect();
            *self = Self::Listed(left);
            self.spread_out();
        }
        reached
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Listed(list) => list.capacity() * size_of::<(Slot, u8)>(),
            Self::Spread { depths, .. } => depths.len(),
        }
    }
}

fn find(list: &[(Slot, u8)], slot: Slot) -> Result<usize, usize> {
    list.binary_search_by_key(&slot, |&(slot, _)| slot)
}
