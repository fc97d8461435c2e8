//! One rank's memory as it is imagined.
//!
//! Owns its blocks as a tree: each knows the one before, so that a prompt that ends is known by its
//! last block alone. What it holds is whole from the beginning: a block never goes before those
//! behind it, since every prompt that has them has it too.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hashbrown::HashSet;

use crate::index::table::Table;

/// Blocks in one part of a memory's table.
const PART: usize = 100;

/// By what a memory forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Time,
    Capacity,
}

/// A block.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The one before; means nothing at the beginning of a prompt.
    parent: u64,
    depth: u32,
    /// By time: the step at which it is forgotten. By capacity: the last release. 0 as long as every
    /// prompt that has it is open.
    mark: u64,
    /// Prompts that have it and are open.
    open: u32,
    /// By time: its end is written down, so that whatever ends with it does.
    watched: bool,
}

/// How a prompt is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// It was taken: its blocks get this mark.
    Taken(u64),
    /// It never was: nothing of it is left.
    Refused,
}

/// The memory.
#[derive(Debug)]
pub(super) struct Memory {
    /// Which life of the rank's predictions. What is written down of another means nothing here.
    pub(super) life: u64,
    pub(super) way: Way,
    blocks: Table<u64, Block, PART>,
    /// By capacity, blocks of no open prompt: those released first, and of them the deepest, at
    /// the front.
    idle: BTreeSet<(u64, Reverse<u32>, u64)>,
    /// Counts releases.
    releases: u64,
}

impl Memory {
    pub(super) fn new(life: u64, way: Way) -> Self {
        Self { life, way, blocks: Table::default(), idle: BTreeSet::new(), releases: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// How many of a prompt's leading blocks it holds; the first `from` it does.
    pub(super) fn known(&self, chain: &[u64], from: usize) -> usize {
        let mut parent = from.checked_sub(1).and_then(|at| chain.get(at)).copied();
        let known = chain.iter().zip(0..).skip(from).take_while(|&(hash, depth)| {
            let before = parent.replace(*hash);
            let block = self.blocks.get(hash);
            block.is_some_and(|b| b.depth == depth && before.is_none_or(|p| p == b.parent))
        });
        from + known.count()
    }

    /// Takes in the blocks of a prompt from `known` on, at most `room` of them, and returns how many
    /// of the prompt it holds then. It stops at one that it holds elsewhere: such hashes are no
    /// prompt's.
    pub(super) fn extend(&mut self, chain: &[u64], known: usize, room: usize) -> usize {
        let mut parent = known.checked_sub(1).and_then(|at| chain.get(at)).copied();
        let mut end = known;
        for (&hash, depth) in chain.iter().zip(0_u32..).skip(known).take(room) {
            if self.blocks.contains_key(&hash) {
                break;
            }
            let parent = parent.replace(hash).unwrap_or_default();
            self.blocks.entry(hash, Block { parent, depth, mark: 0, open: 0, watched: false });
            end += 1;
        }
        end
    }

    /// Gives up blocks that were just taken in.
    pub(super) fn give_up(&mut self, blocks: &[u64]) {
        for hash in blocks {
            self.blocks.remove(hash);
        }
    }

    /// A prompt is open: its blocks stay.
    pub(super) fn open(&mut self, chain: &[u64]) {
        for &hash in chain {
            let Some(block) = self.blocks.get_mut(&hash) else { continue };
            if block.open == 0 && self.way == Way::Capacity {
                self.idle.remove(&(block.mark, Reverse(block.depth), hash));
            }
            block.open = block.open.saturating_add(1);
        }
    }

    /// Blocks of a prompt are no longer open; the deeper ones were closed before. Those go that no other
    /// prompt keeps: what has ended by `step`, if it forgets by time.
    pub(super) fn close(&mut self, chain: &[u64], how: Close, step: u64) -> Vec<u64> {
        let mut gone = Vec::new();
        for &hash in chain.iter().rev() {
            let Some(block) = self.blocks.get_mut(&hash) else { continue };
            block.open = block.open.saturating_sub(1);
            if let Close::Taken(mark) = how {
                block.mark = block.mark.max(mark);
            }
            if block.open > 0 {
                continue;
            }
            let ends = match self.way {
                Way::Time => block.mark <= step,
                Way::Capacity => block.mark == 0,
            };
            if ends {
                self.blocks.remove(&hash);
                gone.push(hash);
            } else if self.way == Way::Capacity {
                self.idle.insert((block.mark, Reverse(block.depth), hash));
            }
        }
        gone
    }

    /// By capacity: the number of the next release.
    pub(super) fn next_release(&mut self) -> u64 {
        self.releases += 1;
        self.releases
    }

    /// By time: whether the end of what ends with a block is still to be written down.
    pub(super) fn watch(&mut self, last: u64) -> bool {
        let last = self.blocks.get_mut(&last);
        last.is_some_and(|last| !std::mem::replace(&mut last.watched, true))
    }

    /// By time: what has ended by `step`, of the prompts that end with a block, `most` blocks at most.
    /// Returns which block is to be asked for next, and at which step, if that isn't all.
    pub(super) fn end(
        &mut self,
        last: u64,
        step: u64,
        most: usize,
        gone: &mut Vec<u64>,
    ) -> Option<(u64, u64)> {
        let block = self.blocks.get_mut(&last)?;
        if block.mark > step {
            return Some((last, block.mark));
        }
        // Whoever closes it goes by the time then.
        block.watched = block.open == 0;
        let mut next = Some(last);
        while let Some(hash) = next {
            let block = self.blocks.get_mut(&hash)?;
            if block.mark > step || block.open > 0 {
                return None;
            }
            if gone.len() >= most {
                let watched = hash != last && std::mem::replace(&mut block.watched, true);
                return (!watched).then_some((hash, step));
            }
            next = (block.depth > 0).then_some(block.parent);
            self.blocks.remove(&hash);
            gone.push(hash);
        }
        None
    }

    /// By capacity: what goes so that no more than `capacity` blocks are held, as far as nothing
    /// that is open is in the way, and `most` at most.
    pub(super) fn evict(&mut self, capacity: u64, most: usize) -> Vec<u64> {
        let mut gone = Vec::new();
        while self.blocks.len() as u64 > capacity && gone.len() < most {
            let Some((.., hash)) = self.idle.pop_first() else { break };
            self.blocks.remove(&hash);
            gone.push(hash);
        }
        gone
    }

    /// From now on it forgets by time, and all that it holds ends with `end`. Returns the last
    /// blocks of its prompts, which are to be written down to end then.
    pub(super) fn by_time(&mut self, life: u64, end: u64) -> Vec<u64> {
        (self.life, self.way) = (life, Way::Time);
        self.idle.clear();
        let inner: HashSet<u64> = self
            .blocks
            .iter()
            .filter(|(_, block)| block.depth > 0)
            .map(|(_, block)| block.parent)
            .collect();
        let mut last = Vec::new();
        for (&hash, block) in self.blocks.iter_mut() {
            let watched = !inner.contains(&hash);
            *block = Block { mark: end, open: 0, watched, ..*block };
            last.extend(watched.then_some(hash));
        }
        last
    }

    /// From now on it forgets by capacity: what would have ended first goes first.
    pub(super) fn by_capacity(&mut self, life: u64) {
        (self.life, self.way) = (life, Way::Capacity);
        for (&hash, block) in self.blocks.iter_mut() {
            *block = Block { open: 0, watched: false, ..*block };
            self.releases = self.releases.max(block.mark);
            self.idle.insert((block.mark, Reverse(block.depth), hash));
        }
    }

    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        let idle = self.idle.len() * size_of::<(u64, Reverse<u32>, u64)>();
        size_of::<Self>() + self.blocks.bytes() + idle
    }
}
