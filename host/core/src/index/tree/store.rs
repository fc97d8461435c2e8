//! How blocks are stored.
//!
//! Owns the walk along what there is already, and the blocks that are added where that ends. Tells
//! in [`Notes`] what the keeper of the slot must remember: copies, and names that only its engine
//! uses.

use super::Tree;
use super::place::{NO_RUN, Place, Reference, RunId};
use super::run::{Block, LONGEST, Run, common};
use crate::hashing::Scope;
use crate::index::holders::{Coverage, Holders, Slot};
use crate::index::tier::Tier;

/// A run that more slots hold is not made longer: each of them would have to be listed.
const MOST_OUTGROWN: usize = 8;

/// What a change did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::index) struct Placed {
    /// Blocks that the slot hadn't held.
    pub(in crate::index) new: usize,
    /// Blocks that it had.
    pub(in crate::index) again: usize,
    /// Blocks that there was no room for.
    pub(in crate::index) refused: usize,
    /// Where the last of them is that there was room for.
    pub(in crate::index) last: Option<Place>,
}

/// A stretch of blocks to be held by a slot.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Store<'a> {
    pub(in crate::index) slot: Slot,
    pub(in crate::index) tier: Tier,
    /// The block before; none at the root.
    pub(in crate::index) parent: Option<Place>,
    pub(in crate::index) scope: Scope,
    /// What the engine calls the blocks; as many as `sequences`.
    pub(in crate::index) engines: &'a [u64],
    pub(in crate::index) sequences: &'a [u64],
}

impl Store<'_> {
    fn after(self, count: usize) -> Self {
        Self {
            engines: self.engines.get(count..).unwrap_or(&[]),
            sequences: self.sequences.get(count..).unwrap_or(&[]),
            ..self
        }
    }

    pub(super) fn first(self, count: usize) -> Self {
        Self {
            engines: self.engines.get(..count).unwrap_or(self.engines),
            sequences: self.sequences.get(..count).unwrap_or(self.sequences),
            ..self
        }
    }

    pub(in crate::index) fn blocks(&self) -> impl Iterator<Item = Block> + use<'_> {
        let pairs = self.sequences.iter().zip(self.engines);
        pairs.map(|(&sequence, &engine)| Block { sequence, engine })
    }
}

/// A block's name with one engine alone: where it was, and what it must be.
#[derive(Clone, Copy, Debug)]
// Millions may be kept, each with a count beside it: no room is left between.
#[repr(C, packed(4))]
pub(in crate::index) struct Alias {
    place: Reference,
    sequence: u64,
}

impl Alias {
    pub(in crate::index) fn of(place: Place, sequence: u64) -> Self {
        Self { place: Reference::to(place), sequence }
    }

    /// Whether it is of the block with this sequence hash.
    pub(in crate::index) fn is_of(self, sequence: u64) -> bool {
        self.sequence == sequence
    }

    /// Where it leads now; none when that block is gone.
    pub(in crate::index) fn resolve(self, tree: &Tree) -> Option<Place> {
        let place = self.place.resolve(&tree.runs)?;
        self.is_of(tree.block(place)?.sequence).then_some(place)
    }

    /// The block's sequence hash.
    pub(in crate::index) fn sequence(self) -> u64 {
        self.sequence
    }
}

/// What the keeper of a slot must know of a store.
#[derive(Debug, Default)]
pub(in crate::index) struct Notes {
    /// Sequence hashes of blocks that the slot had already.
    pub(in crate::index) again: Vec<u64>,
    /// Blocks that are known by other names than this engine's, and its own for them.
    pub(in crate::index) named: Vec<(u64, Alias)>,
}

impl Notes {
    pub(in crate::index) fn clear(&mut self) {
        self.again.clear();
        self.named.clear();
    }
}

/// What follows a block, or the root.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// The wanted block, here.
    Block(Place),
    /// Another block, in the same run.
    Fork(Place),
    /// Nothing that is wanted.
    End,
}

impl Tree {
    /// Lets a slot hold blocks: `sequences` one after another behind `parent`, or from the root.
    pub(in crate::index) fn store(&mut self, store: Store<'_>, notes: &mut Notes) -> Placed {
        let mut placed = Placed::default();
        let mut behind = store.parent;
        let mut left = store;
        while let Some(&next) = left.sequences.first() {
            match self.next(behind, next) {
                Next::Block(place) => {
                    let same = self.common(place, left.sequences);
                    let end = self.hold(&left, place, same, &mut placed, notes);
                    self.compare_names(end, left.engines.get(..same).unwrap_or(&[]), notes);
                    behind = Some(end);
                    left = left.after(same);
                }
                Next::Fork(place) => {
                    self.split(place);
                }
                Next::End => {
                    let count = left.sequences.len();
                    let added;
                    (added, behind) = self.grow(behind, &left, notes);
                    placed.new += added;
                    placed.refused += count - added;
                    break;
                }
            }
        }
        Placed { last: behind, ..placed }
    }

    /// What follows a block, or the root.
    pub(super) fn next(&self, behind: Option<Place>, sequence: u64) -> Next {
        if let Some(Place { run, at }) = behind {
            let place = Place { run, at: at + 1 };
            if let Some(block) = self.block(place) {
                let same = block.sequence == sequence;
                return if same { Next::Block(place) } else { Next::Fork(place) };
            }
        }
        match self.heads.get(&sequence) {
            Some(&run) => Next::Block(Place { run, at: 0 }),
            None => Next::End,
        }
    }

    /// How many of the blocks from `place` to its run's end are as wanted.
    pub(super) fn common(&self, place: Place, wanted: &[u64]) -> usize {
        let blocks = self.run(place.run).and_then(|run| run.blocks.get(place.at..)).unwrap_or(&[]);
        common(blocks, wanted)
    }

    /// Lets a slot hold `count` blocks from `place` on, and returns the last of them.
    fn hold(
        &mut self,
        store: &Store<'_>,
        mut place: Place,
        count: usize,
        placed: &mut Placed,
        notes: &mut Notes,
    ) -> Place {
        let &Store { slot, tier, .. } = store;
        let mut depth = self.run(place.run).map_or(0, |run| run.depth(slot, tier));
        if depth < place.at {
            // It holds no prefix of this run: from here on, the run becomes another.
            let run = self.split(place);
            place = Place { run, at: 0 };
            depth = 0;
        }
        let end = place.at + count;
        let again = depth.min(end) - place.at;
        placed.again += again;
        placed.new += count - again;
        notes.again.extend(store.sequences.iter().take(again));
        if end > depth {
            let had_lower = self.run(place.run).is_some_and(|run| run.lower.is_some());
            if let Some(run) = self.runs.get_mut(place.run as usize) {
                let len = run.blocks.len();
                run.coverage_mut(tier).set_depth(slot, end, len);
                self.lower_runs += usize::from(!had_lower && run.lower.is_some());
            }
        }
        Place { run: place.run, at: end.saturating_sub(1) }
    }

    /// Takes note of blocks that are not known by what this engine calls them: the last of them is
    /// at `end`.
    fn compare_names(&self, end: Place, engines: &[u64], notes: &mut Notes) {
        let Some(run) = self.run(end.run) else { return };
        let first = (end.at + 1).saturating_sub(engines.len());
        let blocks = run.blocks.get(first..).unwrap_or(&[]);
        for (at, (block, &engine)) in blocks.iter().zip(engines).enumerate() {
            if block.engine != engine || run.has_unnamed {
                let place = Place { run: end.run, at: first + at };
                notes.named.push((engine, Alias::of(place, block.sequence)));
            }
        }
    }

    /// Adds blocks that there aren't, behind a run's last block or at the root. Returns how many
    /// there was room for, and where the last of those is.
    fn grow(
        &mut self,
        behind: Option<Place>,
        store: &Store<'_>,
        notes: &mut Notes,
    ) -> (usize, Option<Place>) {
        let mut left = store.first(self.room());
        let most = left.sequences.len();
        let mut parent = behind;
        if let Some(Place { run: id, .. }) = behind {
            let appended = self.append(id, &left, notes);
            if appended > 0 {
                let at = self.run(id).map_or(0, |run| run.blocks.len().saturating_sub(1));
                parent = Some(Place { run: id, at });
                left = left.after(appended);
            }
        }
        while !left.sequences.is_empty() {
            let part = left.first(LONGEST);
            let Some(id) = self.new_run(parent, &part, notes) else {
                return (most - left.sequences.len(), parent);
            };
            let count = part.sequences.len();
            parent = Some(Place { run: id, at: count - 1 });
            left = left.after(count);
        }
        (most, parent)
    }

    /// Adds blocks to the end of a run, if nothing follows it and only a few hold all of it, who
    /// hold its beginning then. Returns how many.
    pub(super) fn append(&mut self, id: RunId, store: &Store<'_>, notes: &mut Notes) -> usize {
        let Some(run) = self.runs.get_mut(id as usize) else { return 0 };
        let before = run.blocks.len();
        let count = store.sequences.len().min(LONGEST.saturating_sub(before));
        if count == 0 || run.children > 0 || run.full_holders() > MOST_OUTGROWN {
            return 0;
        }
        let depth = run.depth(store.slot, store.tier);
        if depth < before {
            // It holds what comes, and not what is before.
            return 0;
        }
        // A little at a time: what an engine writes comes block by block, and most stop soon.
        if run.blocks.capacity() < before + count {
            run.blocks.reserve_exact(count.max(8).min(LONGEST - before));
        }
        run.blocks.extend(store.blocks().take(count));
        run.end_with_last_block();
        run.outgrow(before);
        run.coverage_mut(store.tier).set_depth(store.slot, before + count, before + count);
        self.blocks += count;
        self.enter_names(id, before, notes);
        count
    }

    pub(super) fn new_run(
        &mut self,
        parent: Option<Place>,
        store: &Store<'_>,
        notes: &mut Notes,
    ) -> Option<RunId> {
        let blocks: Vec<Block> = store.blocks().collect();
        let (first, last) = (blocks.first()?.sequence, blocks.last()?.sequence);
        let count = blocks.len();
        let mut run = Run {
            blocks,
            last,
            has_unnamed: false,
            scope: store.scope,
            parent: parent.map_or(Reference::NONE, Reference::to),
            children: 0,
            continuation: NO_RUN,
            device: Coverage::default(),
            lower: None,
        };
        run.coverage_mut(store.tier).full = Holders::of(store.slot);
        let has_lower = run.lower.is_some();
        let id = self.put(run)?;
        self.blocks += count;
        self.lower_runs += usize::from(has_lower);
        self.heads.entry(first, id);
        if let Some(before) = parent.and_then(|parent| self.runs.get_mut(parent.run as usize)) {
            before.children += 1;
        }
        self.enter_names(id, 0, notes);
        Some(id)
    }

    /// Makes the blocks of a run from `from` on known by their engine's hashes. Where another block
    /// has that name already, it is noted as a name of this engine alone.
    fn enter_names(&mut self, id: RunId, from: usize, notes: &mut Notes) {
        let Self { runs, names, .. } = self;
        let Some(run) = runs.get(id as usize).filter(|_| self.is_named) else { return };
        let known = notes.named.len();
        names.approach(run.blocks.iter().skip(from).map(|block| block.engine));
        for (at, block) in run.blocks.iter().enumerate().skip(from) {
            let place = Place { run: id, at };
            if !names.enter(runs, block.engine, place) {
                notes.named.push((block.engine, Alias::of(place, block.sequence)));
            }
        }
        if notes.named.len() > known
            && let Some(run) = runs.get_mut(id as usize)
        {
            run.has_unnamed = true;
        }
    }
}
