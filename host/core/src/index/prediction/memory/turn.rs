//! How a memory changes to forgetting by something else.
//!
//! Owns what that means for the blocks that are there. The memory has turned at once; its blocks follow
//! when they are next met, or when their part of the table has its turn, some hundreds at a time: a
//! memory may hold a million. It doesn't know who wants the change.

use std::cmp::Reverse;

use super::{Block, Idle, Memory, Way};

/// A memory's turns.
#[derive(Debug, Default)]
pub(super) struct Turning {
    /// How many there were.
    turns: u16,
    /// The last one to forgetting by time, and when all ends that was there.
    to_time: Option<(u16, u64)>,
    /// The part of the table that is next; none when all blocks know.
    next: Option<usize>,
    /// What was to be evicted in order, before turns to forgetting by time.
    faded: Vec<Idle>,
}

impl Turning {
    /// The last turn.
    pub(super) fn now(&self) -> u16 {
        self.turns
    }

    /// Whether some blocks may not know of it yet.
    pub(super) fn is_under_way(&self) -> bool {
        self.next.is_some()
    }

    /// Whether nothing is left to be done about it.
    fn is_over(&self) -> bool {
        self.next.is_none() && self.faded.is_empty()
    }

    /// How much is left to be given up.
    pub(super) fn faded(&self) -> usize {
        self.faded.iter().map(Idle::len).sum()
    }

    /// Lets a block know of the last turn, unless it does.
    pub(super) fn catch_up(&self, block: &mut Block) {
        if block.turn == self.turns {
            return;
        }
        if let Some((turn, end)) = self.to_time
            && block.turn < turn
        {
            block.mark = end;
        }
        // Whoever had it open was of an earlier life.
        *block = Block { open: 0, watched: false, turn: self.turns, ..*block };
    }
}

impl Memory {
    /// Whether its last turn leaves something to be done, with [`Memory::turn_some`].
    pub(in crate::index::prediction) fn is_turning(&self) -> bool {
        !self.turning.is_over()
    }

    /// From now on it forgets by time, and all that it holds ends with `end`.
    pub(in crate::index::prediction) fn by_time(&mut self, life: u64, end: u64) {
        self.turn(life, Way::Time);
        self.turning.to_time = Some((self.turning.turns, end));
        self.latest = self.latest.max(end);
        self.turning.faded.push(std::mem::take(&mut self.idle));
    }

    /// From now on it forgets by capacity: what would have ended first goes first.
    pub(in crate::index::prediction) fn by_capacity(&mut self, life: u64) {
        self.turn(life, Way::Capacity);
        self.releases = self.releases.max(self.latest);
    }

    fn turn(&mut self, life: u64, way: Way) {
        if self.turning.turns == u16::MAX {
            self.begin_counting_anew();
        }
        (self.life, self.way) = (life, way);
        self.turning.turns += 1;
        self.turning.next = Some(0);
    }

    /// Lets some blocks know of the last turn, about `most`, and adds to `last` those whose end is to be
    /// written down, and when that is. Returns how many it has looked at, and whether there are more.
    pub(in crate::index::prediction) fn turn_some(
        &mut self,
        most: usize,
        last: &mut Vec<(u64, u64)>,
    ) -> (usize, bool) {
        let mut looked = 0;
        while let Some(part) = self.turning.next.filter(|_| looked < most) {
            let is_there = part < self.blocks.parts();
            looked += self.turn_part(part, last).max(1);
            self.turning.next = is_there.then_some(part + 1);
        }
        while let Some(faded) = self.turning.faded.last_mut().filter(|_| looked < most) {
            if faded.pop_first().is_none() {
                self.turning.faded.pop();
            }
            looked += 1;
        }
        (looked, self.is_turning())
    }

    fn turn_part(&mut self, part: usize, last: &mut Vec<(u64, u64)>) -> usize {
        let Self { way, blocks, idle, turning, .. } = self;
        blocks.retain(part, |&hash, block| {
            turning.catch_up(block);
            match way {
                Way::Time if block.is_bare() && !block.watched => {
                    block.watched = true;
                    last.push((hash, block.mark));
                }
                Way::Capacity if block.is_bare() => {
                    idle.insert((block.mark, Reverse(block.depth), hash));
                }
                _ => {}
            }
            true
        })
    }

    /// After so many turns that they can't be counted any further, all blocks know of the last.
    fn begin_counting_anew(&mut self) {
        for part in 0..self.blocks.parts() {
            let turning = &self.turning;
            self.blocks.retain(part, |_, block| {
                turning.catch_up(block);
                block.turn = 0;
                true
            });
        }
        (self.turning.turns, self.turning.to_time) = (0, None);
    }
}
