//! Who holds the blocks of one run: sets of slots, and how far each reaches.
//!
//! A slot is an index's own small number for one life of one rank. A run's blocks are held as
//! prefixes: most slots hold all of it, and are bits in [`Holders`]; the others hold its first few
//! blocks, and are listed with how many. A slot that holds something else is what runs are split
//! for, elsewhere.

/// An index's number for one life of one rank.
pub(super) type Slot = u32;

/// How many slots are listed before a set becomes bits.
const FEW: usize = 4;

/// How many depths are listed, at least, before each slot gets a place for its own.
const MANY: usize = 16;

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
                // Half of what makes it bits, so that one slot that comes and goes moves nothing.
                if *len as usize <= FEW / 2 {
                    let mut few = Self::default();
                    for slot in bits(words) {
                        few.insert(slot);
                    }
                    *self = few;
                }
            }
        }
        true
    }

    /// All of them, in no order.
    pub(super) fn for_each(&self, mut each: impl FnMut(Slot)) {
        match self {
            Self::Few { len, slots } => slots.iter().take(usize::from(*len)).for_each(|&s| each(s)),
            Self::Many { words, .. } => bits(words).for_each(each),
        }
    }
}

/// Slots that hold a run's first blocks only, and how many: at least one.
#[derive(Clone, Debug)]
pub(super) enum Partial {
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
    pub(super) fn get(&self, slot: Slot) -> usize {
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
    fn set(&mut self, slot: Slot, depth: u8) {
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
                if (*len as usize) < MANY / 2 {
                    *self = Self::Listed(self.iter().collect());
                }
            }
        }
    }

    /// Gives each slot a place, if so many are listed that this is no waste.
    fn spread_out(&mut self) {
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
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, u8)> + '_ {
        let (list, depths): (&[(Slot, u8)], &[u8]) = match self {
            Self::Listed(list) => (list, &[]),
            Self::Spread { depths, .. } => (&[], depths),
        };
        let spread = depths.iter().enumerate().filter(|&(_, &depth)| depth > 0);
        list.iter().copied().chain(spread.map(|(slot, &depth)| (slot as Slot, depth)))
    }

    /// Takes out and returns those of at least so many blocks.
    fn take_from(&mut self, depth: usize) -> Vec<(Slot, u8)> {
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

fn find(list: &[(Slot, u8)], slot: Slot) -> Result<usize, usize> {
    list.binary_search_by_key(&slot, |&(slot, _)| slot)
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
