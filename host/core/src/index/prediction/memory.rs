//! One rank's memory as it is imagined.
//!
//! Owns its blocks as a tree: each knows the one before, so that a prompt that ends is known by its
//! last block alone. What it holds is whole from the beginning: a block never goes before those
//! behind it, since every prompt that has them has it too. How one that is to forget by something
//! else changes to that is in `turn`.

mod turn;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::index::table::Table;
use turn::Turning;

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
    /// Blocks that it is the one before of.
    children: u32,
    /// The memory's last turn that it knows of; what it says otherwise is of the time before the next.
    turn: u16,
    /// By time: its end is written down, so that whatever ends with it does.
    watched: bool,
}

impl Block {
    /// By time: no prompt ends behind it, so that its end is to be written down, and isn't yet.
    fn wants_watch(&self) -> bool {
        self.children == 0 && !self.watched
    }

    /// One more prompt has it open. By capacity: where it stood among those that may go, if it did.
    fn open(&mut self) -> Option<(u64, Reverse<u32>)> {
        let idle = (self.open == 0).then_some((self.mark, Reverse(self.depth)));
        self.open = self.open.saturating_add(1);
        idle
    }
}

/// Blocks by the order in which they are evicted.
type Idle = BTreeSet<(u64, Reverse<u32>, u64)>;

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
    idle: Idle,
    /// Counts releases.
    releases: u64,
    /// The largest mark of any block.
    latest: u64,
    turning: Turning,
}

impl Memory {
    pub(super) fn new(life: u64, way: Way) -> Self {
        Self {
            life,
            way,
            blocks: Table::default(),
            idle: Idle::new(),
            releases: 0,
            latest: 0,
            turning: Turning::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// A prompt is open as far as it is held: those blocks stay. How many of its leading blocks that is;
    /// the first `from` are, and were opened before.
    pub(super) fn open_known(&mut self, chain: &[u64], from: usize) -> usize {
        let mut parent = from.checked_sub(1).and_then(|at| chain.get(at)).copied();
        let mut known = from;
        for (&hash, depth) in chain.iter().zip(0_u32..).skip(from) {
            let before = parent.replace(hash);
            let Some(block) = self.blocks.get_mut(&hash) else { break };
            if block.depth != depth || before.is_some_and(|before| before != block.parent) {
                break;
            }
            self.turning.catch_up(block);
            let idle = block.open();
            if let Some((mark, depth)) = idle.filter(|_| self.way == Way::Capacity) {
                self.idle.remove(&(mark, depth, hash));
            }
            known += 1;
        }
        known
    }

    /// Takes in the blocks of a prompt from `known` on, at most `room` of them, and returns how many
    /// of the prompt it holds then. It stops at one that it holds elsewhere: such hashes are no
    /// prompt's.
    pub(super) fn extend(&mut self, chain: &[u64], known: usize, room: usize) -> usize {
        let before = known.checked_sub(1).and_then(|at| chain.get(at)).copied();
        let turn = self.turning.now();
        let (mut parent, mut end) = (before, known);
        for (&hash, depth) in chain.iter().zip(0_u32..).skip(known).take(room) {
            if self.blocks.contains_key(&hash) {
                break;
            }
            let parent = parent.replace(hash).unwrap_or_default();
            // Each is followed by the next, but for the last.
            let (children, watched) = (1, false);
            let block = Block { parent, depth, mark: 0, open: 0, children, turn, watched };
            self.blocks.entry(hash, block);
            end += 1;
        }
        if end > known {
            let last = chain.get(end - 1).and_then(|last| self.blocks.get_mut(last));
            last.into_iter().for_each(|last| last.children = 0);
            let before = before.and_then(|before| self.blocks.get_mut(&before));
            before.into_iter().for_each(|before| before.children += 1);
        }
        end
    }

    /// Gives up blocks that were just taken in.
    pub(super) fn give_up(&mut self, blocks: &[u64]) {
        blocks.iter().rev().for_each(|hash| self.remove(*hash));
    }

    fn remove(&mut self, hash: u64) {
        let Some(block) = self.blocks.remove(&hash) else { return };
        if block.depth > 0
            && let Some(parent) = self.blocks.get_mut(&block.parent)
        {
            parent.children = parent.children.saturating_sub(1);
        }
    }

    /// A block as it is since the last turn.
    fn block(&mut self, hash: u64) -> Option<&mut Block> {
        let block = self.blocks.get_mut(&hash)?;
        self.turning.catch_up(block);
        Some(block)
    }

    /// A prompt is open: so are blocks that it has just brought.
    pub(super) fn open(&mut self, chain: &[u64]) {
        for &hash in chain {
            if let Some(block) = self.block(hash) {
                block.open();
            }
        }
    }

    /// Blocks of a prompt are no longer open; the deeper ones were closed before. Those go that no other
    /// prompt keeps: what has ended by `step`, if it forgets by time. Adds to `last` the block whose end
    /// is to be written down now, and when that is.
    pub(super) fn close(
        &mut self,
        chain: &[u64],
        how: Close,
        step: u64,
        last: &mut Vec<(u64, u64)>,
    ) -> Vec<u64> {
        let mut gone = Vec::new();
        if let Close::Taken(mark) = how {
            self.latest = self.latest.max(mark);
        }
        for &hash in chain.iter().rev() {
            let way = self.way;
            let Some(block) = self.block(hash) else { continue };
            block.open = block.open.saturating_sub(1);
            if let Close::Taken(mark) = how {
                block.mark = block.mark.max(mark);
            }
            if block.open > 0 {
                continue;
            }
            let (mark, depth) = (block.mark, block.depth);
            let ends = match way {
                Way::Time => mark <= step,
                Way::Capacity => mark == 0,
            };
            if ends {
                self.remove(hash);
                gone.push(hash);
            } else if way == Way::Capacity {
                self.idle.insert((mark, Reverse(depth), hash));
            } else if block.wants_watch() {
                block.watched = true;
                last.push((hash, mark));
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
        let last = self.block(last);
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
        let block = self.block(last)?;
        if block.mark > step {
            return Some((last, block.mark));
        }
        // Whoever closes it goes by the time then.
        block.watched = block.open == 0;
        let mut next = Some(last);
        while let Some(hash) = next {
            let block = self.block(hash)?;
            // The one behind it has just gone.
            block.children = block.children.saturating_sub(u32::from(hash != last));
            if block.open > 0 {
                return None;
            }
            if block.mark > step {
                // It may be the last now, and of those that nobody waits for.
                let wants_watch = block.wants_watch();
                block.watched |= wants_watch;
                return wants_watch.then_some((hash, block.mark));
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
        if self.turning.is_under_way() {
            // What goes first isn't known yet.
            return gone;
        }
        while self.blocks.len() as u64 > capacity && gone.len() < most {
            let Some((.., hash)) = self.idle.pop_first() else { break };
            self.remove(hash);
            gone.push(hash);
        }
        gone
    }

    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        let idle = self.idle.len() + self.turning.faded();
        let idle = idle * size_of::<(u64, Reverse<u32>, u64)>();
        size_of::<Self>() + self.blocks.bytes() + idle
    }

    /// How many blocks don't know of its last turn yet.
    #[cfg(test)]
    pub(super) fn behind(&self) -> usize {
        let now = self.turning.now();
        self.blocks.iter().filter(|(_, block)| block.turn != now).count()
    }

    /// That no block counts more behind it than there are: its end would never be written down.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut children = std::collections::BTreeMap::<u64, u32>::new();
        for (_, block) in self.blocks.iter().filter(|(_, block)| block.depth > 0) {
            *children.entry(block.parent).or_default() += 1;
        }
        for (hash, block) in self.blocks.iter() {
            let behind = children.get(hash).copied().unwrap_or(0);
            assert!(block.children <= behind, "{block:?}, and there are {behind}");
        }
    }
}
