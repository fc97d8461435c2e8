//! Which rank is thought to hold what, and until when.
//!
//! Owns the ranks' imagined memories and the times at which something ends, and keeps the index in
//! step with them. It asks no clock: time comes with each prompt, and now and then.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;

use super::memory::{Gone, Known, Memory, NodeRef, Way, Written};
use crate::ids::WorkerRank;
use crate::index::PrefixIndex;
use crate::index::tree::Stretch;

/// Times are rounded up to so many milliseconds, so that what ends together is forgotten together.
const STEP_MS: u64 = 100;

/// Blocks that are taken in, closed, forgotten or looked at before others have their turn.
pub(super) const STEP: usize = 1_024;

/// A prompt that is open on a rank.
#[derive(Clone, Debug)]
pub(super) struct Open {
    rank: WorkerRank,
    /// Which life of the rank's predictions.
    life: u64,
    chain: Arc<[u64]>,
    /// How many of its blocks are to be taken in.
    most: usize,
    /// Those that are in the rank's memory, and open.
    taken: Known,
    until: Until,
}

/// What ends a prompt's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Time.
    Ms(u64),
    /// The rank's capacity, in blocks.
    Full(u64),
}

impl Open {
    pub(super) fn until(&self) -> Until {
        self.until
    }

    /// Whether any of its blocks is open.
    pub(super) fn is_open(&self) -> bool {
        self.taken.blocks > 0
    }
}

/// A prompt's last node, which ends.
#[derive(Clone, Copy, Debug)]
struct Ending {
    rank: WorkerRank,
    life: u64,
    last: NodeRef,
}

/// The book.
#[derive(Debug)]
pub(super) struct Book {
    lives: u64,
    ranks: HashMap<WorkerRank, Memory>,
    /// What ends when, in steps of time: for each node at most one.
    ends: BTreeMap<u64, Vec<Ending>>,
    /// Blocks in all memories.
    blocks: usize,
    most_blocks: usize,
    /// Ranks that are to forget by something else, and whose blocks don't all know yet.
    turning: VecDeque<WorkerRank>,
    /// Blocks that are dealt with before others have their turn.
    step: usize,
    /// What ends by this step is forgotten, or about to be.
    passed: u64,
    /// A buffer.
    stretches: Vec<Stretch>,
}

impl Book {
    pub(super) fn new(most_blocks: usize, step: usize) -> Self {
        Self {
            lives: 0,
            ranks: HashMap::new(),
            ends: BTreeMap::new(),
            blocks: 0,
            most_blocks,
            turning: VecDeque::new(),
            step,
            passed: 0,
            stretches: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Opens a prompt of which at most so many blocks are to be taken in. None if there is no room for
    /// any.
    pub(super) fn begin(
        &mut self,
        rank: WorkerRank,
        chain: &Arc<[u64]>,
        most: usize,
        until: Until,
    ) -> Option<Open> {
        let way = match until {
            Until::Ms(_) => Way::Time,
            Until::Full(_) => Way::Capacity,
        };
        match (self.ranks.get_mut(&rank), until) {
            (None, _) if self.blocks >= self.most_blocks => return None,
            (Some(memory), _) if memory.way != way => {
                self.lives += 1;
                // Who is turning already has his place.
                self.turning.extend((!memory.is_turning()).then_some(rank));
                match until {
                    Until::Ms(end_ms) => memory.by_time(self.lives, end_ms.div_ceil(STEP_MS)),
                    Until::Full(_) => memory.by_capacity(self.lives),
                }
                self.turn_some(self.step);
            }
            _ => {}
        }
        let lives = &mut self.lives;
        let memory = self.ranks.entry(rank).or_insert_with(|| {
            *lives += 1;
            Memory::new(*lives, way)
        });
        let (life, chain) = (memory.life, chain.clone());
        Some(Open {
            rank,
            life,
            most: most.min(chain.len()),
            chain,
            taken: Known::default(),
            until,
        })
    }

    /// Takes in some of a prompt's blocks, as many as there is room for, and makes room. Returns
    /// whether there are more.
    pub(super) fn take_in(&mut self, index: &PrefixIndex, open: &mut Open) -> bool {
        let room = self.most_blocks.saturating_sub(self.blocks);
        let memory = self.ranks.get_mut(&open.rank).filter(|memory| memory.life == open.life);
        let Some(memory) = memory else { return false };
        let to = open.most.min(open.taken.blocks + self.step);
        let chain = open.chain.get(..to).unwrap_or(&[]);
        let known = memory.follow(chain, open.taken);
        memory.open(open.taken, known);
        let (mut end, mut missing) = (known, chain.get(known.blocks..).unwrap_or(&[]));
        missing = missing.get(..room).unwrap_or(missing);
        if !missing.is_empty() {
            let (behind, stretches) = (memory.place(known), &mut self.stretches);
            stretches.clear();
            index.hold(open.rank, behind, known.blocks, missing, stretches);
            for stretch in stretches.iter() {
                let (blocks, rest) = missing.split_at(stretch.len.min(missing.len()));
                end = memory.add(end, blocks, stretch.first);
                missing = rest;
            }
        }
        self.blocks += end.blocks - known.blocks;
        memory.open(known, end);
        open.taken = end;
        if let Until::Full(capacity) = open.until {
            // More than came, in case that it holds too many.
            let mut gone = Gone::default();
            memory.evict(capacity, 2 * self.step, &mut gone);
            self.blocks -= gone.blocks;
            forget(index, open.rank, &gone);
        }
        if memory.len() == 0 {
            self.ranks.remove(&open.rank);
        }
        end.blocks == to && to < open.most
    }

    /// Closes a prompt: it was taken, or else refused. Returns whether there is more of one that was
    /// refused.
    pub(super) fn close(&mut self, index: &PrefixIndex, open: &mut Open, taken: bool) -> bool {
        let (rank, life) = (open.rank, open.life);
        let memory = self.ranks.get_mut(&rank).filter(|memory| memory.life == life);
        let (Some(memory), Some(last)) = (memory, open.taken.last) else {
            open.taken = Known::default();
            return false;
        };
        open.most = 0;
        let (mut gone, limits) = (Gone::default(), (self.passed, self.step));
        let (written, left) = if taken {
            let mark = match open.until {
                Until::Ms(end_ms) => end_ms.div_ceil(STEP_MS),
                Until::Full(_) => memory.next_release(),
            };
            (memory.taken(last, mark, limits, &mut gone), None)
        } else {
            memory.refused(last, limits, &mut gone)
        };
        let blocks = open.taken.blocks.saturating_sub(gone.blocks);
        open.taken = left.map_or_else(Known::default, |last| Known { blocks, last: Some(last) });
        if memory.len() == 0 {
            self.ranks.remove(&rank);
        }
        self.blocks -= gone.blocks;
        self.write_down(rank, life, written);
        forget(index, rank, &gone);
        left.is_some()
    }

    fn write_down(
        &mut self,
        rank: WorkerRank,
        life: u64,
        written: impl IntoIterator<Item = Written>,
    ) {
        for (last, when) in written {
            self.ends.entry(when).or_default().push(Ending { rank, life, last });
        }
    }

    /// Forgets some of what has ended by now. Returns whether there is more.
    pub(super) fn expire(&mut self, index: &PrefixIndex, now_ms: u64) -> bool {
        let mut left = self.turn_some(self.step);
        if left == 0 {
            return true;
        }
        while let Some(mut entry) = self.ends.first_entry() {
            let step = *entry.key();
            if step.saturating_mul(STEP_MS) > now_ms {
                return false;
            }
            if left == 0 {
                return true;
            }
            self.passed = self.passed.max(step);
            let Some(ending) = entry.get_mut().pop() else {
                entry.remove();
                continue;
            };
            left -= 1;
            let Ending { rank, life, last } = ending;
            let memory = self.ranks.get_mut(&rank).filter(|memory| memory.life == life);
            let Some(memory) = memory else { continue };
            let mut gone = Gone::default();
            let written = memory.end(last, step, left, &mut gone);
            if memory.len() == 0 {
                self.ranks.remove(&rank);
            }
            left -= gone.blocks;
            self.blocks -= gone.blocks;
            self.write_down(rank, life, written);
            forget(index, rank, &gone);
        }
        false
    }

    /// Lets all that is kept by capacity end with `end_ms`.
    pub(super) fn keep_by_time(&mut self, end_ms: u64) {
        let by_capacity = self.ranks.iter_mut().filter(|(_, memory)| memory.way == Way::Capacity);
        for (&rank, memory) in by_capacity {
            self.lives += 1;
            self.turning.extend((!memory.is_turning()).then_some(rank));
            memory.by_time(self.lives, end_ms.div_ceil(STEP_MS));
        }
    }

    /// Lets blocks know that their rank forgets by something else now, about `left` of them. Returns how
    /// many others may be dealt with beside them: none if there are more.
    fn turn_some(&mut self, mut left: usize) -> usize {
        while let Some(&rank) = self.turning.front().filter(|_| left > 0) {
            let mut ends = Vec::new();
            let memory = self.ranks.get_mut(&rank);
            let (life, looked, more) = memory.map_or((0, 0, false), |memory| {
                let (looked, more) = memory.turn_some(left, &mut ends);
                (memory.life, looked, more)
            });
            left = left.saturating_sub(looked);
            self.write_down(rank, life, ends);
            if !more {
                self.turning.pop_front();
            }
        }
        left
    }

    /// Takes a rank out. The index is to forget it too. What is returned takes a while to give up.
    pub(super) fn remove_rank(&mut self, rank: WorkerRank) -> Option<Memory> {
        let memory = self.ranks.remove(&rank)?;
        self.blocks -= memory.len();
        Some(memory)
    }

    /// Takes ranks out. The index is to forget them too.
    pub(super) fn remove_ranks(&mut self, which: impl Fn(WorkerRank) -> bool) -> Vec<Memory> {
        let removed: Vec<Memory> =
            self.ranks.extract_if(|&rank, _| which(rank)).map(|(_, memory)| memory).collect();
        self.blocks -= removed.iter().map(Memory::len).sum::<usize>();
        removed
    }

    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        let ends: usize =
            self.ends.values().map(|ends| ends.capacity() * size_of::<Ending>()).sum();
        self.ranks.values().map(Memory::bytes).sum::<usize>() + ends
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let ends = self.ends.values().map(Vec::len).sum();
        (self.ranks.len(), self.ranks.values().map(Memory::len).sum(), ends)
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.blocks, self.counts().1);
        self.ranks.values().for_each(Memory::check);
    }

    /// Blocks that don't know yet by what they are to be forgotten.
    #[cfg(test)]
    pub(super) fn behind(&self) -> usize {
        self.ranks.values().map(Memory::behind).sum()
    }
}

fn forget(index: &PrefixIndex, rank: WorkerRank, gone: &Gone) {
    if gone.blocks > 0 {
        index.let_go(rank, &gone.stretches);
    }
}
