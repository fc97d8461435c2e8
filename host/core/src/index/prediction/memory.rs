//! One rank's memory as it is imagined.
//!
//! Owns its blocks as a tree: each knows the one before, so that a prompt that ends is known by its
//! last block alone. What it holds is whole from the beginning: a block never goes before those
//! behind it, since every prompt that has them has it too.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};

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
    /// By time: the step at which it is forgotten. By capacity: the release that left it idle.
    mark: u64,
    /// By capacity: running requests that have it.
    running: u32,
    /// By time: its end is written down, so that whatever ends with it does.
    watched: bool,
}

/// The memory.
#[derive(Debug)]
pub(super) struct Memory {
    /// Which life of the rank's predictions. What is written down of another means nothing here.
    pub(super) life: u64,
    pub(super) way: Way,
    blocks: HashMap<u64, Block>,
    /// By capacity, blocks of no running request: those released first, and of them the deepest, at
    /// the front.
    idle: BTreeSet<(u64, Reverse<u32>, u64)>,
    /// Counts releases.
    releases: u64,
}

impl Memory {
    pub(super) fn new(life: u64, way: Way) -> Self {
        Self { life, way, blocks: HashMap::new(), idle: BTreeSet::new(), releases: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// How many of a prompt's leading blocks it holds.
    pub(super) fn known(&self, chain: &[u64]) -> usize {
        let mut parent = None;
        let known = chain.iter().zip(0..).take_while(|&(hash, depth)| {
            let before = parent.replace(*hash);
            let block = self.blocks.get(hash);
            block.is_some_and(|b| b.depth == depth && before.is_none_or(|p| p == b.parent))
        });
        known.count()
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
            let block = Block { parent, depth, mark: 0, running: 0, watched: false };
            self.blocks.insert(hash, block);
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

    /// By time: a prompt's blocks stay until `end` at least. True if its last block is to be written
    /// down to end then.
    pub(super) fn renew(&mut self, chain: &[u64], end: u64) -> bool {
        for hash in chain {
            if let Some(block) = self.blocks.get_mut(hash) {
                block.mark = block.mark.max(end);
            }
        }
        let last = chain.last().and_then(|last| self.blocks.get_mut(last));
        last.is_some_and(|last| !std::mem::replace(&mut last.watched, true))
    }

    /// By time: what has ended by `step`, of the prompts that end with a block; or when that will
    /// be, if it was renewed.
    pub(super) fn end(&mut self, last: u64, step: u64, gone: &mut Vec<u64>) -> Option<u64> {
        let block = self.blocks.get(&last)?;
        if block.mark > step {
            return Some(block.mark);
        }
        let mut next = Some(last);
        while let Some(hash) = next {
            let block = self.blocks.get(&hash).filter(|block| block.mark <= step)?;
            next = (block.depth > 0).then_some(block.parent);
            self.blocks.remove(&hash);
            gone.push(hash);
        }
        None
    }

    /// By capacity: a prompt runs.
    pub(super) fn occupy(&mut self, chain: &[u64]) {
        for &hash in chain {
            let Some(block) = self.blocks.get_mut(&hash) else { continue };
            if block.running == 0 {
                self.idle.remove(&(block.mark, Reverse(block.depth), hash));
            }
            block.running = block.running.saturating_add(1);
        }
    }

    /// By capacity: a prompt runs no longer.
    pub(super) fn release(&mut self, chain: &[u64]) {
        self.releases += 1;
        for &hash in chain {
            let Some(block) = self.blocks.get_mut(&hash) else { continue };
            block.running = block.running.saturating_sub(1);
            if block.running == 0 {
                block.mark = self.releases;
                self.idle.insert((block.mark, Reverse(block.depth), hash));
            }
        }
    }

    /// By capacity: what goes so that no more than `capacity` blocks are held, as far as nothing
    /// that runs is in the way.
    pub(super) fn evict(&mut self, capacity: u64) -> Vec<u64> {
        let mut gone = Vec::new();
        while self.blocks.len() as u64 > capacity {
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
            .values()
            .filter(|block| block.depth > 0)
            .map(|block| block.parent)
            .collect();
        let mut last = Vec::new();
        for (&hash, block) in &mut self.blocks {
            let watched = !inner.contains(&hash);
            *block = Block { mark: end, running: 0, watched, ..*block };
            last.extend(watched.then_some(hash));
        }
        last
    }

    /// From now on it forgets by capacity: what would have ended first goes first.
    pub(super) fn by_capacity(&mut self, life: u64) {
        (self.life, self.way) = (life, Way::Capacity);
        for (&hash, block) in &mut self.blocks {
            *block = Block { running: 0, watched: false, ..*block };
            self.releases = self.releases.max(block.mark);
            self.idle.insert((block.mark, Reverse(block.depth), hash));
        }
    }

    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        let idle = self.idle.len() * size_of::<(u64, Reverse<u32>, u64)>();
        size_of::<Self>() + self.blocks.allocation_size() + idle
    }
}
