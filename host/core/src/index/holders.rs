//! Who holds the blocks of one run: sets of slots, and how far each reaches.
//!
//! A slot is an index's own small number for one life of one rank. A run's blocks are held as
//! prefixes: most slots hold all of it, and are bits in [`Holders`]; the others hold its first few
//! blocks, and are listed with how many. A slot that holds something else is what runs are split
//! for, elsewhere.

mod partial;

pub(super) use partial::Partial;

/// An index's number for one life of one rank.
pub(super) type Slot = u32;

/// How many slots are listed before a set becomes bits.
const FEW: usize = 4;

/// A set of slots.
#[derive(Clone, Debug)]
pub(super) enum Holders {
    /// A handful, in no order.
    Few { len: u8, slots: [Slot; FEW] },
    /// Slot s is bit (s mod 64) of word (s div 64).
    Many { len: u32, words: Box<[u64]> },
}

impl Default for Holders {
    fn default() -> Self {
        Self::Few { len: 0, slots: [0; FEW] }
    }
}

impl Holders {
    pub(super) fn of(slot: Slot) -> Self {
        let mut slots = [0; FEW];
        slots[0] = slot;
        Self::Few { len: 1, slots }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few { len, .. } => usize::from(*len),
            Self::Many { len, .. } => *len as usize,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        match self {
            Self::Few { len, slots } => slots.iter().take(usize::from(*len)).any(|&s| s == slot),
            Self::Many { words, .. } => has(words, slot),
        }
    }

    /// Adds a slot; false if it was there.
    pub(super) fn insert(&mut self, slot: Slot) -> bool {
        if self.contains(slot) {
            return false;
        }
        match self {
            Self::Few { len, slots } => {
                if let Some(free) = slots.get_mut(usize::from(*len)) {
                    *free = slot;
                    *len += 1;
                } else {
                    let highest = slots.iter().copied().fold(slot, Slot::max);
                    let mut words = vec![0; words_for(highest)].into_boxed_slice();
                    for &slot in slots.iter().chain([&slot]) {
                        set(&mut words, slot);
                    }
                    *self = Self::Many { len: FEW as u32 + 1, words };
                }
            }
            Self::Many { len, words } => {
                let needed = words_for(slot);
                if needed > words.len() {
                    // Some room, so that a fleet that registers one by one doesn't move each time.
                    let mut grown = std::mem::take(words).into_vec();
                    grown.resize(needed + needed / 4, 0);
                    *words = grown.into_boxed_slice();
                }
                set(words, slot);
                *len += 1;
            }
        }
        true
    }

    /// Takes a slot out; false if it wasn't there.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        if !self.contains(slot) {
            return false;
        }
        match self {
            Self::Few { len, slots } => {
                *len -= 1;
                let last = usize::from(*len);
                if let Some(at) = slots.iter().position(|&s| s == slot) {
                    slots.swap(at, last);
                }
            }
            Self::Many { len, words } => {
                if let Some(word) = words.get_mut(slot as usize / 64) {
                    *word &= !(1 << (slot % 64));
                }
                *len -= 1;
                self.list_few();
            }
        }
        true
    }

    /// Takes slots out.
    fn forget(&mut self, gone: &SlotSet) {
        match self {
            Self::Few { len, slots } => {
                let mut left = Self::default();
                for &slot in slots.iter().take(usize::from(*len)) {
                    if !gone.contains(slot) {
                        left.insert(slot);
                    }
                }
                *self = left;
            }
            Self::Many { len, words } => {
                let mut taken = 0;
                for (word, gone) in words.iter_mut().zip(gone.words()) {
                    taken += (*word & gone).count_ones();
                    *word &= !gone;
                }
                *len -= taken;
                self.list_few();
            }
        }
    }

    /// Lists the slots if only a few are left.
    fn list_few(&mut self) {
        // Half of what makes it bits, so that one slot that comes and goes moves nothing.
        if let Self::Many { len, words } = self
            && *len as usize <= FEW / 2
        {
            let mut few = Self::default();
            for slot in bits(words) {
                few.insert(slot);
            }
            *self = few;
        }
    }

    /// All of them, in no order.
    pub(super) fn for_each(&self, mut each: impl FnMut(Slot)) {
        match self {
            Self::Few { len, slots } => slots.iter().take(usize::from(*len)).for_each(|&s| each(s)),
            Self::Many { words, .. } => bits(words).for_each(each),
        }
    }
}

/// How far each slot's holding of one run reaches, in one tier.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    /// Those that hold all of the run.
    pub(super) full: Holders,
    /// Those that hold its first blocks only.
    pub(super) partial: Partial,
}

impl Coverage {
    /// How many of the run's `len` blocks a slot holds.
    pub(super) fn depth(&self, slot: Slot, len: usize) -> usize {
        if self.full.contains(slot) { len } else { self.partial.get(slot) }
    }

    /// Sets how many of the run's `len` blocks a slot holds.
    pub(super) fn set_depth(&mut self, slot: Slot, depth: usize, len: usize) {
        if depth >= len && len > 0 {
            self.partial.set(slot, 0);
            self.full.insert(slot);
        } else {
            self.full.remove(slot);
            self.partial.set(slot, u8::try_from(depth).unwrap_or(u8::MAX));
        }
    }

    /// Takes slots out.
    pub(super) fn forget(&mut self, gone: &SlotSet) {
        self.full.forget(gone);
        self.partial.forget(gone);
    }

    /// The longest holding of a run of `len` blocks.
    pub(super) fn deepest(&self, len: usize) -> usize {
        if !self.full.is_empty() {
            return len;
        }
        self.partial.iter().map(|(_, depth)| usize::from(depth)).max().unwrap_or(0)
    }

    /// What holds of the part from `at` on, when a run is cut in two there; what holds of the part
    /// before is left here.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let full = self.full.clone();
        let mut beyond = Vec::new();
        for (slot, depth) in self.partial.take_from(at) {
            self.full.insert(slot);
            if usize::from(depth) > at {
                beyond.push((slot, depth - at as u8));
            }
        }
        let mut partial = Partial::Listed(beyond);
        partial.spread_out();
        Self { full, partial }
    }

    /// The run was cut short to `len` blocks, of which nobody holds more.
    pub(super) fn shorten(&mut self, len: usize) {
        for (slot, _) in self.partial.take_from(len) {
            self.full.insert(slot);
        }
    }

    /// The run grew from `len` blocks, which is all that anybody holds.
    pub(super) fn outgrow(&mut self, len: usize) {
        let full = std::mem::take(&mut self.full);
        full.for_each(|slot| self.set_depth(slot, len, len + 1));
    }

    pub(super) fn bytes(&self) -> usize {
        let words = match &self.full {
            Holders::Few { .. } => 0,
            Holders::Many { words, .. } => size_of_val(&**words),
        };
        words + self.partial.bytes()
    }
}

/// Slots as bits, of which many are asked for.
#[derive(Debug, Default)]
pub(super) struct SlotSet(Vec<u64>);

impl SlotSet {
    pub(super) fn insert(&mut self, slot: Slot) {
        let needed = words_for(slot);
        if needed > self.0.len() {
            self.0.resize(needed, 0);
        }
        set(&mut self.0, slot);
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        if let Some(word) = self.0.get_mut(slot as usize / 64) {
            *word &= !(1 << (slot % 64));
        }
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        has(&self.0, slot)
    }

    fn words(&self) -> &[u64] {
        &self.0
    }
}

/// Words for slots up to and including `slot`.
pub(super) fn words_for(slot: Slot) -> usize {
    slot as usize / 64 + 1
}

/// Whether a slot is in a bit set.
pub(super) fn has(words: &[u64], slot: Slot) -> bool {
    words.get(slot as usize / 64).is_some_and(|word| word & (1 << (slot % 64)) != 0)
}

fn set(words: &mut [u64], slot: Slot) {
    if let Some(word) = words.get_mut(slot as usize / 64) {
        *word |= 1 << (slot % 64);
    }
}

/// The slots of a bit set, ascending.
pub(super) fn bits(words: &[u64]) -> impl Iterator<Item = Slot> + '_ {
    words.iter().enumerate().flat_map(|(at, &word)| {
        let mut left = word;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let bit = left.trailing_zeros();
                left &= left - 1;
                at as Slot * 64 + bit
            })
        })
    })
}
