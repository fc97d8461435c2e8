//! One page of names: as many as two cache lines hold.
//!
//! Owns names by tag, in no order. All tags are compared at once, with no turn that depends on where
//! one is. It doesn't know which names come here.

use crate::index::tree::place::Reference;

/// Names that a page has room for.
const ROOM: usize = 15;

/// Names by tag.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Page {
    /// What is behind the last name was one, or is nothing.
    tags: [u32; ROOM],
    len: u32,
    /// Which blocks they are of.
    blocks: [Reference; ROOM],
}

impl Page {
    pub(super) const EMPTY: Self =
        Self { tags: [0; ROOM], len: 0, blocks: [Reference::NONE; ROOM] };

    pub(super) fn len(&self) -> usize {
        self.len as usize
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
            let block = *self.blocks.get(at)?;
            if wanted(block) {
                return Some((at, block));
            }
            end = at;
        }
        None
    }

    /// Adds a name; false if there is no room.
    pub(super) fn add(&mut self, tag: u32, block: Reference) -> bool {
        let there_is_room = self.len() < ROOM;
        self.put(tag, block);
        self.len += u32::from(there_is_room);
        there_is_room
    }

    /// Takes a name out.
    pub(super) fn remove(&mut self, at: usize) {
        let Some(last) = self.len().checked_sub(1).filter(|&last| at <= last) else { return };
        self.tags.swap(at, last);
        self.blocks.swap(at, last);
        self.len -= 1;
    }

    /// Takes out the names whose tag has this bit.
    pub(super) fn split_off(&mut self, bit: u32) -> Self {
        let (mut low, mut high) = (Self::EMPTY, Self::EMPTY);
        for (&tag, &block) in self.tags.iter().zip(&self.blocks).take(self.len()) {
            // Both are written, and one is kept: no turn that depends on the tag.
            let is_high = u32::from(tag & bit != 0);
            low.put(tag, block);
            high.put(tag, block);
            low.len += 1 - is_high;
            high.len += is_high;
        }
        *self = low;
        high
    }

    /// Whether a tag is here, or was.
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

    /// Writes a name behind the last.
    fn put(&mut self, tag: u32, block: Reference) {
        let at = self.len();
        if let (Some(to_tag), Some(to_block)) = (self.tags.get_mut(at), self.blocks.get_mut(at)) {
            *to_tag = tag;
            *to_block = block;
        }
    }
}
