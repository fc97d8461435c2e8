//! Which rows are kept.
//!
//! Owns verdicts as a bit mask, whoever gave them. What is wrong with a mask from elsewhere is for those to say who
//! asked for it.

/// One verdict per row, as a bit mask: row r is bit (r mod 64) of word (r div 64).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowMask {
    rows: usize,
    words: Vec<u64>,
}

impl RowMask {
    /// Makes the mask `rows` long, with every row kept.
    pub fn keep_all(&mut self, rows: usize) {
        self.rows = rows;
        self.words.clear();
        self.words.resize(rows.div_ceil(64), u64::MAX);
        if let (Some(last), rest @ 1..) = (self.words.last_mut(), rows % 64) {
            *last = (1 << rest) - 1;
        }
    }

    /// Becomes what another is, in the memory that it has.
    pub fn copy_from(&mut self, other: &Self) {
        self.rows = other.rows;
        self.words.clone_from(&other.words);
    }

    /// Rejects a row; nothing if there is no such row.
    pub fn reject(&mut self, row: usize) {
        if let Some(word) = self.words.get_mut(row / 64) {
            *word &= !(1 << (row % 64));
        }
    }

    /// Whether a row is kept.
    #[must_use]
    pub fn keeps(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    /// How many rows are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// How many rows before `row` are kept: its index once the others are gone.
    #[must_use]
    pub fn kept_before(&self, row: usize) -> usize {
        let (whole, rest) = (row / 64, row % 64);
        let below = self.words.get(whole).map_or(0, |word| word & ((1 << rest) - 1));
        let words = self.words.iter().take(whole);
        words.chain([&below]).map(|word| word.count_ones() as usize).sum()
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The mask's words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Keeps only what `words` keeps too. False, and nothing changed, if they are not a mask of as
    /// many rows.
    #[must_use]
    pub fn and(&mut self, words: &[u64]) -> bool {
        if words.len() != self.words.len() {
            return false;
        }
        let past_the_end = match self.rows % 64 {
            0 => 0,
            rest => words.last().copied().unwrap_or(0) >> rest,
        };
        if past_the_end != 0 {
            return false;
        }
        for (mine, theirs) in self.words.iter_mut().zip(words) {
            *mine &= theirs;
        }
        true
    }

    /// The kept rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    at * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests;
