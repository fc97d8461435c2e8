//! The blocks of live prompts, each counted once on a row however many prompts share it there.
//!
//! Owns a compressed prefix trie over the sequence hashes of all live bookings of a partition. A run
//! is a stretch of hashes along which nobody begins to differ and nobody ends; it is a part of some
//! booking's own chain, nothing is copied. Each run knows which rows hold it, by how many bookings;
//! a row that holds a run holds all that comes before it. A booking goes down the runs of its prompt,
//! splits one where it must, and is known by its last run; a release goes up from there, and joins what no longer
//! needs to be apart. So there are never more than two runs for each live booking.
//!
//! It doesn't know what a block weighs, only who is alone with it.

mod holders;

use std::sync::Arc;

use hashbrown::HashMap;

use super::bookings::BookingId;
use holders::{Holders, Spare, Tally};

/// A run's place. It stays while the run does; what is split off in front of it gets a new one.
pub(super) type RunId = u32;

/// No run: before the first, or of a booking that shares nothing.
pub(super) const NO_RUN: RunId = RunId::MAX;

/// Room for so many runs isn't given back: they come again soon.
const MANY_RUNS: usize = 4_096;

#[derive(Debug)]
struct Run {
    /// A chain that goes through it; none for a free place.
    chain: Option<Arc<[u64]>>,
    /// Which of the chain's blocks are its own.
    from: u32,
    to: u32,
    /// The run before.
    parent: RunId,
    /// How many runs follow it, and their ids, each flipped in.
    children: u32,
    child_ids: RunId,
    /// Bookings whose prompt ends here.
    ends: u32,
    holders: Holders,
}

impl Run {
    fn hashes(&self) -> &[u64] {
        let chain = self.chain.as_deref().unwrap_or_default();
        chain.get(self.from as usize..self.to as usize).unwrap_or_default()
    }

    fn blocks(&self) -> u32 {
        self.to - self.from
    }

    /// The key that it is found by.
    fn name(&self) -> (RunId, u64) {
        (self.parent, self.hashes().first().copied().unwrap_or_default())
    }
}

/// What a booking was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Its last run.
    pub(super) leaf: RunId,
    /// Blocks that no booking of its row had.
    pub(super) fresh: u64,
}

/// The trie.
#[derive(Debug, Default)]
pub(super) struct ActiveBlocks {
    runs: Vec<Run>,
    free: Vec<RunId>,
    /// Runs by the one before and their first hash. Hashes of honest chains would do alone.
    names: HashMap<(RunId, u64), RunId>,
    spare: Spare,
    /// How many rows there are.
    rows: usize,
}

impl ActiveBlocks {
    /// A booking of a row holds the first `blocks` of a chain. Whoever was alone with some of them on
    /// that row is named to `joined`, with how many.
    pub(super) fn hold(
        &mut self,
        chain: &Arc<[u64]>,
        blocks: usize,
        row: u32,
        booking: BookingId,
        mut joined: impl FnMut(BookingId, u32),
    ) -> Held {
        let hashes = chain.get(..blocks).unwrap_or(chain);
        let (mut at, mut depth, mut known) = (NO_RUN, 0, 0);
        while let Some((id, common)) = self.step(at, hashes.get(depth..).unwrap_or_default()) {
            let id = self.split(id, common);
            let Self { runs, spare, rows, .. } = self;
            let Some(run) = runs.get_mut(id as usize) else { break };
            let before = run.holders.add(row, booking, *rows, spare);
            if before.bookings > 0 {
                known += u64::from(common);
            }
            if before.bookings == 1 {
                joined(before.ids, common);
            }
            (at, depth) = (id, depth + common as usize);
        }
        if depth < hashes.len() {
            at = self.grow(at, chain, depth as u32..hashes.len() as u32, row, booking);
        }
        if let Some(leaf) = self.runs.get_mut(at as usize) {
            leaf.ends += 1;
        }
        Held { leaf: at, fresh: hashes.len() as u64 - known }
    }

    /// A booking is over. Returns how many blocks its row holds no more; whoever is alone now with some is
    /// named to `left_alone`, with how many.
    pub(super) fn release(
        &mut self,
        leaf: RunId,
        row: u32,
        booking: BookingId,
        mut left_alone: impl FnMut(BookingId, u32),
    ) -> u64 {
        if let Some(run) = self.runs.get_mut(leaf as usize) {
            run.ends = run.ends.saturating_sub(1);
        }
        let (mut at, mut gone) = (leaf, 0);
        loop {
            let Self { runs, spare, rows, .. } = self;
            let Some(run) = runs.get_mut(at as usize).filter(|run| run.chain.is_some()) else {
                break;
            };
            let (parent, blocks) = (run.parent, run.blocks());
            match run.holders.remove(row, booking, *rows, spare) {
                Tally { bookings: 0, .. } => gone += u64::from(blocks),
                Tally { bookings: 1, ids } => left_alone(ids, blocks),
                Tally { .. } => {}
            }
            if run.holders.is_empty() {
                self.remove(at);
            } else if run.children == 1 && run.ends == 0 {
                self.join(at);
            }
            at = parent;
        }
        if self.free.len() == self.runs.len() && self.runs.len() >= MANY_RUNS {
            *self = Self { rows: self.rows, ..Self::default() };
        }
        gone
    }

    /// How many blocks a booking of a row is alone with, up from its last run.
    pub(super) fn alone(&self, leaf: RunId, row: u32) -> u64 {
        let mut blocks = 0;
        self.path(leaf, |_, run| {
            // Whoever shares a run shares all before it.
            let alone = run.holders.of(row).bookings == 1;
            blocks += if alone { u64::from(run.blocks()) } else { 0 };
        });
        blocks
    }

    /// How many of the leading blocks of a prompt are active on a row.
    pub(super) fn active(&self, hashes: &[u64], row: u32) -> u64 {
        let mut blocks = 0;
        self.walk(hashes, |run, common| {
            let holds = run.holders.of(row).bookings > 0;
            blocks += if holds { u64::from(common) } else { 0 };
        });
        blocks
    }

    /// Takes what is active of a prompt on each row off that row's value in `column`, which is of all
    /// rows, or of the given ones, ascending.
    pub(super) fn take_off(&self, hashes: &[u64], rows: Option<&[u32]>, column: &mut [f64]) {
        self.walk(hashes, |run, common| run.holders.take_off(f64::from(common), rows, column));
    }

    /// Gives every row its new number. Rows that have none must hold nothing any more; numbers keep their
    /// order.
    pub(super) fn renumber(&mut self, new: &[Option<u32>], rows: usize) {
        self.rows = rows;
        for run in &mut self.runs {
            run.holders.renumber(new, rows, &mut self.spare);
        }
    }

    /// Calls `each` with a booking's runs and their blocks, from its last one up.
    pub(super) fn runs_of(&self, leaf: RunId, mut each: impl FnMut(RunId, u32)) {
        self.path(leaf, |id, run| each(id, run.blocks()));
    }

    /// Calls `each` with every run's holders: run, row, bookings, their ids flipped together.
    pub(super) fn for_each_holder(&self, mut each: impl FnMut(RunId, u32, u32, BookingId)) {
        for (id, run) in (0..).zip(&self.runs) {
            run.holders.for_each(|h| each(id, h.row, h.tally.bookings, h.tally.ids));
        }
    }

    fn path(&self, leaf: RunId, mut each: impl FnMut(RunId, &Run)) {
        let mut at = leaf;
        while let Some(run) = self.runs.get(at as usize) {
            each(at, run);
            at = run.parent;
        }
    }

    /// Calls `each` with the runs that a prompt goes through, and how much of each.
    fn walk(&self, hashes: &[u64], mut each: impl FnMut(&Run, u32)) {
        let (mut at, mut rest) = (NO_RUN, hashes);
        while let Some((id, common)) = self.step(at, rest) {
            let Some(run) = self.runs.get(id as usize) else { return };
            each(run, common);
            if common < run.blocks() {
                return;
            }
            at = id;
            rest = rest.get(common as usize..).unwrap_or_default();
        }
    }

    /// The run that goes on from `at` with these hashes, and how many of its blocks are theirs.
    fn step(&self, at: RunId, hashes: &[u64]) -> Option<(RunId, u32)> {
        let id = *self.names.get(&(at, *hashes.first()?))?;
        Some((id, common(self.runs.get(id as usize)?.hashes(), hashes) as u32))
    }

    /// A further run with one holder.
    fn grow(
        &mut self,
        parent: RunId,
        chain: &Arc<[u64]>,
        blocks: std::ops::Range<u32>,
        row: u32,
        booking: BookingId,
    ) -> RunId {
        let mut holders = Holders::default();
        holders.add(row, booking, self.rows, &mut self.spare);
        let (from, to) = (blocks.start, blocks.end);
        let chain = Some(chain.clone());
        let run = Run { chain, from, to, parent, children: 0, child_ids: 0, ends: 0, holders };
        let name = run.name();
        let id = self.place(run);
        self.names.insert(name, id);
        self.adopt(parent, id, 1);
        id
    }

    /// Cuts a run behind its first `blocks`; these become a run of their own, which is returned.
    fn split(&mut self, id: RunId, blocks: u32) -> RunId {
        let Self { runs, spare, .. } = self;
        let Some(run) = runs.get_mut(id as usize).filter(|run| blocks < run.blocks()) else {
            return id;
        };
        let (name, from) = (run.name(), run.from);
        let front = Run {
            chain: run.chain.clone(),
            from,
            to: from + blocks,
            parent: run.parent,
            children: 1,
            child_ids: id,
            ends: 0,
            holders: run.holders.copy(spare),
        };
        let front_id = self.place(front);
        if let Some(run) = self.runs.get_mut(id as usize) {
            run.from = from + blocks;
            run.parent = front_id;
            let behind = run.name();
            self.names.insert(behind, id);
        }
        self.names.insert(name, front_id);
        self.replace_child(name.0, id, front_id);
        front_id
    }

    /// Makes one run of a run and the only one behind it, which has the same holders.
    fn join(&mut self, id: RunId) {
        let Some(run) = self.runs.get(id as usize) else { return };
        let (child_id, name, from) = (run.child_ids, run.name(), run.from);
        let Some(child) = self.runs.get_mut(child_id as usize) else { return };
        self.names.remove(&child.name());
        // Its chain goes through all before it too.
        child.from = from;
        child.parent = name.0;
        self.names.insert(name, child_id);
        self.replace_child(name.0, id, child_id);
        self.give_up(id);
    }

    /// Removes a run that nobody holds.
    fn remove(&mut self, id: RunId) {
        let Some(run) = self.runs.get(id as usize) else { return };
        let name = run.name();
        self.names.remove(&name);
        self.adopt(name.0, id, -1);
        self.give_up(id);
    }

    fn adopt(&mut self, parent: RunId, child: RunId, change: i32) {
        if let Some(run) = self.runs.get_mut(parent as usize) {
            run.children = run.children.saturating_add_signed(change);
            run.child_ids ^= child;
        }
    }

    fn replace_child(&mut self, parent: RunId, old: RunId, new: RunId) {
        if let Some(run) = self.runs.get_mut(parent as usize) {
            run.child_ids ^= old ^ new;
        }
    }

    fn place(&mut self, run: Run) -> RunId {
        if let Some(id) = self.free.pop()
            && let Some(place) = self.runs.get_mut(id as usize)
        {
            *place = run;
            return id;
        }
        self.runs.push(run);
        (self.runs.len() - 1) as RunId
    }

    fn give_up(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(id as usize) {
            run.chain = None;
            run.holders.clear(&mut self.spare);
            self.free.push(id);
        }
    }
}

/// How many leading hashes are the same. Most runs are the same as a whole, and long ones are compared
/// a few cache lines at a time.
fn common(one: &[u64], other: &[u64]) -> usize {
    const STRIDE: usize = 32;
    let strides = one.chunks_exact(STRIDE).zip(other.chunks_exact(STRIDE));
    let same = strides.take_while(|(one, other)| one == other).count() * STRIDE;
    let rest = one.iter().skip(same).zip(other.iter().skip(same));
    same + rest.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod check;
#[cfg(test)]
mod tests;
