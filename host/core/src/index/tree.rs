//! The tree of runs: which blocks there are, in which order, and who holds them.
//!
//! Owns the runs, and the ways to find one: by the sequence hash of its first block (to go on from
//! the run before), and by an engine's hash of any block (for parents and removals). It doesn't
//! know ranks, tokens, or events that can't be applied yet.
//!
//! A *run* is a stretch of at most [`LONGEST`] blocks that follow one another without a fork. Since
//! a sequence hash names all that came before, one comparison with a run's last block tells whether
//! a prompt goes through all of it. Runs are split where prompts fork and where somebody holds a
//! part that is no prefix of the run; they are never joined.
//!
//! References to blocks are a run's number and a place in it, in 32 bits. A split leaves them as
//! they are: what was cut off is found by following the run's continuation.

use hashbrown::hash_table::Entry;
use hashbrown::{HashMap, HashTable};

use super::holders::{Coverage, Holders, Slot};
use super::tier::Tier;
use crate::hashing::Scope;

/// The most blocks of one run.
pub(super) const LONGEST: usize = 64;

/// Bits of a reference that tell the place in the run.
const PLACE_BITS: u32 = LONGEST.trailing_zeros();

/// The most runs that references can tell apart.
const MOST_RUNS: usize = 1 << (32 - PLACE_BITS);

/// A run that more slots hold is not made longer: each of them would have to be listed.
const MOST_OUTGROWN: usize = 8;

/// Tables that the engines' hashes are spread over, so that none takes long to grow.
const SHARDS: usize = 256;

/// Names that a table has room for when it gets its first.
const ROOM_AT_FIRST: usize = 28;

/// A run's number.
pub(super) type RunId = u32;

/// No run.
const NO_RUN: RunId = RunId::MAX;

/// A block: how we name it with all before it, and how the engine that told us first does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) sequence: u64,
    pub(super) engine: u64,
}

/// A block's place: a run, and which of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) run: RunId,
    pub(super) at: usize,
}

/// A place as it was, in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference(u32);

impl Reference {
    const NONE: Self = Self(u32::MAX);

    pub(super) fn to(place: Place) -> Self {
        Self(place.run << PLACE_BITS | place.at as u32)
    }
}

/// A block's name in the tables: enough of the engine's hash to tell it from most others without a
/// look at the block.
#[derive(Clone, Copy, Debug)]
struct Name {
    tag: Tag,
    block: Reference,
}

/// Half of an engine's hash, spread: those may be anything, small numbers too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag(u32);

impl Tag {
    fn of(engine: u64) -> Self {
        let spread = engine.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((spread >> 32) as u32 ^ spread as u32)
    }

    /// Which table.
    fn shard(self) -> usize {
        self.0 as usize % SHARDS
    }

    /// The hash that the table goes by: other bits than those that chose it.
    fn hash(self) -> u64 {
        u64::from(self.0).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_right(32)
    }
}

/// A stretch of blocks.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) blocks: Vec<Block>,
    /// The last block's sequence hash, here so that most look-ups needn't read the blocks.
    pub(super) last: u64,
    /// What its blocks' hashes were seeded with.
    scope: Scope,
    /// The block before its first; none at the root.
    parent: Reference,
    /// How many runs follow its last block.
    children: u32,
    /// What was cut off its end, which is one of its children.
    continuation: RunId,
    pub(super) device: Coverage,
    /// Host, disk, external: of the few runs that such a tier holds.
    pub(super) lower: Option<Box<[Coverage; Tier::COUNT - 1]>>,
}

impl Run {
    pub(super) fn coverage(&self, tier: Tier) -> Option<&Coverage> {
        match tier.lower() {
            None => Some(&self.device),
            Some(at) => self.lower.as_ref().and_then(|lower| lower.get(at)),
        }
    }

    fn coverage_mut(&mut self, tier: Tier) -> &mut Coverage {
        match tier.lower() {
            None => &mut self.device,
            Some(at) => &mut self.lower.get_or_insert_default()[at],
        }
    }

    fn coverages_mut(&mut self) -> impl Iterator<Item = &mut Coverage> {
        std::iter::once(&mut self.device).chain(self.lower.iter_mut().flat_map(|l| l.iter_mut()))
    }

    pub(super) fn depth(&self, slot: Slot, tier: Tier) -> usize {
        self.coverage(tier).map_or(0, |coverage| coverage.depth(slot, self.blocks.len()))
    }

    fn deepest(&self) -> usize {
        let len = self.blocks.len();
        let lower = self.lower.iter().flat_map(|lower| lower.iter());
        std::iter::once(&self.device).chain(lower).map(|c| c.deepest(len)).max().unwrap_or(0)
    }

    /// Takes note that the run grew from `len` blocks: those that held all of it hold its beginning.
    fn outgrow(&mut self, len: usize) {
        for coverage in self.coverages_mut() {
            coverage.outgrow(len);
        }
    }

    /// How many slots hold all of it, counted for each tier.
    fn full_holders(&self) -> usize {
        let lower = self.lower.iter().flat_map(|lower| lower.iter());
        std::iter::once(&self.device).chain(lower).map(|coverage| coverage.full.len()).sum()
    }
}

/// What a change did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    /// Blocks that the slot hadn't held.
    pub(super) new: usize,
    /// Blocks that it had.
    pub(super) again: usize,
    /// Blocks that there was no room for.
    pub(super) refused: usize,
}

/// All runs.
#[derive(Debug)]
pub(super) struct Tree {
    runs: Vec<Run>,
    free: Vec<RunId>,
    /// Runs by the sequence hash of their first block.
    heads: HashMap<u64, RunId>,
    /// Blocks by the hash of the engine that told us first.
    engines: Vec<HashTable<Name>>,
    blocks: usize,
    most_blocks: usize,
    /// Runs that some lower tier holds or held.
    lower_runs: usize,
    /// The runs that were split off since this was last asked for, while somebody wants to know.
    split_off: Option<Vec<RunId>>,
}

impl Tree {
    pub(super) fn new(most_blocks: usize) -> Self {
        Self {
            runs: Vec::new(),
            free: Vec::new(),
            heads: HashMap::new(),
            engines: (0..SHARDS).map(|_| HashTable::new()).collect(),
            blocks: 0,
            // A run has at least one block, so that runs can't run out before blocks do.
            most_blocks: most_blocks.min(MOST_RUNS - 2),
            lower_runs: 0,
            split_off: None,
        }
    }

    /// Distinct blocks.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Runs, those that were freed included.
    pub(super) fn run_numbers(&self) -> usize {
        self.runs.len()
    }

    /// Whether any tier below the device's holds anything.
    pub(super) fn has_lower(&self) -> bool {
        self.lower_runs > 0
    }

    pub(super) fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(id as usize)
    }

    /// The run that begins with a block.
    pub(super) fn head(&self, sequence: u64) -> Option<&Run> {
        self.run(*self.heads.get(&sequence)?)
    }

    pub(super) fn block(&self, place: Place) -> Option<Block> {
        self.run(place.run)?.blocks.get(place.at).copied()
    }

    /// What the hashes at a place were seeded with.
    pub(super) fn scope(&self, place: Place) -> Scope {
        self.run(place.run).map_or_else(Scope::default, |run| run.scope)
    }

    /// Where a reference leads now.
    pub(super) fn resolve(&self, reference: Reference) -> Option<Place> {
        resolve(&self.runs, reference)
    }

    /// The block that an engine calls so, if it was the first to tell us of it.
    pub(super) fn find(&self, engine: u64) -> Option<Place> {
        let tag = Tag::of(engine);
        let found = self.engines.get(tag.shard())?.find(tag.hash(), |name| {
            name.tag == tag && engine_of(&self.runs, name.block) == Some(engine)
        })?;
        self.resolve(found.block)
    }

    /// Lets a slot hold blocks: `sequences` one after another behind `parent`, or from the root.
    pub(super) fn store(&mut self, store: Store<'_>, notes: &mut Notes) -> Placed {
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
                    let added = self.grow(behind, &left, notes);
                    placed.new += added;
                    placed.refused += count - added;
                    break;
                }
            }
        }
        placed
    }

    /// Takes the blocks from `from` to place `to` of the same run from a slot, and returns how many
    /// it held of them. What it holds beyond goes on.
    pub(super) fn drop_blocks(&mut self, slot: Slot, tier: Tier, from: Place, to: usize) -> usize {
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

    /// Whether a slot holds a block in any tier.
    pub(super) fn holds(&self, slot: Slot, place: Place) -> bool {
        let run = self.run(place.run);
        run.is_some_and(|run| Tier::ALL.iter().any(|&tier| run.depth(slot, tier) > place.at))
    }

    /// How many of the named blocks, the first of which is at `place`, are neighbours in its run,
    /// upwards or downwards: where they begin, the place behind them, and how many.
    pub(super) fn stretch(&self, place: Place, engines: &[u64]) -> (Place, usize, usize) {
        let blocks = self.run(place.run).map_or(&[][..], |run| &run.blocks);
        let alike = |pair: &(&Block, &u64)| pair.0.engine == *pair.1;
        let onward = blocks.get(place.at..).unwrap_or(&[]).iter();
        let up = onward.zip(engines).take_while(alike).count().max(1);
        if up > 1 {
            return (place, place.at + up, up);
        }
        let back = blocks.get(..=place.at).unwrap_or(&[]).iter().rev();
        let down = back.zip(engines).take_while(alike).count().max(1);
        let from = Place { run: place.run, at: (place.at + 1).saturating_sub(down) };
        (from, place.at + 1, down)
    }

    /// Begins or ends taking note of the runs that are split off, and returns those noted so far.
    pub(super) fn note_splits(&mut self, note: bool) -> Vec<RunId> {
        std::mem::replace(&mut self.split_off, note.then(Vec::new)).unwrap_or_default()
    }

    /// Takes slots out of a run altogether.
    pub(super) fn forget(&mut self, id: RunId, slots: &[Slot]) {
        let Some(run) = self.runs.get_mut(id as usize) else { return };
        let len = run.blocks.len();
        if len == 0 {
            return;
        }
        for coverage in run.coverages_mut() {
            for &slot in slots {
                coverage.set_depth(slot, 0, len);
            }
        }
        self.shrink(id);
    }

    /// What follows a block, or the root.
    fn next(&self, behind: Option<Place>, sequence: u64) -> Next {
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
    fn common(&self, place: Place, wanted: &[u64]) -> usize {
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

    /// Takes note of blocks that this engine calls otherwise than the one that told us first: the
    /// last of them is at `end`.
    fn compare_names(&self, end: Place, engines: &[u64], notes: &mut Notes) {
        let first = (end.at + 1).saturating_sub(engines.len());
        let blocks = self.run(end.run).and_then(|run| run.blocks.get(first..)).unwrap_or(&[]);
        for (at, (block, &engine)) in blocks.iter().zip(engines).enumerate() {
            if block.engine != engine {
                let place = Place { run: end.run, at: first + at };
                notes.named.push((engine, Alias::of(place, block.sequence)));
            }
        }
    }

    /// Adds blocks that there aren't, behind a run's last block or at the root. Returns how many
    /// there was room for.
    fn grow(&mut self, behind: Option<Place>, store: &Store<'_>, notes: &mut Notes) -> usize {
        let room = self.most_blocks.saturating_sub(self.blocks);
        let mut left = store.first(room);
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
                return most - left.sequences.len();
            };
            let count = part.sequences.len();
            parent = Some(Place { run: id, at: count - 1 });
            left = left.after(count);
        }
        most
    }

    /// Adds blocks to the end of a run, if nothing follows it and only a few hold all of it, who
    /// hold its beginning then. Returns how many.
    fn append(&mut self, id: RunId, store: &Store<'_>, notes: &mut Notes) -> usize {
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
        run.last = run.blocks.last().map_or(run.last, |block| block.sequence);
        run.outgrow(before);
        run.coverage_mut(store.tier).set_depth(store.slot, before + count, before + count);
        self.blocks += count;
        self.enter_names(id, before, notes);
        count
    }

    fn new_run(
        &mut self,
        parent: Option<Place>,
        store: &Store<'_>,
        notes: &mut Notes,
    ) -> Option<RunId> {
        let blocks: Vec<Block> = store.blocks().collect();
        let (first, last) = (blocks.first()?.sequence, blocks.last()?.sequence);
        self.blocks += blocks.len();
        let mut run = Run {
            blocks,
            last,
            scope: store.scope,
            parent: parent.map_or(Reference::NONE, Reference::to),
            children: 0,
            continuation: NO_RUN,
            device: Coverage::default(),
            lower: None,
        };
        run.coverage_mut(store.tier).full = Holders::of(store.slot);
        self.lower_runs += usize::from(run.lower.is_some());
        let id = self.put(run)?;
        self.heads.insert(first, id);
        if let Some(before) = parent.and_then(|parent| self.runs.get_mut(parent.run as usize)) {
            before.children += 1;
        }
        self.enter_names(id, 0, notes);
        Some(id)
    }

    fn put(&mut self, run: Run) -> Option<RunId> {
        if let Some(id) = self.free.pop() {
            *self.runs.get_mut(id as usize)? = run;
            return Some(id);
        }
        // The last number is kept back, so that no reference is the one that means none.
        if self.runs.len() + 1 >= MOST_RUNS {
            return None;
        }
        self.runs.push(run);
        Some(self.runs.len() as RunId - 1)
    }

    /// Makes the blocks of a run from `from` on known by their engine's hashes. Where another block
    /// has that name already, it is noted as a name of this engine alone.
    fn enter_names(&mut self, id: RunId, from: usize, notes: &mut Notes) {
        let Some(run) = self.runs.get(id as usize) else { return };
        let runs = &self.runs;
        for (at, block) in run.blocks.iter().enumerate().skip(from) {
            let tag = Tag::of(block.engine);
            let Some(table) = self.engines.get_mut(tag.shard()) else { continue };
            if table.capacity() == 0 {
                // Most grow further at once: the smallest steps are left out.
                table.reserve(ROOM_AT_FIRST, |name| name.tag.hash());
            }
            let place = Place { run: id, at };
            let same =
                |name: &Name| name.tag == tag && engine_of(runs, name.block) == Some(block.engine);
            match table.entry(tag.hash(), same, |name| name.tag.hash()) {
                Entry::Vacant(entry) => {
                    entry.insert(Name { tag, block: Reference::to(place) });
                }
                Entry::Occupied(_) => {
                    notes.named.push((block.engine, Alias::of(place, block.sequence)));
                }
            }
        }
    }

    /// Cuts a run in two before a block that isn't its first, and returns the new second part.
    fn split(&mut self, place: Place) -> RunId {
        let Place { run: id, at } = place;
        let Some(run) = self.runs.get_mut(id as usize) else { return id };
        if at == 0 || at >= run.blocks.len() {
            return id;
        }
        let blocks = run.blocks.split_off(at);
        run.blocks.shrink_to_fit();
        let lower = run
            .lower
            .as_mut()
            .map(|lower| Box::new(lower.each_mut().map(|coverage| coverage.split_off(at))));
        self.lower_runs += usize::from(lower.is_some());
        let tail = Run {
            last: run.last,
            scope: run.scope,
            parent: Reference::to(Place { run: id, at: at - 1 }),
            children: run.children,
            continuation: run.continuation,
            device: run.device.split_off(at),
            lower,
            blocks,
        };
        run.last = run.blocks.last().map_or(0, |block| block.sequence);
        run.children = 1;
        let first = tail.blocks.first().map_or(0, |block| block.sequence);
        let Some(new) = self.put(tail) else {
            // Never so many runs: each has at least a block, and blocks are limited far below.
            return id;
        };
        if let Some(run) = self.runs.get_mut(id as usize) {
            run.continuation = new;
        }
        self.heads.insert(first, new);
        if let Some(split_off) = &mut self.split_off {
            split_off.push(new);
        }
        new
    }

    /// Takes from a run that nothing follows the blocks that nobody holds, and the run itself if
    /// none is left; then the same for the run before.
    fn shrink(&mut self, id: RunId) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let Some(run) = self.runs.get(id as usize) else { return };
            let (len, deepest) = (run.blocks.len(), run.deepest());
            if len == 0 || run.children > 0 || deepest == len {
                return;
            }
            for at in deepest..len {
                self.remove_name(Place { run: id, at });
            }
            self.blocks -= len - deepest;
            let Some(run) = self.runs.get_mut(id as usize) else { return };
            if deepest > 0 {
                run.blocks.truncate(deepest);
                run.last = run.blocks.last().map_or(0, |block| block.sequence);
                for coverage in run.coverages_mut() {
                    coverage.shorten(deepest);
                }
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
        if let Some(first) = first {
            self.heads.remove(&first);
        }
        let before = self.resolve(parent)?.run;
        let run = self.runs.get_mut(before as usize)?;
        run.children = run.children.saturating_sub(1);
        if run.continuation == id {
            run.continuation = NO_RUN;
        }
        (run.children == 0).then_some(before)
    }

    /// Makes a block unknown by its engine's hash, if it is the one that is known by it.
    fn remove_name(&mut self, place: Place) {
        let Some(engine) = self.block(place).map(|block| block.engine) else { return };
        let (tag, runs) = (Tag::of(engine), &self.runs);
        let Some(table) = self.engines.get_mut(tag.shard()) else { return };
        let same = |name: &Name| name.tag == tag && resolve(runs, name.block) == Some(place);
        if let Ok(entry) = table.find_entry(tag.hash(), same) {
            entry.remove();
        }
    }

    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        let run = |run: &Run| {
            let lower = run.lower.as_ref().map_or(0, |lower| {
                size_of_val(&**lower) + lower.iter().map(Coverage::bytes).sum::<usize>()
            });
            run.blocks.capacity() * size_of::<Block>() + run.device.bytes() + lower
        };
        self.runs.capacity() * size_of::<Run>()
            + self.runs.iter().map(run).sum::<usize>()
            + self.free.capacity() * size_of::<RunId>()
            + self.heads.allocation_size()
            + self.engines.iter().map(HashTable::allocation_size).sum::<usize>()
    }
}

/// What follows a block, or the root.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The wanted block, here.
    Block(Place),
    /// Another block, in the same run.
    Fork(Place),
    /// Nothing that is wanted.
    End,
}

/// A stretch of blocks to be held by a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store<'a> {
    pub(super) slot: Slot,
    pub(super) tier: Tier,
    /// The block before; none at the root.
    pub(super) parent: Option<Place>,
    pub(super) scope: Scope,
    /// What the engine calls the blocks; as many as `sequences`.
    pub(super) engines: &'a [u64],
    pub(super) sequences: &'a [u64],
}

impl Store<'_> {
    fn after(self, count: usize) -> Self {
        Self {
            engines: self.engines.get(count..).unwrap_or(&[]),
            sequences: self.sequences.get(count..).unwrap_or(&[]),
            ..self
        }
    }

    fn first(self, count: usize) -> Self {
        Self {
            engines: self.engines.get(..count).unwrap_or(self.engines),
            sequences: self.sequences.get(..count).unwrap_or(self.sequences),
            ..self
        }
    }

    fn blocks(&self) -> impl Iterator<Item = Block> + use<'_> {
        let pairs = self.sequences.iter().zip(self.engines);
        pairs.map(|(&sequence, &engine)| Block { sequence, engine })
    }
}

/// A block's name with one engine alone: where it was, and what it must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alias {
    place: Reference,
    sequence: u64,
}

impl Alias {
    fn of(place: Place, sequence: u64) -> Self {
        Self { place: Reference::to(place), sequence }
    }

    /// Where it leads now; none when that block is gone.
    pub(super) fn resolve(self, tree: &Tree) -> Option<Place> {
        let place = tree.resolve(self.place)?;
        (tree.block(place)?.sequence == self.sequence).then_some(place)
    }
}

/// What the keeper of a slot must know of a store.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Sequence hashes of blocks that the slot had already.
    pub(super) again: Vec<u64>,
    /// Blocks that are known by other names than this engine's, and its own for them.
    pub(super) named: Vec<(u64, Alias)>,
}

impl Notes {
    pub(super) fn clear(&mut self) {
        self.again.clear();
        self.named.clear();
    }
}

/// How many of the blocks are as wanted, from the first on. Sequence hashes that agree agree on all
/// before, so that the border can be searched by halves.
pub(super) fn common(blocks: &[Block], wanted: &[u64]) -> usize {
    let most = blocks.len().min(wanted.len());
    let agree = |at: usize| match (blocks.get(at), wanted.get(at)) {
        (Some(block), Some(&wanted)) => block.sequence == wanted,
        _ => false,
    };
    if most == 0 || agree(most - 1) {
        return most;
    }
    let (mut low, mut high) = (0, most - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if agree(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

fn resolve(runs: &[Run], reference: Reference) -> Option<Place> {
    if reference == Reference::NONE {
        return None;
    }
    let mut id = reference.0 >> PLACE_BITS;
    let mut at = reference.0 as usize % LONGEST;
    loop {
        let run = runs.get(id as usize)?;
        let len = run.blocks.len();
        if at < len {
            return Some(Place { run: id, at });
        }
        // A freed run has no blocks and no continuation.
        at -= len;
        id = run.continuation;
    }
}

fn engine_of(runs: &[Run], reference: Reference) -> Option<u64> {
    let place = resolve(runs, reference)?;
    Some(runs.get(place.run as usize)?.blocks.get(place.at)?.engine)
}

#[cfg(test)]
impl Tree {
    /// The runs that there are, each checked against all else that is said of it.
    pub(super) fn check_runs(&self) -> impl Iterator<Item = (RunId, &Run)> {
        let runs = self.runs.iter().enumerate().filter(|(_, run)| !run.blocks.is_empty());
        runs.map(|(id, run)| (id as RunId, run))
    }

    /// Panics if something that is said twice isn't said alike.
    pub(super) fn check(&self) {
        let mut children = HashMap::<RunId, u32>::new();
        let (mut blocks, mut names) = (0, 0);
        for (id, run) in self.check_runs() {
            let len = run.blocks.len();
            assert!(len <= LONGEST);
            blocks += len;
            assert_eq!(run.last, run.blocks[len - 1].sequence);
            assert_eq!(self.heads.get(&run.blocks[0].sequence), Some(&id));
            if run.parent != Reference::NONE {
                let parent = self.resolve(run.parent).expect("its parent is there");
                let before = &self.runs[parent.run as usize];
                assert_eq!(parent.at + 1, before.blocks.len(), "it follows a run's end");
                *children.entry(parent.run).or_default() += 1;
            }
            assert!(run.children > 0 || run.deepest() == len, "nobody holds its end");
            for coverage in Tier::ALL.iter().filter_map(|&tier| run.coverage(tier)) {
                let partial: Vec<_> = coverage.partial.iter().collect();
                assert!(partial.is_sorted_by(|a, b| a.0 < b.0));
                assert!(partial.iter().all(|&(_, d)| d > 0 && usize::from(d) < len));
                assert!(partial.iter().all(|&(slot, _)| !coverage.full.contains(slot)));
            }
            for (at, block) in run.blocks.iter().enumerate() {
                names += usize::from(self.find(block.engine) == Some(Place { run: id, at }));
            }
        }
        for (id, run) in self.check_runs() {
            assert_eq!(run.children, children.get(&id).copied().unwrap_or(0));
        }
        assert_eq!(blocks, self.blocks);
        assert_eq!(self.heads.len(), self.check_runs().count());
        assert_eq!(names, self.engines.iter().map(HashTable::len).sum::<usize>());
    }
}
