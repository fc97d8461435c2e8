//! Which rank is thought to hold what, and until when.
//!
//! Owns the ranks' imagined memories and the times at which something ends, and keeps the index in
//! step with them. It asks no clock: time comes with each prompt, and now and then.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::memory::{Memory, Way};
use crate::ids::WorkerRank;
use crate::index::event::{CacheEvent, Content, Stored};
use crate::index::{PrefixIndex, Tier};

/// Times are rounded up to so many milliseconds, so that what ends together is forgotten together.
const STEP_MS: u64 = 100;

/// A prompt that runs on a rank.
#[derive(Clone, Debug)]
pub(super) struct Running {
    rank: WorkerRank,
    /// Which life of the rank's predictions.
    life: u64,
    chain: Arc<[u64]>,
    /// How many of its blocks are in the rank's memory.
    blocks: usize,
}

/// The last block of a prompt, which ends.
#[derive(Clone, Copy, Debug)]
struct Ending {
    rank: WorkerRank,
    life: u64,
    last: u64,
}

/// The book.
#[derive(Debug)]
pub(super) struct Book {
    lives: u64,
    ranks: HashMap<WorkerRank, Memory>,
    /// What ends when, in steps of time: for each block at most one.
    ends: BTreeMap<u64, Vec<Ending>>,
    /// Blocks in all memories.
    blocks: usize,
    most_blocks: usize,
}

impl Book {
    pub(super) fn new(most_blocks: usize) -> Self {
        Self { lives: 0, ranks: HashMap::new(), ends: BTreeMap::new(), blocks: 0, most_blocks }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Keeps a prompt's blocks until `end_ms`.
    pub(super) fn remember(
        &mut self,
        index: &PrefixIndex,
        rank: WorkerRank,
        chain: &[u64],
        end_ms: u64,
    ) {
        let end = end_ms.div_ceil(STEP_MS);
        if self.ranks.get(&rank).is_some_and(|memory| memory.way != Way::Time) {
            self.end_by_time(rank, end);
        }
        let chain = self.take_in(index, rank, chain, Way::Time);
        let (Some(memory), Some(&last)) = (self.ranks.get_mut(&rank), chain.last()) else { return };
        let life = memory.life;
        if memory.renew(chain, end) {
            self.ends.entry(end).or_default().push(Ending { rank, life, last });
        }
    }

    /// Keeps a prompt's blocks while it runs, and makes room for them.
    pub(super) fn run(
        &mut self,
        index: &PrefixIndex,
        rank: WorkerRank,
        chain: &Arc<[u64]>,
        capacity: u64,
    ) -> Option<Running> {
        let lives = &mut self.lives;
        if let Some(memory) = self.ranks.get_mut(&rank)
            && memory.way != Way::Capacity
        {
            *lives += 1;
            memory.by_capacity(*lives);
        }
        let taken = self.take_in(index, rank, chain, Way::Capacity);
        let memory = self.ranks.get_mut(&rank)?;
        memory.occupy(taken);
        let evicted = memory.evict(capacity);
        let running =
            Running { rank, life: memory.life, chain: chain.clone(), blocks: taken.len() };
        self.blocks -= evicted.len();
        forget(index, rank, &evicted);
        Some(running)
    }

    pub(super) fn release(&mut self, running: &Running) {
        let memory = self.ranks.get_mut(&running.rank).filter(|m| m.life == running.life);
        if let Some(memory) = memory {
            memory.release(running.chain.get(..running.blocks).unwrap_or(&[]));
        }
    }

    pub(super) fn expire(&mut self, index: &PrefixIndex, now_ms: u64) {
        while let Some(entry) = self.ends.first_entry() {
            let step = *entry.key();
            if step.saturating_mul(STEP_MS) > now_ms {
                return;
            }
            for ending in entry.remove() {
                let Ending { rank, life, last } = ending;
                let Some(memory) = self.ranks.get_mut(&rank).filter(|m| m.life == life) else {
                    continue;
                };
                let mut gone = Vec::new();
                if let Some(later) = memory.end(last, step, &mut gone) {
                    self.ends.entry(later).or_default().push(ending);
                    continue;
                }
                if memory.len() == 0 {
                    self.ranks.remove(&rank);
                }
                self.blocks -= gone.len();
                forget(index, rank, &gone);
            }
        }
    }

    /// Lets all that is kept by capacity end with `end_ms`.
    pub(super) fn keep_by_time(&mut self, end_ms: u64) {
        let by_capacity = self.ranks.iter().filter(|(_, memory)| memory.way == Way::Capacity);
        let ranks: Vec<WorkerRank> = by_capacity.map(|(&rank, _)| rank).collect();
        for rank in ranks {
            self.end_by_time(rank, end_ms.div_ceil(STEP_MS));
        }
    }

    /// Takes a rank out. The index is to forget it too.
    pub(super) fn remove_rank(&mut self, rank: WorkerRank) {
        if let Some(memory) = self.ranks.remove(&rank) {
            self.blocks -= memory.len();
        }
    }

    /// Takes ranks out. The index is to forget them too.
    pub(super) fn remove_ranks(&mut self, which: impl Fn(WorkerRank) -> bool) {
        for (_, memory) in self.ranks.extract_if(|&rank, _| which(rank)) {
            self.blocks -= memory.len();
        }
    }

    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        let ends: usize =
            self.ends.values().map(|ends| ends.capacity() * size_of::<Ending>()).sum();
        self.ranks.values().map(Memory::bytes).sum::<usize>() + ends
    }

    fn end_by_time(&mut self, rank: WorkerRank, end: u64) {
        let Some(memory) = self.ranks.get_mut(&rank) else { return };
        self.lives += 1;
        let life = self.lives;
        let last = memory.by_time(life, end).into_iter();
        let endings = last.map(|last| Ending { rank, life, last });
        self.ends.entry(end).or_default().extend(endings);
    }

    /// Lets a rank hold a prompt's blocks, as many as there is room for, and returns those.
    fn take_in<'c>(
        &mut self,
        index: &PrefixIndex,
        rank: WorkerRank,
        chain: &'c [u64],
        way: Way,
    ) -> &'c [u64] {
        let room = self.most_blocks.saturating_sub(self.blocks);
        if chain.is_empty() || room == 0 && !self.ranks.contains_key(&rank) {
            return &[];
        }
        let lives = &mut self.lives;
        let memory = self.ranks.entry(rank).or_insert_with(|| {
            *lives += 1;
            Memory::new(*lives, way)
        });
        let known = memory.known(chain);
        let end = memory.extend(chain, known, room);
        let (before, missing) = chain.get(..end).unwrap_or(chain).split_at(known.min(end));
        let mut stored = 0;
        if !missing.is_empty() {
            let event = Stored {
                parent: before.last().copied(),
                engines: missing,
                content: Content::Sequences(missing),
                tier: Tier::Device,
            };
            let applied = index.apply(rank, CacheEvent::Stored(event));
            stored = (applied.stored + applied.stored_again).min(missing.len());
            memory.give_up(missing.get(stored..).unwrap_or(&[]));
        }
        self.blocks += stored;
        if memory.len() == 0 {
            self.ranks.remove(&rank);
        }
        chain.get(..known + stored).unwrap_or(&[])
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let ends = self.ends.values().map(Vec::len).sum();
        (self.ranks.len(), self.ranks.values().map(Memory::len).sum(), ends)
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.blocks, self.counts().1);
    }
}

fn forget(index: &PrefixIndex, rank: WorkerRank, blocks: &[u64]) {
    if !blocks.is_empty() {
        index.apply(rank, CacheEvent::Removed { engines: blocks, tier: Tier::Device });
    }
}
