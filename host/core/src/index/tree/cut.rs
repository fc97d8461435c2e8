//! How runs are cut in two, cut short and freed.
//!
//! Owns what becomes of blocks that a slot holds no longer: a run is cut where its holding ends in
//! the middle, and the blocks at a run's end that nobody holds and nothing follows go. One that goes
//! may be the last reason for a million before it: what is freed at once is limited.

use super::Tree;
use super::place::{NO_RUN, Place, Reference, RunId};
use crate::index::holders::{Coverage, Slot, SlotSet};
use crate::index::tier::Tier;

impl Tree {
    /// Takes the blocks from `from` to place `to` of the same run from a slot, and returns how many
    /// it held of them. What it holds beyond goes on.
    pub(in crate::index) fn drop_blocks(
        &mut self,
        slot: Slot,
        tier: Tier,
        from: Place,
        to: usize,
    ) -> usize {
        let depth = self.run(from.run).map_or(0, |run| run.depth(slot, tier));
        if from.at >= depth {
            return 0;
        }
        if to < depth {
            self.split(Place { run: from.run, at: to });
        }
        if let Some(run) = self.runs.get_mut(from.run as usize) {
            let len = run.blocks.len();
            run.coverage_mut(tier).set_depth(slot, from.at, len);
        }
        self.shrink(from.run);
        to.min(depth) - from.at
    }

    /// Takes slots out of a run altogether.
    pub(in crate::index) fn forget(&mut self, id: RunId, slots: &SlotSet) {
        let Some(run) = self.runs.get_mut(id as usize) else { return };
        if !run.blocks.is_empty() {
            run.forget(slots);
            self.shrink(id);
        }
    }

    /// Lets so many blocks be freed from now on, or a run's more; what else nobody holds stays until
    /// [`Tree::free_loose`].
    pub(in crate::index) fn allow_to_free(&mut self, blocks: usize) {
        self.may_free = blocks;
    }

    pub(in crate::index) fn may_free(&self) -> bool {
        self.may_free > 0
    }

    /// Whether there are blocks that are known only because there was no time to free them.
    pub(in crate::index) fn has_loose(&self) -> bool {
        !self.loose.is_empty()
    }

    /// Frees what had to stay, as far as is allowed, in so many places at most.
    pub(in crate::index) fn free_loose(&mut self, places: usize) {
        for _ in 0..places {
            if !self.may_free() {
                return;
            }
            let Some(id) = self.loose.pop() else { return };
            self.shrink(id);
        }
    }

    /// Cuts a run in two before a block that isn't its first, and returns the new second part.
    pub(super) fn split(&mut self, place: Place) -> RunId {
        let Place { run: id, at } = place;
        let Some(run) = self.runs.get_mut(id as usize) else { return id };
        if at == 0 || at >= run.blocks.len() {
            return id;
        }
        let tail = run.split_off(id, at);
        let first = tail.blocks.first().map_or(0, |block| block.sequence);
        let has_lower = tail.lower.is_some();
        let Some(new) = self.put(tail) else {
            // Never so many runs: each has at least a block, and blocks are limited far below.
            return id;
        };
        self.lower_runs += usize::from(has_lower);
        if let Some(run) = self.runs.get_mut(id as usize) {
            run.continuation = new;
        }
        self.heads.entry(first, new);
        if let Some(split_off) = &mut self.split_off {
            split_off.push(new);
        }
        new
    }

    /// Takes from a run that nothing follows the blocks that nobody holds, and the run itself if
    /// none is left; then the same for the run before, as long as that is allowed.
    fn shrink(&mut self, id: RunId) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let Some(run) = self.runs.get(id as usize) else { return };
            let (len, deepest) = (run.blocks.len(), run.deepest());
            if len == 0 || run.children > 0 || deepest == len {
                return;
            }
            if self.may_free == 0 {
                // It may be another by then, which does no harm.
                self.loose.push(id);
                return;
            }
            self.may_free = self.may_free.saturating_sub(len - deepest);
            if self.is_named {
                self.names.approach(run.blocks.iter().skip(deepest).map(|block| block.engine));
                for at in deepest..len {
                    self.remove_name(Place { run: id, at });
                }
            }
            self.blocks -= len - deepest;
            let Some(run) = self.runs.get_mut(id as usize) else { return };
            if deepest > 0 {
                run.shorten(deepest);
                return;
            }
            next = self.release(id);
        }
    }

    /// Frees a run that nobody holds and nothing follows. Returns the run before, if nothing
    /// follows that now either.
    fn release(&mut self, id: RunId) -> Option<RunId> {
        let run = self.runs.get_mut(id as usize)?;
        let first = run.blocks.first().map(|block| block.sequence);
        let parent = std::mem::replace(&mut run.parent, Reference::NONE);
        run.blocks = Vec::new();
        run.device = Coverage::default();
        run.continuation = NO_RUN;
        self.lower_runs -= usize::from(run.lower.take().is_some());
        self.free.push(id);
        // Another run's, where the hashes are no chain's.
        if let Some(first) = first.filter(|first| self.heads.get(first) == Some(&id)) {
            self.heads.remove(&first);
        }
        let before = parent.resolve(&self.runs)?.run;
        let run = self.runs.get_mut(before as usize)?;
        run.children = run.children.saturating_sub(1);
        if run.continuation == id {
            run.continuation = NO_RUN;
        }
        (run.children == 0).then_some(before)
    }

    fn remove_name(&mut self, place: Place) {
        if let Some(block) = self.block(place) {
            self.names.remove(&self.runs, block.engine, place);
        }
    }
}
