//! How the ends of holdings become values of a column.
//!
//! Owns the writing: a word of slots at once where their rows stand as the slots do, else one by
//! one.

use super::alignment::Alignment;
use crate::index::holders::{Partial, Slot};

pub(super) fn write(column: &mut [f64], row: usize, blocks: f64) {
    if let Some(value) = column.get_mut(row) {
        *value = blocks;
    }
}

/// Where the holdings end that don't go through a run.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    /// Blocks of the prompt before the run.
    pub(super) at: usize,
    /// Blocks of the run that are the prompt's.
    pub(super) same: usize,
    pub(super) partial: &'a Partial,
}

impl Ends<'_> {
    /// Writes them for the slots `gone` of one word. Returns whether any holds something.
    pub(super) fn write(
        self,
        column: &mut [f64],
        rows: &Alignment,
        word: usize,
        gone: u64,
    ) -> bool {
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
                    // At first, none has ended before, and those that go on are written again. But
                    // a slot that stands for no row has nothing to say of the row of its number.
                    Some(values) if gone == u64::MAX || at == 0 && rows.all_stand(word) => {
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
pub(super) fn fill(column: &mut [f64], rows: &Alignment, word: usize, slots: u64, depth: f64) {
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
