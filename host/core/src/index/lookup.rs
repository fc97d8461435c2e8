//! One look-up: how far each row's holdings reach along a prompt.
//!
//! Owns the walk down the runs and the columns that it fills. All rows go together, as bits: a run
//! that all of them hold costs one pass over the words, however many rows there are; a row is
//! looked at by itself only where its holding ends.
//!
//! A row's device holding counts from the first block. Where it ends, the host's memory goes on,
//! then the disk, then the external store, each for as long as there is no gap.

mod alignment;
mod ends;
mod tiers;

use super::holders::{Holders, Slot};
use super::ranks::Ranks;
use super::tier::Tier;
use super::tree::{Run, Tree, common};
use crate::fleet::Snapshot;
use alignment::Alignment;
use ends::{Ends, fill};

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
        self.rows.clear(rows);
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
