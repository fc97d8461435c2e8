//! An engine's KV memory, which evicts as vLLM's does.
//!
//! Owns which blocks there are and what each holds. A whole block of a prompt is found by its
//! sequence hash for as long as nobody has taken its place. When a request ends, its blocks go to
//! the end of one queue, the last of its prompt first, and new ones are taken from the queue's
//! front: so the longest idle goes first, and of a prompt the deepest. Blocks that are no whole
//! block of a prompt (its partly filled end, the answer) stand in the same queue and hold nothing
//! that can be found. It doesn't know time or routers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

type BlockId = u32;

/// No block.
const NONE: BlockId = BlockId::MAX;

#[derive(Clone, Copy, Debug)]
struct Block {
    /// The prefix that it ends; none if it can't be found.
    holds: Option<u64>,
    /// Another block that holds the same, which came later.
    copy: BlockId,
    /// Requests that use it.
    users: u32,
    /// Its neighbours in the queue, while nobody uses it.
    before: BlockId,
    after: BlockId,
}

/// The memory of one engine.
#[derive(Debug)]
pub struct Memory {
    /// The blocks, and behind them the queue's two ends in one: what is after it is taken first.
    blocks: Vec<Block>,
    idle: usize,
    /// Blocks by what they hold; the first, if several do because a block was computed though it was
    /// there.
    found: HashMap<u64, BlockId, BuildHasherDefault<AsItIs>>,
}

/// The blocks of one running request.
#[derive(Debug)]
pub struct Allocation {
    blocks: Vec<BlockId>,
    /// Whole blocks of the prompt that needn't be computed.
    pub hits: usize,
    /// What lost its place for it.
    pub evicted: Vec<u64>,
}

/// Hashes are spread already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| hash << 8 ^ u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Memory {
    /// An empty memory.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        let block = |id: BlockId| Block {
            holds: None,
            copy: NONE,
            users: 0,
            before: id.checked_sub(1).unwrap_or(blocks),
            after: if id == blocks { 0 } else { id + 1 },
        };
        Self {
            blocks: (0..=blocks).map(block).collect(),
            idle: blocks as usize,
            found: HashMap::default(),
        }
    }

    /// Makes room for a request of `total` blocks, the first of which are `chain`; at most
    /// `most_hits` of them may be taken from what is there. None if others use too much.
    pub fn allocate(
        &mut self,
        chain: &[u64],
        most_hits: usize,
        total: usize,
    ) -> Option<Allocation> {
        let there = |hash: &u64| self.found.get(hash).copied();
        let mut blocks = Vec::with_capacity(total);
        blocks.extend(chain.iter().take(most_hits).map_while(there));
        let hits = blocks.len();
        let idle = blocks.iter().filter(|&&id| self.block(id).users == 0).count();
        if total - hits > self.idle - idle {
            return None;
        }
        for &id in &blocks {
            self.take(id);
        }
        let mut evicted = Vec::new();
        for at in hits..total {
            let id = self.block(self.ends()).after;
            self.take(id);
            if let Some(held) = self.block(id).holds {
                self.lose(held, id);
                evicted.push(held);
            }
            if let Some(&hash) = chain.get(at) {
                self.hold(hash, id);
            }
            blocks.push(id);
        }
        Some(Allocation { blocks, hits, evicted })
    }

    /// The request is over.
    pub fn release(&mut self, allocation: &Allocation) {
        for &id in allocation.blocks.iter().rev() {
            self.block_mut(id).users -= 1;
            if self.block(id).users == 0 {
                let last = self.block(self.ends()).before;
                self.join(last, id);
                self.join(id, self.ends());
                self.idle += 1;
            }
        }
    }

    /// The share of it that running requests use.
    #[must_use]
    pub fn used(&self) -> f64 {
        let blocks = self.blocks.len() - 1;
        (blocks - self.idle) as f64 / blocks as f64
    }

    /// A request uses a block.
    fn take(&mut self, id: BlockId) {
        let Block { users, before, after, .. } = *self.block(id);
        if users == 0 {
            self.join(before, after);
            self.idle -= 1;
        }
        self.block_mut(id).users += 1;
    }

    fn hold(&mut self, hash: u64, id: BlockId) {
        self.block_mut(id).holds = Some(hash);
        let mut at = *self.found.entry(hash).or_insert(id);
        while at != id {
            let copy = self.block(at).copy;
            if copy == NONE {
                self.block_mut(at).copy = id;
            }
            at = if copy == NONE { id } else { copy };
        }
    }

    fn lose(&mut self, held: u64, id: BlockId) {
        let next = std::mem::replace(&mut self.block_mut(id).copy, NONE);
        self.block_mut(id).holds = None;
        let first = self.found.get(&held).copied().unwrap_or(id);
        if first != id {
            let mut at = first;
            while self.block(at).copy != id {
                at = self.block(at).copy;
            }
            self.block_mut(at).copy = next;
        } else if next == NONE {
            self.found.remove(&held);
        } else {
            self.found.insert(held, next);
        }
    }

    fn ends(&self) -> BlockId {
        self.blocks.len() as BlockId - 1
    }

    fn join(&mut self, before: BlockId, after: BlockId) {
        self.block_mut(before).after = after;
        self.block_mut(after).before = before;
    }

    fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id as usize]
    }

    fn block_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(memory: &mut Memory, chain: &[u64], total: usize) -> Allocation {
        memory.allocate(chain, chain.len(), total).expect("there is room")
    }

    #[test]
    fn the_longest_idle_goes_first_and_of_it_the_deepest_block() {
        let mut memory = Memory::new(4);
        let first = allocate(&mut memory, &[1, 2], 2);
        let second = allocate(&mut memory, &[1, 3], 2);
        assert_eq!((first.hits, second.hits), (0, 1));
        memory.release(&first);
        memory.release(&second);
        // One was never used; then 2, which was idle first; 1 outlives 3, which is behind it.
        assert!(allocate(&mut memory, &[10], 1).evicted.is_empty());
        assert_eq!(allocate(&mut memory, &[11], 1).evicted, [2]);
        assert_eq!(allocate(&mut memory, &[12], 1).evicted, [3]);
        assert_eq!(allocate(&mut memory, &[1, 13], 1).hits, 1);
    }

    #[test]
    fn what_is_in_use_is_not_evicted() {
        let mut memory = Memory::new(3);
        let running = allocate(&mut memory, &[1, 2], 3);
        assert!(memory.allocate(&[5], 1, 1).is_none());
        memory.release(&running);
        assert_eq!(allocate(&mut memory, &[1, 2], 2).hits, 2);
    }

    #[test]
    fn a_block_computed_again_is_there_until_both_are_gone() {
        let mut memory = Memory::new(2);
        let first = allocate(&mut memory, &[1], 1);
        let again = memory.allocate(&[1], 0, 1).expect("there is room");
        memory.release(&first);
        memory.release(&again);
        let other = allocate(&mut memory, &[2], 1);
        assert_eq!(other.evicted, [1]);
        assert_eq!(allocate(&mut memory, &[1], 1).hits, 1);
    }
}
