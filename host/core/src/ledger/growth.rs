//! How the blocks of a request grow with its output, and what they weigh while it goes on.
//!
//! Owns the two rules: a block begins whenever prompt and output fill the one before; and where the
//! output's length is guessed, what a request has to itself weighs less the nearer its end is. Weights are
//! whole numbers of a small part of a block, so that nothing is left of them in the end. It doesn't know rows.

/// The weight of one whole block.
pub(super) const WHOLE: u32 = 1 << 16;

/// The blocks that so much weight is, rounded.
pub(super) fn blocks_of(weight: u128) -> f64 {
    ((weight + u128::from(WHOLE / 2)) / u128::from(WHOLE)) as u64 as f64
}

/// What is off the weight of a block of which this fraction is left, 0 to 1. None for what isn't a
/// number.
pub(super) fn discount_for(fraction: f64) -> Option<u32> {
    let fraction = (!fraction.is_nan()).then(|| fraction.clamp(0.0, 1.0))?;
    Some(WHOLE - (fraction * f64::from(WHOLE)).round() as u32)
}

/// A request whose output blocks are booked as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    prompt_tokens: u64,
    block_size: u64,
    /// The guess of its output's length, in tokens.
    expected: Option<u64>,
    generated: u64,
    /// Blocks that have begun.
    begun: u64,
}

/// What changes in a booking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Blocks that begin.
    pub(super) blocks: u64,
    /// What is off the weights from here on; none leaves that as it is.
    pub(super) discount: Option<u32>,
}

impl Growth {
    /// Of a request with so many prompt tokens, in blocks of so many, and with a guess of its output's
    /// length in tokens, if there is one.
    #[must_use]
    pub fn new(prompt_tokens: u64, block_size: u32, expected_output_tokens: Option<u32>) -> Self {
        let block_size = u64::from(block_size.max(1));
        Self {
            prompt_tokens,
            block_size,
            expected: expected_output_tokens.map(|tokens| u64::from(tokens.max(1))),
            generated: 0,
            begun: prompt_tokens.div_ceil(block_size),
        }
    }

    /// So many output tokens there are by now. None if that changes nothing: the weights are looked at
    /// when a block begins, and when the guess is reached.
    pub(super) fn progress(&mut self, output_tokens: u64) -> Option<Step> {
        if output_tokens <= self.generated {
            return None;
        }
        let before = std::mem::replace(&mut self.generated, output_tokens);
        let total = self.prompt_tokens.saturating_add(output_tokens).div_ceil(self.block_size);
        let blocks = total.saturating_sub(self.begun);
        self.begun += blocks;
        let ends = self.expected.is_some_and(|end| (before + 1..=output_tokens).contains(&end));
        (blocks > 0 || ends).then(|| Step { blocks, discount: self.discount() })
    }

    /// One block begins, whoever counts the tokens.
    pub(super) fn block(&mut self, fraction: Option<f64>) -> Step {
        self.begun = self.begun.saturating_add(1);
        Step { blocks: 1, discount: fraction.and_then(discount_for) }
    }

    fn discount(&self) -> Option<u32> {
        let expected = self.expected?;
        let left = u128::from(expected.saturating_sub(self.generated));
        let weight = left * u128::from(WHOLE) / u128::from(expected);
        Some(WHOLE - weight as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: u32 = WHOLE / 2;

    #[test]
    fn a_block_begins_when_prompt_and_output_have_filled_the_one_before() {
        // 30 tokens are two blocks of 16, with room for two more tokens.
        let mut growth = Growth::new(30, 16, None);
        let blocks = |growth: &mut Growth, n| growth.progress(n).map(|step| step.blocks);
        assert_eq!(blocks(&mut growth, 1), None);
        assert_eq!(blocks(&mut growth, 2), None);
        assert_eq!(blocks(&mut growth, 3), Some(1));
        assert_eq!(blocks(&mut growth, 3), None, "again is nothing");
        assert_eq!(blocks(&mut growth, 1), None, "nor is what was before");
        assert_eq!(blocks(&mut growth, 100), Some(6), "130 tokens are nine blocks");
        assert_eq!(blocks(&mut growth, u64::MAX), Some(u64::MAX / 16 + 1 - 9));
        assert_eq!(blocks(&mut Growth::new(0, 0, None), 3), Some(3), "no size is the smallest");
    }

    #[test]
    fn weights_fall_with_what_is_left_of_the_guess() {
        let mut growth = Growth::new(16, 16, Some(64));
        let discount = |growth: &mut Growth, n| growth.progress(n).map(|step| step.discount);
        assert_eq!(discount(&mut growth, 1), Some(Some(WHOLE / 64)));
        assert_eq!(discount(&mut growth, 16), None, "no block begins");
        assert_eq!(discount(&mut growth, 32), Some(Some(HALF)));
        assert_eq!(discount(&mut growth, 64), Some(Some(WHOLE)), "the guess is reached");
        assert_eq!(discount(&mut growth, 65), Some(Some(WHOLE)), "and never less than nothing");
        // A guess that ends within a block, and one of nothing.
        assert_eq!(discount(&mut Growth::new(16, 16, Some(10)), 9), Some(Some(WHOLE - WHOLE / 10)));
        let mut short = Growth::new(1, 16, Some(10));
        assert_eq!((discount(&mut short, 9), discount(&mut short, 12)), (None, Some(Some(WHOLE))));
        assert_eq!(discount(&mut Growth::new(16, 16, Some(0)), 1), Some(Some(WHOLE)));
        assert_eq!(discount(&mut Growth::new(16, 16, None), 1), Some(None));
    }

    #[test]
    fn a_fraction_is_held_to_its_range() {
        let given = [1.0, 0.5, 0.0, -3.0, 7.0, f64::INFINITY];
        let off = given.map(discount_for);
        assert_eq!(off, [Some(0), Some(HALF), Some(WHOLE), Some(WHOLE), Some(0), Some(0)]);
        assert_eq!(discount_for(f64::NAN), None);
    }

    #[test]
    fn weight_is_shown_in_whole_blocks() {
        let whole = u128::from(WHOLE);
        assert_eq!(
            [0, whole / 2 - 1, whole / 2, whole, 10 * whole + 1].map(blocks_of),
            [0.0, 0.0, 1.0, 1.0, 10.0]
        );
    }
}
