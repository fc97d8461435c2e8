//! What the host sends of a call's rows: flat lists.
//!
//! Owns their form, and whether they fit what a stage declared. A column that came as one number is
//! written out once, and again only when it is another number or there are more rows. Which column is
//! which is the [layout](crate::layout)'s to know.

use crate::layout::Matrix;
use crate::{Refusal, Result};

/// The candidates of one call as they cross the boundary: flat lists.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lists<'a> {
    /// The number of rows; at least one.
    pub rows: u32,
    /// Which declared columns come as one number, since it is the same in every row: bit c is the
    /// c-th.
    pub uniform: u64,
    /// The other declared columns, one value per row each, then the numbers of those, then the
    /// declared facts, one value each.
    pub numbers: &'a [f64],
    /// Ids, then ranks, when `identity` was declared.
    pub identity: &'a [u64],
    /// Chained hashes of the prompt's leading blocks.
    pub prefix_hashes: &'a [u64],
}

/// Columns that came as one number, written out, by their place among the columns sent.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    /// Which there are at the moment, their numbers, and how many rows they have at least.
    uniform: u64,
    numbers: Vec<f64>,
    rows: usize,
    columns: Vec<(f64, Vec<f64>)>,
}

impl Spread {
    /// Writes out what isn't yet. Lists of wrong lengths, which [`check`] refuses, are left alone.
    #[inline]
    pub(crate) fn hold(&mut self, lists: Lists<'_>, matrix: Matrix) {
        if lists.uniform == 0 {
            return;
        }
        let Some(numbers) = lists.numbers_of_columns(matrix) else { return };
        let rows = lists.rows as usize;
        let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
        let are_held = self.uniform == lists.uniform
            && self.rows >= rows
            && self.numbers.len() == numbers.len()
            && self.numbers.iter().zip(numbers).all(same);
        if !are_held {
            self.write(lists, matrix, numbers);
        }
    }

    #[inline(never)]
    fn write(&mut self, lists: Lists<'_>, matrix: Matrix, numbers: &[f64]) {
        let rows = lists.rows as usize;
        self.uniform = lists.uniform;
        self.rows = rows;
        self.numbers.clear();
        self.numbers.extend_from_slice(numbers);
        if self.columns.len() < matrix.columns {
            self.columns.resize_with(matrix.columns, Default::default);
        }
        let mut left = lists.uniform;
        for &number in numbers {
            let at = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            let Some((held, column)) = self.columns.get_mut(at) else { return };
            if held.to_bits() != number.to_bits() || column.len() < rows {
                *held = number;
                column.clear();
                column.resize(rows, number);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn column(&self, at: usize, rows: usize) -> &[f64] {
        self.columns.get(at).and_then(|(_, column)| column.get(..rows)).unwrap_or_default()
    }
}

impl<'a> Lists<'a> {
    /// How many of the columns have a value of their own in each row; none if the mask names others.
    #[inline]
    fn varying(&self, matrix: Matrix) -> Option<usize> {
        let named = matrix.columns >= 64 || self.uniform >> matrix.columns == 0;
        named.then(|| matrix.columns - self.uniform.count_ones() as usize)
    }

    /// The numbers of the columns that came as one.
    fn numbers_of_columns(&self, matrix: Matrix) -> Option<&'a [f64]> {
        let varying = self.varying(matrix)?;
        let start = varying.checked_mul(self.rows as usize)?;
        self.numbers.get(start..)?.get(..matrix.columns - varying)
    }

    /// The column at a place; empty when it isn't there.
    #[inline]
    pub(crate) fn column(&self, at: usize, spread: &'a Spread) -> &'a [f64] {
        let rows = self.rows as usize;
        if at < 64 && self.uniform >> at & 1 == 1 {
            return spread.column(at, rows);
        }
        let before = if at < 64 { self.uniform & ((1 << at) - 1) } else { self.uniform };
        slice(self.numbers, at - before.count_ones() as usize, rows)
    }
}

/// Refuses lists that don't have the layout's lengths.
#[inline]
pub(crate) fn check(lists: Lists<'_>, matrix: Matrix) -> Result {
    let rows = lists.rows as usize;
    let expected = lists.varying(matrix).and_then(|varying| {
        varying.checked_mul(rows)?.checked_add(matrix.columns - varying)?.checked_add(matrix.facts)
    });
    let words = lists.identity.len();
    let identified = !matrix.identity || (words / 2 == rows && words % 2 == 0);
    if expected == Some(lists.numbers.len()) && identified {
        Ok(())
    } else {
        Err(mismatch(lists, matrix))
    }
}

#[cold]
fn mismatch(lists: Lists<'_>, matrix: Matrix) -> Refusal {
    let Lists { rows, uniform, numbers, identity, .. } = lists;
    let of_identity = if matrix.identity { ", with identity," } else { "" };
    Refusal::from(format!(
        "the router sent {} numbers and {} words of identity for {rows} rows of {} columns ({} of one \
         number) and {} facts{of_identity}; it and the policy disagree about the contract",
        numbers.len(),
        identity.len(),
        matrix.columns,
        uniform.count_ones(),
        matrix.facts
    ))
}

/// One column of the matrix, empty when it isn't there.
#[inline]
fn slice(numbers: &[f64], slot: usize, rows: usize) -> &[f64] {
    let start = slot.checked_mul(rows);
    start.and_then(|start| numbers.get(start..)?.get(..rows)).unwrap_or_default()
}
