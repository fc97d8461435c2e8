//! What ranks are thought to hold, because prompts were sent to them.
//!
//! Owns the approximate mode: decisions themselves feed an index, where an engine tells nothing of
//! its cache, or ahead of what it will tell. A prompt's blocks count from the decision on and are
//! forgotten
//!
//! - after a time without another prompt that begins with them ([`Keep::Time`]), or
//! - when the rank's memory would be full, as an engine evicts ([`Keep::Capacity`]): blocks of
//!   running requests stay, then those go that were released first, the deepest first. A rank whose
//!   capacity nobody knows forgets by time.
//!
//! It doesn't know what is really held; whoever reads both takes the larger number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::event::{CacheEvent, Content, Stored};
use super::lookup::Overlap;
use super::tier::Tier;
use super::{IndexStats, PrefixIndex};
use crate::fleet::Snapshot;
use crate::ids::WorkerRank;

/// Times are rounded up to so many milliseconds, so that what ends together is forgotten together.
const STEP_MS: u64 = 100;

/// How long predictions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// For a time since the last prompt that begins with them.
    Time {
        /// Milliseconds.
        ttl_ms: u64,
    },
    /// For as long as the rank's memory holds them; by time where its size isn't known.
    Capacity {
        /// Milliseconds, for ranks of unknown size.
        ttl_ms: u64,
    },
}

/// A prompt on a rank, whose blocks stay there while it runs: until this is dropped.
#[derive(Debug)]
pub struct RunningPrompt {
    predictions: Arc<Predictions>,
    running: Running,
}

impl Drop for RunningPrompt {
    fn drop(&mut self) {
        self.predictions.book.lock().release(&self.running);
    }
}

/// A prompt on a rank.
#[derive(Clone, Debug)]
struct Running {
    rank: WorkerRank,
    /// Which life of the rank's predictions.
    life: u64,
    chain: Arc<[u64]>,
}

/// Predictions for the ranks of one partition.
#[derive(Debug)]
pub struct Predictions {
    index: PrefixIndex,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    lives: u64,
    ranks: HashMap<WorkerRank, Memory>,
    /// What ends when, in steps of time: a rank, its life, a prompt.
    ends: BTreeMap<u64, Vec<Running>>,
}

/// One rank's memory as it is imagined.
#[derive(Debug)]
struct Memory {
    life: u64,
    blocks: HashMap<u64, Block>,
    /// Blocks of no running request: those released first, and of them the deepest, at the front.
    idle: BTreeSet<(u64, Reverse<u32>, u64)>,
    /// Counts releases.
    releases: u64,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// The step at which it is forgotten; for ranks that forget by time.
    end: u64,
    /// Running requests that have it.
    running: u32,
    /// The release that left it idle.
    released: u64,
    depth: u32,
}

impl Default for Predictions {
    fn default() -> Self {
        Self::new(super::DEFAULT_MOST_BLOCKS)
    }
}

impl Predictions {
    /// No predictions, of at most so many distinct blocks.
    #[must_use]
    pub fn new(most_blocks: usize) -> Self {
        Self { index: PrefixIndex::new(most_blocks), book: Mutex::default() }
    }

    /// A prompt goes to a rank, whose memory holds `capacity` blocks if that is known. Returns what
    /// is to be dropped at its end, if that matters.
    pub fn record(
        self: &Arc<Self>,
        keep: Keep,
        rank: WorkerRank,
        chain: &Arc<[u64]>,
        capacity: Option<u64>,
        now_ms: u64,
    ) -> Option<RunningPrompt> {
        let mut book = self.book.lock();
        book.expire(&self.index, now_ms);
        if chain.is_empty() {
            return None;
        }
        match (keep, capacity) {
            (Keep::Capacity { .. }, Some(capacity @ 1..)) => {
                let life = book.run(&self.index, rank, chain, capacity);
                let running = Running { rank, life, chain: chain.clone() };
                Some(RunningPrompt { predictions: self.clone(), running })
            }
            (Keep::Time { ttl_ms } | Keep::Capacity { ttl_ms }, _) => {
                book.remember(&self.index, rank, chain, now_ms.saturating_add(ttl_ms));
                None
            }
        }
    }

    /// Whether nothing is predicted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.book.lock().ranks.is_empty()
    }

    /// Forgets what has ended by now.
    pub fn expire(&self, now_ms: u64) {
        self.book.lock().expire(&self.index, now_ms);
    }

    /// Forgets all of a rank: it has left, or begun anew.
    pub fn remove_rank(&self, rank: WorkerRank) {
        self.book.lock().ranks.remove(&rank);
        self.index.remove_rank(rank);
        self.index.tidy();
    }

    /// See [`PrefixIndex::look_up`].
    pub fn look_up(&self, chain: &[u64], snapshot: &Snapshot, overlap: &mut Overlap) {
        self.index.look_up(chain, snapshot, overlap);
    }

    /// How many blocks of a prompt one rank is thought to hold.
    #[must_use]
    pub fn look_up_rank(&self, chain: &[u64], rank: WorkerRank) -> u64 {
        self.index.look_up_rank(chain, rank)[Tier::Device as usize]
    }

    /// What it holds.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        self.index.stats()
    }
}

impl Book {
    fn memory(&mut self, rank: WorkerRank) -> &mut Memory {
        let lives = &mut self.lives;
        self.ranks.entry(rank).or_insert_with(|| {
            *lives += 1;
            Memory { life: *lives, blocks: HashMap::new(), idle: BTreeSet::new(), releases: 0 }
        })
    }

    /// Keeps a prompt's blocks until `end_ms`.
    fn remember(&mut self, index: &PrefixIndex, rank: WorkerRank, chain: &Arc<[u64]>, end_ms: u64) {
        let end = end_ms.div_ceil(STEP_MS);
        let memory = self.memory(rank);
        let life = memory.life;
        store_missing(index, rank, chain, memory);
        for (depth, &block) in chain.iter().enumerate() {
            let entry = memory.blocks.entry(block);
            entry.and_modify(|block| block.end = block.end.max(end)).or_insert(Block {
                end,
                running: 0,
                released: 0,
                depth: depth as u32,
            });
        }
        self.ends.entry(end).or_default().push(Running { rank, life, chain: chain.clone() });
    }

    /// Keeps a prompt's blocks while it runs, and makes room for them.
    fn run(
        &mut self,
        index: &PrefixIndex,
        rank: WorkerRank,
        chain: &Arc<[u64]>,
        capacity: u64,
    ) -> u64 {
        let memory = self.memory(rank);
        store_missing(index, rank, chain, memory);
        for (depth, &hash) in chain.iter().enumerate() {
            let block = memory.blocks.entry(hash).or_insert(Block {
                end: u64::MAX,
                running: 0,
                released: 0,
                depth: depth as u32,
            });
            if block.running == 0 {
                memory.idle.remove(&(block.released, Reverse(block.depth), hash));
            }
            block.running = block.running.saturating_add(1);
        }
        let mut evicted = Vec::new();
        while memory.blocks.len() as u64 > capacity {
            let Some((.., hash)) = memory.idle.pop_first() else { break };
            memory.blocks.remove(&hash);
            evicted.push(hash);
        }
        let life = memory.life;
        forget(index, rank, &evicted);
        life
    }

    fn release(&mut self, running: &Running) {
        let Some(memory) = self.ranks.get_mut(&running.rank) else { return };
        if memory.life != running.life {
            return;
        }
        memory.releases += 1;
        for &hash in running.chain.iter() {
            let Some(block) = memory.blocks.get_mut(&hash) else { continue };
            block.running = block.running.saturating_sub(1);
            if block.running == 0 {
                block.released = memory.releases;
                memory.idle.insert((block.released, Reverse(block.depth), hash));
            }
        }
    }

    fn expire(&mut self, index: &PrefixIndex, now_ms: u64) {
        while let Some(entry) = self.ends.first_entry() {
            let end = *entry.key();
            if end.saturating_mul(STEP_MS) > now_ms {
                return;
            }
            for Running { rank, life, chain } in entry.remove() {
                let Some(memory) = self.ranks.get_mut(&rank).filter(|m| m.life == life) else {
                    continue;
                };
                let over = |block: &Block| block.end <= end;
                let gone: Vec<u64> = chain
                    .iter()
                    .copied()
                    .filter(|hash| memory.blocks.get(hash).is_some_and(over))
                    .collect();
                for hash in &gone {
                    memory.blocks.remove(hash);
                }
                if memory.blocks.is_empty() {
                    self.ranks.remove(&rank);
                }
                forget(index, rank, &gone);
            }
        }
    }
}

/// Stores those of a prompt's blocks that the rank isn't thought to hold. What it holds is whole
/// from the beginning, since a block is never forgotten before the deeper ones: so that is the end.
fn store_missing(index: &PrefixIndex, rank: WorkerRank, chain: &[u64], memory: &Memory) {
    let first = chain.iter().position(|hash| !memory.blocks.contains_key(hash));
    let Some((known, missing)) = first.and_then(|first| chain.split_at_checked(first)) else {
        return;
    };
    let stored = Stored {
        parent: known.last().copied(),
        engines: missing,
        content: Content::Sequences(missing),
        tier: Tier::Device,
    };
    index.apply(rank, CacheEvent::Stored(stored));
}

fn forget(index: &PrefixIndex, rank: WorkerRank, blocks: &[u64]) {
    if !blocks.is_empty() {
        index.apply(rank, CacheEvent::Removed { engines: blocks, tier: Tier::Device });
    }
}

#[cfg(test)]
mod tests;
