//! Loops over columns, in the widest lanes that the processor has.
//!
//! Owns the loops that look at every row of a decision. Each is written once, plainly, and compiled twice on
//! x86-64: for every processor, and for those with AVX2, which is found out when it runs; one is written
//! twice. What a row gets is computed by itself, so that both give the same bits. It doesn't know what
//! columns mean.

#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "to call what is compiled for a processor that was found to be there"
    )
)]

/// Writes a function that is compiled a second time for processors with AVX2.
macro_rules! wide {
    ($(#[$note:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $answer:ty)? $body:block) => {
        $(#[$note])*
        pub(crate) fn $name($($argument: $type),*) $(-> $answer)? {
            #[inline(always)]
            fn plain($($argument: $type),*) $(-> $answer)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($argument: $type),*) $(-> $answer)? {
                    plain($($argument),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2, which is all that the function asks for.
                    return unsafe { wide($($argument),*) };
                }
            }
            plain($($argument),*)
        }
    };
}

/// Values that are looked at side by side.
const LANES: usize = 8;

/// Costs that are looked at as a whole.
pub(crate) const BLOCK: usize = 32;

/// What prefill and decode cost on each row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Price {
    /// Tokens in a block, of which there is one at least.
    pub(crate) block_size: u32,
    /// Tokens of the prompt.
    pub(crate) prompt: f64,
    /// What a block of prefill costs.
    pub(crate) scale: f64,
}

/// How tokens become blocks.
trait Blocks: Copy {
    fn of(self, tokens: f64) -> f64;
}

/// By what tokens are divided.
#[derive(Clone, Copy)]
struct Size(f64);

/// By what they are multiplied: where the size is a power of two, its inverse is exact, so that this
/// gives the same bits, and is many times as fast.
#[derive(Clone, Copy)]
struct Inverse(f64);

impl Blocks for Size {
    #[inline(always)]
    fn of(self, tokens: f64) -> f64 {
        tokens / self.0
    }
}

impl Blocks for Inverse {
    #[inline(always)]
    fn of(self, tokens: f64) -> f64 {
        tokens * self.0
    }
}

impl Price {
    fn size(self) -> f64 {
        f64::from(self.block_size)
    }

    #[inline(always)]
    fn of(self, blocks: impl Blocks, credit: f64, tokens: f64, decode: f64) -> f64 {
        self.scale * positive(blocks.of(tokens) - credit) + decode
    }

    /// Cached tokens are left out and then put back, so that the discount is by the credit alone; what
    /// remains is the longer of the prompt and what is cached of it.
    #[inline(always)]
    fn longer(self, cached: f64) -> f64 {
        if cached > self.prompt { cached } else { self.prompt }
    }
}

/// The value, and 0 for what is below or no number; one instruction, which [`f64::max`] isn't.
#[inline(always)]
pub(crate) fn positive(value: f64) -> f64 {
    if value > 0.0 { value } else { 0.0 }
}

/// In blocks of this size: the body, once for each way to divide by it.
macro_rules! in_blocks {
    ($price:expr, |$blocks:ident| $body:expr) => {
        if $price.block_size.is_power_of_two() {
            let $blocks = Inverse(1.0 / $price.size());
            $body
        } else {
            let $blocks = Size($price.size());
            $body
        }
    };
}

wide! {
    /// The cost of each row, credited by what it holds, times a weight.
    fn price(
        price: Price,
        costs: &mut [f64],
        load: &[f64],
        decode: &[f64],
        credit: (f64, &[f64]),
        cached: &[f64],
    ) {
        let (weight, device) = credit;
        let held = device.iter().zip(cached);
        let rows = costs.iter_mut().zip(load).zip(decode).zip(held);
        in_blocks!(price, |blocks| {
            for (((to, &load), &decode), (&device, &cached)) in rows {
                *to = price.of(blocks, weight * device, load + price.longer(cached), decode);
            }
        });
    }
}

wide! {
    /// The cost of each row, credited by what stands in its place.
    fn price_credited(
        price: Price,
        costs: &mut [f64],
        load: &[f64],
        decode: &[f64],
        cached: &[f64],
    ) {
        let rows = costs.iter_mut().zip(load).zip(decode).zip(cached);
        in_blocks!(price, |blocks| {
            for (((to, &load), &decode), &cached) in rows {
                *to = price.of(blocks, *to, load + price.longer(cached), decode);
            }
        });
    }
}

wide! {
    /// The same where nothing is known to be cached.
    fn price_uncached(price: Price, costs: &mut [f64], load: &[f64], decode: &[f64]) {
        let rows = costs.iter_mut().zip(load).zip(decode);
        in_blocks!(price, |blocks| {
            rows.for_each(|((to, &load), &decode)| {
                *to = price.of(blocks, *to, load + price.prompt, decode);
            });
        });
    }
}

wide! {
    /// Writes each value with `plus` added.
    fn copy_plus(to: &mut [f64], from: &[f64], plus: f64) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from + plus);
    }
}

wide! {
    /// Writes each value times `by`, rounded as [`f64::round`] does.
    fn copy_times_rounded(to: &mut [f64], from: &[f64], by: f64) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = (from * by).round());
    }
}

wide! {
    /// Whether each value is finite.
    fn all_finite(values: &[f64]) -> bool {
        // What isn't finite is no number when it is multiplied by 0.
        let mut left = [0.0; LANES];
        let (eights, rest) = values.as_chunks::<LANES>();
        for eight in eights {
            left.iter_mut().zip(eight).for_each(|(left, value)| *left += value * 0.0);
        }
        left == [0.0; LANES] && rest.iter().all(|value| value.is_finite())
    }
}

wide! {
    /// The lowest cost, the first block of [`BLOCK`] rows that has it, and how many blocks have it. Infinity
    /// and no block if there is none.
    fn lowest(costs: &[f64]) -> (f64, usize, usize) {
        let (mut lowest, mut at, mut blocks) = (f64::INFINITY, 0, 0);
        for (block, costs) in costs.chunks(BLOCK).enumerate() {
            let least = least(costs);
            if least < lowest {
                (lowest, at, blocks) = (least, block, 1);
            } else if least == lowest {
                blocks += 1;
            }
        }
        (lowest, at, blocks)
    }
}

/// The only row of a block that costs so much; none if there is none, or another.
pub(crate) fn only(block: &[f64], cost: f64) -> Option<usize> {
    let rows = match block.first_chunk::<BLOCK>() {
        Some(whole) if block.len() == BLOCK => equal(whole, cost),
        _ => block.iter().rev().fold(0, |bits, row| bits << 1 | u32::from(*row == cost)),
    };
    rows.is_power_of_two().then(|| rows.trailing_zeros() as usize)
}

/// Which rows cost so much: bit r is the r-th.
fn equal(block: &[f64; BLOCK], cost: f64) -> u32 {
    /// What a compiler doesn't find by itself: the processor makes these bits of four rows at once.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn wide(block: &[f64; BLOCK], cost: f64) -> u32 {
        use std::arch::x86_64::{
            _CMP_EQ_OQ, _mm256_cmp_pd, _mm256_movemask_pd, _mm256_set1_pd, _mm256_setr_pd,
        };
        let (cost, mut rows) = (_mm256_set1_pd(cost), 0);
        for (nth, &[a, b, c, d]) in block.as_chunks::<4>().0.iter().enumerate() {
            let four = _mm256_cmp_pd::<_CMP_EQ_OQ>(_mm256_setr_pd(a, b, c, d), cost);
            rows |= (_mm256_movemask_pd(four) as u32) << (nth * 4);
        }
        rows
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, which is all that the function asks for.
        return unsafe { wide(block, cost) };
    }
    block.iter().rev().fold(0, |bits, row| bits << 1 | u32::from(*row == cost))
}

/// The least of a block; infinity if it holds no number.
#[inline(always)]
fn least(costs: &[f64]) -> f64 {
    // Side by side, so that none waits for the one before.
    let mut lanes = [f64::INFINITY; LANES];
    let (eights, rest) = costs.as_chunks::<LANES>();
    for eight in eights {
        lanes.iter_mut().zip(eight).for_each(|(lane, &cost)| *lane = lower(*lane, cost));
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let [a, b, c, d] = [lower(a, e), lower(b, f), lower(c, g), lower(d, h)];
    let least = lower(lower(a, c), lower(b, d));
    rest.iter().fold(least, |least, &cost| lower(least, cost))
}

#[inline(always)]
fn lower(least: f64, cost: f64) -> f64 {
    if cost < least { cost } else { least }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check_rounding(values: &[f64], by: f64) {
        let mut column = vec![f64::NAN; values.len()];
        copy_times_rounded(&mut column, values, by);
        for (&value, rounded) in values.iter().zip(column) {
            let expected = libm::round(value * by);
            assert!(rounded.to_bits() == expected.to_bits() || expected.is_nan(), "{value} * {by}");
        }
    }

    #[test]
    fn products_that_are_hard_to_round_are_rounded_wherever_they_stand() {
        let hard = [0.5, -0.5, 2.5, 0.49999999999999994, 1e-300, 1e15 + 0.5, 4.5e15 + 1.0, 1e300];
        for odd in hard.into_iter().chain([f64::INFINITY]) {
            for place in 0..19 {
                let mut values = [3.0; 19];
                values[place] = odd;
                check_rounding(&values, 1.0);
                check_rounding(&values, 16.0);
            }
        }
    }

    #[test]
    fn one_value_that_is_not_finite_is_found_wherever_it_stands() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for place in 0..19 {
                let mut values = [f64::MAX; 19];
                assert!(all_finite(&values));
                values[place] = odd;
                assert!(!all_finite(&values), "{odd} in row {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn products_are_rounded_as_the_standard_library_does(
            values in prop::collection::vec(prop_oneof![0.0..200.0_f64, any::<f64>()], 0..40),
            by in 1..100_u32,
        ) {
            check_rounding(&values, f64::from(by));
        }

        #[test]
        fn a_cost_that_one_row_has_is_found_and_no_other(
            block in prop::collection::vec(0..40_u8, 0..=BLOCK),
            whole in prop::collection::vec(0..40_u8, BLOCK),
        ) {
            for block in [block, whole] {
            let block: Vec<f64> = block.into_iter().map(f64::from).collect();
            for cost in [0.0, 4.0, 39.0, 40.0] {
                let rows: Vec<usize> = (0..block.len()).filter(|&row| block[row] == cost).collect();
                let expected = if let [row] = rows[..] { Some(row) } else { None };
                prop_assert_eq!(only(&block, cost), expected);
            }
            }
        }

        #[test]
        fn the_lowest_is_found_with_its_block(costs in prop::collection::vec(0..40_u8, 0..150)) {
            let costs: Vec<f64> = costs.into_iter().map(f64::from).collect();
            let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
            let blocks = costs.chunks(BLOCK);
            let has: Vec<usize> =
                blocks.enumerate().filter(|(_, b)| b.contains(&least)).map(|(at, _)| at).collect();
            let expected = (least, has.first().copied().unwrap_or(0), has.len());
            prop_assert_eq!(lowest(&costs), expected);
        }
    }
}
