//! One page of names: as many as two cache lines hold.
//!
//! Owns names by tag, in no order. All tags are compared at once, with no turn that depends on where
//! one is. It doesn't know which names come here.

use crate::index::tree::place::Reference;

/// Places of a line.
const PLACES: usize = 16;

/// Names that a page has room for: the last place tells how many there are.
const ROOM: usize = PLACES - 1;

/// Names by tag: a line of tags, and a line of the blocks that they are of.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Page {
    /// What is behind the last name was one, or is nothing.
    tags: [u32; PLACES],
    blocks: [Reference; PLACES],
}

impl Page {
    pub(super) const EMPTY: Self = Self { tags: [0; PLACES], blocks: [Reference::NONE; PLACES] };

    pub(super) fn len(&self) -> usize {
        self.tags[ROOM] as usize
    }

    /// Something of both lines.
    pub(super) fn near(&self) -> usize {
        self.len() + usize::from(self.blocks[ROOM] == Reference::NONE)
    }

    /// The place and the block of the name by this tag that is the wanted one.
    pub(super) fn find(
        &self,
        tag: u32,
        wanted: impl Fn(Reference) -> bool,
    ) -> Option<(usize, Reference)> {
        let mut end = self.len();
        // More than one is rare: the last is most often the only one.
        while let Some(at) = self.last(tag, end).checked_sub(1) {
            let block = self.blocks[at % PLACES];
            if wanted(block) {
                return Some((at, block));
            }
            end = at;
        }
        None
    }

    /// Adds a name; false if there is no room.
    pub(super) fn add(&mut self, tag: u32, block: Reference) -> bool {
        let at = self.len();
        if at >= ROOM {
            return false;
        }
        self.put(at, tag, block);
        self.tags[ROOM] = at as u32 + 1;
        true
    }

    /// Takes a name out.
    pub(super) fn remove(&mut self, at: usize) {
        let Some(last) = self.len().checked_sub(1).filter(|&last| at <= last) else { return };
        self.put(at, self.tags[last % PLACES], self.blocks[last % PLACES]);
        self.tags[ROOM] = last as u32;
    }

    /// Takes out the names whose tag has this bit.
    pub(super) fn split_off(&mut self, bit: u32) -> Self {
        let mut high = Self::EMPTY;
        let (mut lows, mut highs) = (0, 0);
        for at in 0..self.len() {
            let (tag, block) = (self.tags[at % PLACES], self.blocks[at % PLACES]);
            // Written to both, and kept in one: no turn that depends on the tag.
            self.put(lows, tag, block);
            high.put(highs, tag, block);
            let is_high = usize::from(tag & bit != 0);
            lows += 1 - is_high;
            highs += is_high;
        }
        self.tags[ROOM] = lows as u32;
        high.tags[ROOM] = highs as u32;
        high
    }

    /// Whether a tag may be here.
    pub(super) fn may_have(&self, tag: u32) -> bool {
        self.tags.iter().fold(false, |has, other| has | (*other == tag))
    }

    /// Behind the last name by a tag, of the first `end`; 0 if there is none.
    fn last(&self, tag: u32, end: usize) -> usize {
        let behind = |at: usize, other: u32| {
            let is_here = u32::from(other == tag) & u32::from(at < end);
            is_here * (at as u32 + 1)
        };
        let all = self.tags.iter().enumerate();
        all.fold(0, |last, (at, &other)| behind(at, other).max(last)) as usize
    }

    fn put(&mut self, at: usize, tag: u32, block: Reference) {
        self.tags[at % PLACES] = tag;
        self.blocks[at % PLACES] = block;
    }
}
