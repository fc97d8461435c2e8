//! What a fleet of engines tells, in the order in which it comes.
//!
//! Owns the made-up traffic: conversations that begin with one of a few system prompts and go on
//! turn by turn, most on the worker that they were on before, in memories that are full. A prompt's
//! new blocks are told in steps of a chunk, what was evicted for them first; an answer's blocks one
//! by one; and all workers at once, so that neighbouring events are of different workers.

use std::collections::VecDeque;

use pointsman_core::clock::Chance;
use pointsman_core::hashing::sequence_hash;
use pointsman_trace::memory::{Allocation, Memory};
use pointsman_trace::requests::mix;

/// Blocks of one step: 2,048 tokens in blocks of 16.
const STEP: usize = 128;

const SYSTEM_PROMPTS: u64 = 64;

/// Of a conversation, after which it ends.
const MOST_BLOCKS: usize = 2_000;

/// Conversations that each worker has going.
const CONVERSATIONS: usize = 8;

/// A change of one engine's cache.
#[derive(Debug)]
pub enum Told {
    /// Blocks are there.
    Stored { worker: u64, parent: Option<u64>, names: Vec<u64>, blocks: Vec<u64> },
    /// Blocks are gone.
    Removed { worker: u64, names: Vec<u64> },
}

/// A prompt's chain of hashes, and how many events had been told when it came.
pub type Prompt = (usize, Vec<u64>);

/// A conversation: its blocks, and the hashes of its prefixes.
#[derive(Clone, Debug, Default)]
struct Conversation {
    blocks: Vec<u64>,
    chain: Vec<u64>,
}

impl Conversation {
    fn push(&mut self, block: u64) {
        self.chain.push(sequence_hash(self.chain.last().copied(), block));
        self.blocks.push(block);
    }
}

#[derive(Debug)]
struct Worker {
    memory: Memory,
    going: Vec<Conversation>,
    /// What it will tell next.
    steps: VecDeque<Told>,
    running: Option<Allocation>,
}

/// The fleet.
#[derive(Debug)]
pub struct Traffic {
    workers: Vec<Worker>,
    chance: Chance,
    fresh: u64,
    /// Prompts that came since they were last taken.
    pub prompts: Vec<Prompt>,
    told: usize,
}

impl Traffic {
    /// A fleet with empty memories of so many blocks each.
    #[must_use]
    pub fn new(workers: u64, blocks: u32, seed: u64) -> Self {
        let worker = |_| Worker {
            memory: Memory::new(blocks),
            going: vec![],
            steps: VecDeque::new(),
            running: None,
        };
        Self {
            workers: (0..workers).map(worker).collect(),
            chance: Chance::new(seed),
            fresh: 1 << 32,
            prompts: vec![],
            told: 0,
        }
    }

    /// What is told next.
    pub fn next(&mut self) -> Told {
        loop {
            let at = self.chance.below(self.workers.len());
            if let Some(told) = self.workers[at].steps.pop_front() {
                self.told += 1;
                return told;
            }
            self.serve(at);
        }
    }

    /// A worker gets its next prompt.
    fn serve(&mut self, at: usize) {
        let mut conversation = self.pick(at);
        for _ in 0..8 + self.chance.below(120) {
            conversation.push(self.fresh_block());
        }
        let prompt = conversation.chain.len();
        self.prompts.push((self.told, conversation.chain.clone()));
        for _ in 0..4 + self.chance.below(28) {
            conversation.push(self.fresh_block());
        }
        let worker = &mut self.workers[at];
        if let Some(before) = worker.running.take() {
            worker.memory.release(&before);
        }
        let Conversation { blocks, chain } = &conversation;
        let Some(mut allocation) = worker.memory.allocate(chain, prompt - 1, chain.len()) else {
            return;
        };
        let names = |hashes: &[u64]| hashes.iter().copied().map(name).collect::<Vec<_>>();
        let worker_id = at as u64;
        // Of what must go, each step takes as much as it needs itself.
        let mut evicted = VecDeque::from(std::mem::take(&mut allocation.evicted));
        let mut from = allocation.hits;
        while from < chain.len() {
            let step = if from < prompt { STEP.min(prompt - from) } else { 1 };
            let gone: Vec<u64> = evicted.drain(..step.min(evicted.len())).collect();
            if !gone.is_empty() {
                worker.steps.push_back(Told::Removed { worker: worker_id, names: names(&gone) });
            }
            worker.steps.push_back(Told::Stored {
                worker: worker_id,
                parent: from.checked_sub(1).map(|before| name(chain[before])),
                names: names(&chain[from..from + step]),
                blocks: blocks[from..from + step].to_vec(),
            });
            from += step;
        }
        worker.running = Some(allocation);
        worker.going.push(conversation);
    }

    /// A conversation to go on with: mostly one of the worker's own, sometimes another's.
    fn pick(&mut self, at: usize) -> Conversation {
        let moves = self.chance.below(10) == 0;
        let from = if moves { self.chance.below(self.workers.len()) } else { at };
        let going = &mut self.workers[from].going;
        if going.len() >= CONVERSATIONS {
            let which = self.chance.below(going.len());
            let conversation = going.swap_remove(which);
            if conversation.chain.len() < MOST_BLOCKS {
                return conversation;
            }
        }
        let mut conversation = Conversation::default();
        let system = self.chance.below(SYSTEM_PROMPTS as usize) as u64;
        for block in 0..32 + system {
            conversation.push(mix(system << 16 | block));
        }
        conversation
    }

    fn fresh_block(&mut self) -> u64 {
        self.fresh += 1;
        mix(self.fresh)
    }
}

/// What engines call a prefix.
fn name(sequence: u64) -> u64 {
    mix(!sequence)
}
