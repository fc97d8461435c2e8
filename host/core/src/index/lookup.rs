//! One look-up: how far each row's holdings reach along a prompt.
//!
//! Owns the walk down the runs and the columns that it fills. All rows go together, as bits: a run
//! that all of them hold costs one pass over the words, however many rows there are; a row is
//! looked at by itself only where its holding ends.
//!
//! A row's device holding counts from the first block. Where it ends, the host's memory goes on,
//! then the disk, then the external store, each for as long as there is no gap.

use super::holders::{Holders, Partial, Slot, bits};
use super::ranks::Ranks;
use super::tier::Tier;
use super::tree::{Run, Tree, common};
use crate::fleet::Snapshot;

/// No row.
const NO_ROW: u32 = u32::MAX;

/// How many leading blocks of a prompt each row holds, by tier; one value per row of a snapshot.
///
/// The columns are reused from one look-up to the next.
#[derive(Debug, Default)]
pub struct Overlap {
    columns: [Vec<f64>; Tier::COUNT],
    /// Whether anything is held below the device's memory.
    has_lower: bool,
    /// Whether any row holds anything of the prompt.
    any: bool,
    rows: Alignment,
    /// The rows that a tier goes on with, as bits of their slots.
    walking: [Vec<u64>; Tier::COUNT],
    /// Where the tier that goes on with a slot began; used below the device's memory only.
    began: Vec<u32>,
}

/// Which slot stands for which row.
#[derive(Debug, Default)]
struct Alignment {
    /// Of the ranks and of the snapshot that this is for; none at first.
    version: Option<(u64, u64)>,
    rows: usize,
    row_of: Vec<u32>,
    /// The slots that stand for a row, as bits.
    mask: Vec<u64>,
    /// Whether each slot stands for the row of its own number.
    straight: bool,
}

impl Alignment {
    fn align(&mut self, ranks: &Ranks, snapshot: &Snapshot) {
        let version = Some((ranks.version(), snapshot.generation));
        if self.version == version && self.rows == snapshot.rows.len() {
            return;
        }
        self.version = version;
        self.rows = snapshot.rows.len();
        self.row_of.clear();
        self.row_of.resize(ranks.slots(), NO_ROW);
        self.mask.clear();
        self.mask.resize(ranks.slots().div_ceil(64), 0);
        self.straight = true;
        for (rank, slot) in ranks.iter() {
            let Some(row) = snapshot.row_of(rank) else { continue };
            self.straight &= row == slot as usize;
            if let Some(place) = self.row_of.get_mut(slot as usize) {
                *place = row as u32;
            }
            if let Some(word) = self.mask.get_mut(slot as usize / 64) {
                *word |= 1 << (slot % 64);
            }
        }
    }

    /// The values of the rows of one word's slots, if those are the rows of the same numbers.
    fn values_of<'c>(&self, column: &'c mut [f64], word: usize) -> Option<&'c mut [f64; 64]> {
        if !self.straight {
            return None;
        }
        column.get_mut(word * 64..)?.first_chunk_mut()
    }

    fn row(&self, slot: Slot) -> usize {
        self.row_of.get(slot as usize).map_or(usize::MAX, |&row| row as usize)
    }
}

impl Overlap {
    /// A tier's column: blocks of that tier which go on from where the faster ones end. Empty for
    /// tiers below the device's when nothing is held there.
    #[must_use]
    pub fn blocks(&self, tier: Tier) -> &[f64] {
        match tier.lower() {
            None => self.columns.first().map_or(&[], Vec::as_slice),
            Some(at) if self.has_lower => self.columns.get(at + 1).map_or(&[], Vec::as_slice),
            Some(_) => &[],
        }
    }

    /// A row's blocks of one tier; 0 where nothing is known.
    #[must_use]
    pub fn of_row(&self, tier: Tier, row: usize) -> f64 {
        self.blocks(tier).get(row).copied().unwrap_or(0.0)
    }

    /// Whether any row holds anything of the prompt, in any tier.
    #[must_use]
    pub fn any(&self) -> bool {
        self.any
    }

    /// Whether the index holds anything below the device's memory, of any prompt.
    #[must_use]
    pub fn has_lower(&self) -> bool {
        self.has_lower
    }

    /// How many rows it is for.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.rows
    }

    /// Makes it say that nobody of `rows` rows holds anything.
    pub fn clear(&mut self, rows: usize) {
        self.rows.version = None;
        self.rows.rows = rows;
        self.has_lower = false;
        self.any = false;
        for column in &mut self.columns {
            column.clear();
        }
        if let Some(device) = self.columns.first_mut() {
            device.resize(rows, 0.0);
        }
    }

    pub(super) fn fill(&mut self, tree: &Tree, ranks: &Ranks, snapshot: &Snapshot, chain: &[u64]) {
        self.rows.align(ranks, snapshot);
        self.has_lower = tree.has_lower();
        self.any = false;
        let tiers = if self.has_lower { Tier::COUNT } else { 1 };
        for column in self.columns.iter_mut().take(tiers) {
            column.clear();
            column.resize(self.rows.rows, 0.0);
        }
        if self.has_lower {
            self.walk_tiers(tree, chain);
        } else {
            self.walk_device(tree, chain);
        }
    }

    /// The walk when nothing is held below the device's memory.
    fn walk_device(&mut self, tree: &Tree, chain: &[u64]) {
        let Self { columns: [column, ..], walking: [walking, ..], rows, any, .. } = self;
        walking.clear();
        let mut at = 0;
        while let Some(run) = chain.get(at).and_then(|&first| tree.head(first)) {
            if at == 0 {
                walking.extend_from_slice(&rows.mask);
            }
            let wanted = chain.get(at..).unwrap_or(&[]);
            let same = matching(run, wanted);
            let ends = Ends { at, same, partial: &run.device.partial };
            let left = match &run.device.full {
                Holders::Few { len, slots } => {
                    let slots = slots.get(..usize::from(*len)).unwrap_or(&[]);
                    keep(
                        walking,
                        |word| bits_of(slots, word),
                        |word, gone| {
                            *any |= ends.write(column, rows, word, gone);
                        },
                    )
                }
                Holders::Many { words, .. } => {
                    let kept = |word: usize| words.get(word).copied().unwrap_or(0);
                    keep(walking, kept, |word, gone| {
                        *any |= ends.write(column, rows, word, gone);
                    })
                }
            };
            at += same;
            *any |= left && same > 0;
            if !left || same < run.blocks.len() {
                break;
            }
        }
        for (word, &left) in walking.iter().enumerate() {
            fill(column, rows, word, left, at as f64);
        }
    }

    /// The walk over all tiers.
    fn walk_tiers(&mut self, tree: &Tree, chain: &[u64]) {
        let words = self.rows.mask.len();
        for (tier, walking) in self.walking.iter_mut().enumerate() {
            walking.clear();
            walking.resize(words, 0);
            if tier == 0 {
                walking.copy_from_slice(&self.rows.mask);
            }
        }
        self.began.clear();
        self.began.resize(words * 64, 0);
        let mut at = 0;
        while let Some(run) = chain.get(at).and_then(|&first| tree.head(first)) {
            let same = matching(run, chain.get(at..).unwrap_or(&[]));
            let mut left = false;
            // From the last tier on, so that no row is met twice.
            for tier in Tier::ALL.into_iter().rev() {
                left |= self.step(run, tier, at, same);
            }
            at += same;
            if !left || same < run.blocks.len() {
                break;
            }
        }
        for tier in Tier::ALL {
            let Some(walking) = self.walking.get_mut(tier as usize).map(std::mem::take) else {
                continue;
            };
            for slot in bits(&walking) {
                self.leave(tier, slot, at);
            }
            self.walking[tier as usize] = walking;
        }
    }

    /// Leads the rows that are in `tier` through one run. Returns whether any is left.
    fn step(&mut self, run: &Run, tier: Tier, at: usize, same: usize) -> bool {
        let Some(mut walking) = self.walking.get_mut(tier as usize).map(std::mem::take) else {
            return false;
        };
        let full = run.coverage(tier).map(|coverage| &coverage.full);
        let mut left = false;
        for (index, word) in walking.iter_mut().enumerate() {
            if *word == 0 {
                continue;
            }
            let stay = match full {
                Some(Holders::Many { words, .. }) => *word & words.get(index).copied().unwrap_or(0),
                Some(few) => {
                    let mut stay = 0;
                    few.for_each(|slot| {
                        if slot as usize / 64 == index {
                            stay |= *word & (1 << (slot % 64));
                        }
                    });
                    stay
                }
                None => 0,
            };
            let gone = *word & !stay;
            *word = stay;
            left |= stay != 0;
            for bit in bits(&[gone]) {
                let slot = index as Slot * 64 + bit;
                left |= self.fall(run, tier, slot, at, same);
            }
        }
        // Rows that fell out of a faster tier are in the lists of slower ones, which are not held
        // here at the time.
        self.walking[tier as usize] = walking;
        left
    }

    /// A row that doesn't hold all of a run in its tier goes on in a slower one, or is done.
    /// Returns whether it goes on behind the run.
    fn fall(&mut self, run: &Run, tier: Tier, slot: Slot, at: usize, same: usize) -> bool {
        let mut reached = run.depth(slot, tier).min(same);
        self.leave(tier, slot, at + reached);
        for slower in Tier::ALL.into_iter().filter(|&slower| slower as usize > tier as usize) {
            let depth = run.depth(slot, slower).min(same);
            if depth <= reached {
                continue;
            }
            if let Some(began) = self.began.get_mut(slot as usize) {
                *began = (at + reached) as u32;
            }
            reached = depth;
            if reached == same {
                if let Some(word) = self.walking[slower as usize].get_mut(slot as usize / 64) {
                    *word |= 1 << (slot % 64);
                }
                return true;
            }
            self.leave(slower, slot, at + reached);
        }
        false
    }

    /// A row's holding in a tier ends with `end` blocks of the prompt.
    fn leave(&mut self, tier: Tier, slot: Slot, end: usize) {
        let began = self.began.get(slot as usize).map_or(0, |&began| began as usize);
        let blocks = end.saturating_sub(began);
        if blocks > 0 {
            self.any = true;
            if let Some(column) = self.columns.get_mut(tier as usize) {
                write(column, self.rows.row(slot), blocks as f64);
            }
        }
        if let Some(began) = self.began.get_mut(slot as usize) {
            *began = end as u32;
        }
    }
}

/// How many blocks of a prompt one slot holds, by tier.
pub(super) fn of_slot(tree: &Tree, slot: Slot, chain: &[u64]) -> [u64; Tier::COUNT] {
    let mut blocks = [0; Tier::COUNT];
    let (mut at, mut tier) = (0, 0);
    while let Some(run) = chain.get(at).and_then(|&first| tree.head(first)) {
        let same = matching(run, chain.get(at..).unwrap_or(&[]));
        let mut reached = 0;
        for &slower in Tier::ALL.get(tier..).unwrap_or(&[]) {
            let depth = run.depth(slot, slower).min(same);
            if depth > reached {
                blocks[slower as usize] += (depth - reached) as u64;
                (reached, tier) = (depth, slower as usize);
            }
        }
        if reached < run.blocks.len() {
            break;
        }
        at += reached;
    }
    blocks
}

/// How many blocks of a run the prompt goes through.
fn matching(run: &Run, wanted: &[u64]) -> usize {
    let len = run.blocks.len();
    match wanted.get(len.wrapping_sub(1)) {
        Some(&last) if last == run.last => len,
        _ => common(&run.blocks, wanted),
    }
}

fn write(column: &mut [f64], row: usize, blocks: f64) {
    if let Some(value) = column.get_mut(row) {
        *value = blocks;
    }
}

/// Leaves of each word of `walking` what is kept; tells what went. Returns whether any is left.
fn keep(
    walking: &mut [u64],
    kept: impl Fn(usize) -> u64,
    mut gone: impl FnMut(usize, u64),
) -> bool {
    let mut left = 0;
    for (at, word) in walking.iter_mut().enumerate() {
        let stay = *word & kept(at);
        if stay != *word {
            gone(at, *word & !stay);
        }
        *word = stay;
        left |= stay;
    }
    left != 0
}

/// One word of a handful of slots.
fn bits_of(slots: &[Slot], word: usize) -> u64 {
    let here = slots.iter().filter(|&&slot| slot as usize / 64 == word);
    here.fold(0, |bits, slot| bits | 1 << (slot % 64))
}

/// Where the holdings end that don't go through a run.
#[derive(Clone, Copy)]
struct Ends<'a> {
    /// Blocks of the prompt before the run.
    at: usize,
    /// Blocks of the run that are the prompt's.
    same: usize,
    partial: &'a Partial,
}

impl Ends<'_> {
    /// Writes them for the slots `gone` of one word. Returns whether any holds something.
    fn write(self, column: &mut [f64], rows: &Alignment, word: usize, gone: u64) -> bool {
        let Self { at, same, partial } = self;
        match partial {
            Partial::Listed(list) => {
                fill(column, rows, word, gone, at as f64);
                let first = list.partition_point(|&(slot, _)| (slot as usize) < word * 64);
                let here = list.get(first..).unwrap_or(&[]).iter();
                let mut any = at > 0;
                for &(slot, depth) in here.take_while(|&&(slot, _)| slot as usize / 64 == word) {
                    if gone & (1 << (slot % 64)) != 0 {
                        let blocks = at + usize::from(depth).min(same);
                        write(column, rows.row(slot), blocks as f64);
                        any |= blocks > 0;
                    }
                }
                any
            }
            Partial::Spread { depths, .. } => {
                let Some(depths) = chunk(depths, word) else {
                    fill(column, rows, word, gone, at as f64);
                    return at > 0;
                };
                // In 32 bits, which become doubles in one instruction.
                let (before, most) = (at as u32, same as u32);
                let end = |depth: u8| f64::from(before + u32::from(depth).min(most));
                let mut deepest = 0;
                match rows.values_of(column, word) {
                    // At first, none has ended before, and those that go on are written again.
                    Some(values) if at == 0 || gone == u64::MAX => {
                        for (value, &depth) in values.iter_mut().zip(depths) {
                            *value = end(depth);
                            deepest |= depth;
                        }
                    }
                    Some(values) => each_bit(gone, |bit| {
                        deepest |= depths[bit];
                        values[bit] = end(depths[bit]);
                    }),
                    None => each_bit(gone, |bit| {
                        deepest |= depths[bit];
                        let row = rows.row((word * 64 + bit) as Slot);
                        write(column, row, end(depths[bit]));
                    }),
                }
                at > 0 || (deepest > 0 && same > 0)
            }
        }
    }
}

/// Writes one depth for slots of one word.
fn fill(column: &mut [f64], rows: &Alignment, word: usize, slots: u64, depth: f64) {
    if slots == 0 || depth == 0.0 {
        return;
    }
    match rows.values_of(column, word) {
        Some(values) if slots == u64::MAX => values.fill(depth),
        Some(values) => each_bit(slots, |bit| values[bit] = depth),
        None => each_bit(slots, |bit| write(column, rows.row((word * 64 + bit) as Slot), depth)),
    }
}

/// The values of one word's slots.
fn chunk<T>(values: &[T], word: usize) -> Option<&[T; 64]> {
    values.get(word * 64..)?.first_chunk()
}

/// The places of the bits that are set, all below 64.
fn each_bit(word: u64, mut each: impl FnMut(usize)) {
    let mut left = word;
    while left != 0 {
        each(left.trailing_zeros() as usize % 64);
        left &= left - 1;
    }
}
