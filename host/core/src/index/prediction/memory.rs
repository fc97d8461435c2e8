//! One rank's memory as it is imagined.
//!
//! Owns its blocks as a tree: each knows the one before, so that a prompt is known by its last block
//! alone, whether it is open or has ended, and costs no more than that once its blocks are there.
//! A block never goes before those behind it, since every prompt that has them has it too: what is
//! said of it is of the prompts that end with it, and what was said of those behind it is handed on
//! to it when they go. How one that is to forget by something else changes to that is in `turn`.

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
    /// By time: the step at which it is forgotten. By capacity: the last release. Of the prompts that
    /// end with it, and of those that went on and are gone; 0 if none of them was taken.
    mark: u64,
    /// Open prompts that end with it, as far as they are taken in.
    open: u32,
    /// Blocks that it is the one before of.
    children: u32,
    /// The memory's last turn that it knows of; what it says otherwise is of the time before the next.
    turn: u16,
    /// By time: its end is written down, so that whatever ends with it does.
    watched: bool,
}

impl Block {
    /// Nothing is behind it and no open prompt ends with it: it stays for its mark alone.
    fn is_bare(&self) -> bool {
        self.children == 0 && self.open == 0
    }
}

/// Blocks by the order in which they are evicted.
type Idle = BTreeSet<(u64, Reverse<u32>, u64)>;

/// Why no more goes of blocks that are looked at from the last on.
enum Stop {
    /// The rest stays, and whoever lets it go will know.
    Rest,
    /// By time: this one stays until then, and that is to be written down.
    Until(u64, u64),
    /// Enough have gone; this one may be the next.
    Enough(u64),
}

/// The memory.
#[derive(Debug)]
pub(super) struct Memory {
    /// Which life of the rank's predictions. What is written down of another means nothing here.
    pub(super) life: u64,
    pub(super) way: Way,
    blocks: Table<u64, Block, PART>,
    /// By capacity, bare blocks: those released first, and of them the deepest, at the front.
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

    /// How many of a prompt's leading blocks it holds; the first `from` it does.
    pub(super) fn known(&self, chain: &[u64], from: usize) -> usize {
        let holds = |at: usize| {
            let block = chain.get(at).and_then(|hash| self.blocks.get(hash));
            block.filter(|block| block.depth as usize == at)
        };
        if from == 0 {
            return self.known_from_the_first(chain.len(), |at| holds(at).is_some());
        }
        let follow = |&at: &usize| holds(at).is_some_and(|b| chain.get(at - 1) == Some(&b.parent));
        from + (from..chain.len()).take_while(follow).count()
    }

    /// The same from the beginning, where most prompts are known to their end. It holds all that is
    /// before a block that it holds.
    fn known_from_the_first(&self, len: usize, holds: impl Fn(usize) -> bool) -> usize {
        let (mut known, mut unknown) = (0, len);
        let mut at = len.saturating_sub(1);
        while known < unknown {
            if holds(at) {
                known = at + 1;
            } else {
                unknown = at;
            }
            at = known.midpoint(unknown);
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

    /// Gives up blocks that were just taken in, behind one that is open if there is one.
    pub(super) fn give_up(&mut self, blocks: &[u64]) {
        for hash in blocks.iter().rev() {
            self.remove(*hash);
        }
    }

    /// Takes a block out, and hands what it says on to the one before, which is returned.
    fn remove(&mut self, hash: u64) -> Option<u64> {
        self.block(hash)?;
        let removed = self.blocks.remove(&hash)?;
        if removed.depth == 0 {
            return None;
        }
        let parent = self.block(removed.parent)?;
        parent.children = parent.children.saturating_sub(1);
        parent.mark = parent.mark.max(removed.mark);
        Some(removed.parent)
    }

    /// A block as it is since the last turn.
    fn block(&mut self, hash: u64) -> Option<&mut Block> {
        let block = self.blocks.get_mut(&hash)?;
        self.turning.catch_up(block);
        Some(block)
    }

    /// Of an open prompt `before` blocks were taken in, and now `taken` are: they stay.
    pub(super) fn open(&mut self, chain: &[u64], before: usize, taken: usize) {
        if taken <= before {
            return;
        }
        let way = self.way;
        let last = |taken: usize| taken.checked_sub(1).and_then(|at| chain.get(at)).copied();
        if let Some((hash, block)) = last(taken).and_then(|h| self.block(h).map(|b| (h, b))) {
            let (was_bare, idle) = (block.is_bare(), (block.mark, Reverse(block.depth), hash));
            block.open = block.open.saturating_add(1);
            if was_bare && way == Way::Capacity {
                self.idle.remove(&idle);
            }
        }
        // The other one is behind it.
        if let Some(block) = last(before).and_then(|hash| self.block(hash)) {
            block.open = block.open.saturating_sub(1);
        }
    }

    /// An open prompt, of which this is the last block, was taken: its blocks get this mark. What has
    /// ended by `step` goes, if it forgets by time. Returns the block whose end is to be written
    /// down, and when that is.
    pub(super) fn taken(
        &mut self,
        last: u64,
        mark: u64,
        (step, most): (u64, usize),
        gone: &mut Vec<u64>,
    ) -> Option<(u64, u64)> {
        self.latest = self.latest.max(mark);
        let block = self.block(last)?;
        block.open = block.open.saturating_sub(1);
        block.mark = block.mark.max(mark);
        let stop = self.let_go(last, step, most, gone);
        self.written(stop, step)
    }

    /// An open prompt, of which this is the last block, never was: what it alone has brought goes, `most`
    /// blocks at most. Returns the same as [`Memory::taken`], and whether there is more, as one that
    /// is open still.
    pub(super) fn refused(
        &mut self,
        last: u64,
        (step, most): (u64, usize),
        gone: &mut Vec<u64>,
    ) -> (Option<(u64, u64)>, bool) {
        let Some(block) = self.block(last) else { return (None, false) };
        block.open = block.open.saturating_sub(1);
        let stop = self.let_go(last, step, most, gone);
        if let Stop::Enough(next) = stop {
            self.block(next).into_iter().for_each(|block| block.open = 1);
            return (None, true);
        }
        (self.written(stop, step), false)
    }

    /// Lets go a block and those before it, for as long as they are bare and have ended by `step`, or by
    /// capacity, were never taken.
    fn let_go(&mut self, last: u64, step: u64, most: usize, gone: &mut Vec<u64>) -> Stop {
        let way = self.way;
        let mut next = last;
        loop {
            let Some(block) = self.block(next).filter(|block| block.is_bare()) else {
                return Stop::Rest;
            };
            match way {
                Way::Time if block.mark > step => {
                    let is_written = std::mem::replace(&mut block.watched, true);
                    return if is_written { Stop::Rest } else { Stop::Until(next, block.mark) };
                }
                Way::Capacity if block.mark > 0 => {
                    let idle = (block.mark, Reverse(block.depth), next);
                    self.idle.insert(idle);
                    return Stop::Rest;
                }
                Way::Time | Way::Capacity => {}
            }
            if gone.len() >= most {
                return Stop::Enough(next);
            }
            gone.push(next);
            match self.remove(next) {
                Some(parent) => next = parent,
                None => return Stop::Rest,
            }
        }
    }

    /// By time: what is to be written down.
    fn written(&mut self, stop: Stop, step: u64) -> Option<(u64, u64)> {
        match stop {
            Stop::Rest => None,
            Stop::Until(last, when) => Some((last, when)),
            Stop::Enough(last) => {
                let block = self.block(last)?;
                (!std::mem::replace(&mut block.watched, true)).then_some((last, step))
            }
        }
    }

    /// By capacity: the number of the next release.
    pub(super) fn next_release(&mut self) -> u64 {
        self.releases += 1;
        self.releases
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
        // If something is behind it now, or it is open: whoever lets go of that knows.
        self.block(last)?.watched = false;
        let stop = self.let_go(last, step, most, gone);
        self.written(stop, step)
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
            gone.push(hash);
            let Some(parent) = self.remove(hash) else { continue };
            if let Some(block) = self.block(parent).filter(|block| block.is_bare()) {
                let idle = (block.mark, Reverse(block.depth), parent);
                self.idle.insert(idle);
            }
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

    /// That each block counts what is behind it, and that whoever lets it go knows of it: its end would
    /// never come.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut children = std::collections::BTreeMap::<u64, u32>::new();
        for (_, block) in self.blocks.iter().filter(|(_, block)| block.depth > 0) {
            *children.entry(block.parent).or_default() += 1;
        }
        for (hash, block) in self.blocks.iter() {
            assert_eq!(block.children, children.get(hash).copied().unwrap_or(0), "{block:?}");
            let idle = (block.mark, Reverse(block.depth), *hash);
            let is_idle = self.idle.contains(&idle);
            match self.way {
                _ if self.turning.is_under_way() => {}
                Way::Time => assert!(block.watched || !block.is_bare(), "{hash}: {block:?}"),
                Way::Capacity => assert_eq!(is_idle, block.is_bare(), "{hash}: {block:?}"),
            }
        }
        let is_known = |hash: &u64| self.blocks.contains_key(hash);
        assert!(self.idle.iter().all(|(.., hash)| is_known(hash)));
    }
}

#[cfg(test)]
mod tests;
