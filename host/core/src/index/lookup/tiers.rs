//! The walk over all tiers, for an index that holds something below the device's memory.
//!
//! Owns which tier each row is in along the prompt: where its holding in one ends, it goes on in
//! the next slower one that holds what follows.

use super::ends::write;
use super::{Overlap, matching};
use crate::index::holders::{Holders, Slot, bits};
use crate::index::tier::Tier;
use crate::index::tree::{Run, Tree};

impl Overlap {
    /// The walk over all tiers.
    pub(super) fn walk_tiers(&mut self, tree: &Tree, chain: &[u64]) {
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
