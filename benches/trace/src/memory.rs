//! An engine's KV memory, which evicts as vLLM's does.
//!
//! Owns which blocks there are and what each holds. A whole block of a prompt is found by its
//! sequence hash for as long as nobody has taken its place. When a request ends, its blocks go to
//! the end of one queue, the last of its prompt first, and new ones are taken from the queue's
//! front: so the longest idle goes first, and of a prompt the deepest. Blocks that are no whole
//! block of a prompt (its partly filled end, the answer) stand in the same queue and hold nothing
//! that can be found. It doesn't know time or routers.

use std::collections::{BTreeMap, HashMap};

type BlockId = u32;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// The prefix that it ends; none if it can't be found.
    holds: Option<u64>,
    /// Requests that use it.
    users: u32,
    /// Its place in the queue, while nobody uses it.
    turn: u64,
}

/// The memory of one engine.
#[derive(Debug)]
pub struct Memory {
    blocks: Vec<Block>,
    /// Blocks that nobody uses, those to be taken first at the front.
    queue: BTreeMap<u64, BlockId>,
    next_turn: u64,
    /// Blocks by what they hold: several, when a block was computed though it was there.
    found: HashMap<u64, Vec<BlockId>>,
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

impl Memory {
    /// An empty memory.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        Self {
            blocks: vec![Block::default(); blocks as usize],
            queue: (0..blocks).map(|id| (u64::from(id), id)).collect(),
            next_turn: u64::from(blocks),
            found: HashMap::new(),
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
        let there = |hash: &u64| self.found.get(hash).and_then(|ids| ids.first().copied());
        let mut blocks: Vec<BlockId> = chain.iter().take(most_hits).map_while(there).collect();
        let hits = blocks.len();
        let idle = blocks.iter().filter(|&&id| self.blocks[id as usize].users == 0).count();
        if total - hits > self.queue.len() - idle {
            return None;
        }
        for &id in &blocks {
            let block = &mut self.blocks[id as usize];
            if block.users == 0 {
                self.queue.remove(&block.turn);
            }
            block.users += 1;
        }
        let mut evicted = Vec::new();
        for at in hits..total {
            let (_, id) = self.queue.pop_first()?;
            if let Some(held) = self.blocks[id as usize].holds.take() {
                self.lose(held, id);
                evicted.push(held);
            }
            let holds = chain.get(at).copied();
            if let Some(hash) = holds {
                self.found.entry(hash).or_default().push(id);
            }
            self.blocks[id as usize] = Block { holds, users: 1, turn: 0 };
            blocks.push(id);
        }
        Some(Allocation { blocks, hits, evicted })
    }

    /// The request is over.
    pub fn release(&mut self, allocation: &Allocation) {
        for &id in allocation.blocks.iter().rev() {
            let block = &mut self.blocks[id as usize];
            block.users -= 1;
            if block.users == 0 {
                block.turn = self.next_turn;
                self.queue.insert(self.next_turn, id);
                self.next_turn += 1;
            }
        }
    }

    /// The share of it that running requests use.
    #[must_use]
    pub fn used(&self) -> f64 {
        (self.blocks.len() - self.queue.len()) as f64 / self.blocks.len() as f64
    }

    fn lose(&mut self, held: u64, id: BlockId) {
        if let Some(ids) = self.found.get_mut(&held) {
            ids.retain(|&other| other != id);
            if ids.is_empty() {
                self.found.remove(&held);
            }
        }
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
