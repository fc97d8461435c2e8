//! Ways to choose a row, for pickers.
//!
//! Each takes one cost per row and gives a row's index; none allocates. With no costs at all the
//! answer is 0, which the host refuses. Costs that a host has checked are finite.

use crate::lanes::Lanes;
use crate::math;
use crate::random::Random;

/// The lowest cost; among equals each with the same chance.
///
/// This is what the host does for policies without a picker, bit for bit: rows in ascending order;
/// a strictly lower cost takes over; the n-th equal one takes over with probability 1/n, by one
/// draw of [`Random::unit`]. Where one cost alone is the lowest nothing is drawn: what ties of higher
/// costs would have said is of no account.
pub fn lowest(costs: &[f64], random: &mut Random) -> usize {
    // The lowest so far, the first block that has it, and how many have.
    let (mut lowest, mut at, mut blocks) = (f64::INFINITY, 0, 0);
    for (start, block) in (0..).step_by(BLOCK).zip(costs.chunks(BLOCK)) {
        let least = least(block);
        if least < lowest {
            (lowest, at, blocks) = (least, start, 1);
        } else if least == lowest {
            blocks += 1;
        }
    }
    let block = costs.get(at..).filter(|_| blocks == 1).unwrap_or_default();
    let rows = equal(&block[..block.len().min(BLOCK)], lowest);
    if rows.count_ones() == 1 {
        return at + rows.trailing_zeros() as usize;
    }
    in_turn(costs, random)
}

/// The same, row by row.
#[cold]
fn in_turn(costs: &[f64], random: &mut Random) -> usize {
    let (mut best, mut lowest, mut ties) = (0, f64::INFINITY, 0_u32);
    for (row, &cost) in costs.iter().enumerate() {
        if cost < lowest || (ties == 0 && cost == lowest) {
            (best, lowest, ties) = (row, cost, 1);
        } else if cost == lowest {
            ties += 1;
            if random.unit() < 1.0 / f64::from(ties) {
                best = row;
            }
        }
    }
    best
}

/// The lowest cost; the first among equals.
pub fn first_lowest(costs: &[f64]) -> usize {
    let mut best = 0;
    let mut lowest = f64::INFINITY;
    let mut first = 0;
    for block in costs.chunks(BLOCK) {
        if least(block) < lowest {
            for (row, &cost) in (first..).zip(block) {
                if cost < lowest {
                    (best, lowest) = (row, cost);
                }
            }
        }
        first += BLOCK;
    }
    best
}

/// The highest value; the last among equals.
pub fn last_highest(values: &[f64]) -> usize {
    let mut best = 0;
    let mut highest = f64::NEG_INFINITY;
    for (row, &value) in values.iter().enumerate() {
        if value >= highest {
            (best, highest) = (row, value);
        }
    }
    best
}

/// Costs that are looked at as a whole: as many as there are bits to say which.
const BLOCK: usize = 64;

/// Rows that are looked at at once.
const ROWS: usize = Lanes::ROWS;

/// The least of a block, NaN left out.
#[inline]
fn least(block: &[f64]) -> f64 {
    let Some(block) = block.first_chunk::<BLOCK>() else { return least_of_few(block) };
    let eights = block.chunks_exact(ROWS).filter_map(|eight| eight.first_chunk());
    eights.fold(Lanes::splat(f64::INFINITY), |least, eight| Lanes::of(eight).lower(least)).least()
}

/// The same of fewer rows.
#[inline(never)]
fn least_of_few(block: &[f64]) -> f64 {
    let eights = block.chunks_exact(ROWS);
    let rest = eights.remainder();
    let eights = eights.filter_map(|eight| eight.first_chunk());
    let least =
        eights.fold(Lanes::splat(f64::INFINITY), |least, eight| Lanes::of(eight).lower(least));
    let lower = |least, &cost: &f64| if cost < least { cost } else { least };
    rest.iter().fold(least.least(), lower)
}

/// Which rows of a block have this cost, by bits.
#[inline]
fn equal(block: &[f64], cost: f64) -> u64 {
    let Some(block) = block.first_chunk::<BLOCK>() else {
        return block.iter().rev().fold(0, |bits, other| bits << 1 | u64::from(*other == cost));
    };
    let eights = block.chunks_exact(ROWS).filter_map(|eight| eight.first_chunk());
    eights.rev().fold(0, |bits, eight| bits << ROWS | u64::from(Lanes::of(eight).equal(cost)))
}

/// A draw that prefers low costs the more, the lower `temperature` is; [`lowest`] at temperature 0
/// or below.
///
/// Costs are first normalised to their range: a row's weight is `exp(-(cost - min) / ((max - min) *
/// temperature))`, and equal costs weigh the same. One draw, spent before any weighing.
pub fn softmax(costs: &[f64], temperature: f64, random: &mut Random) -> usize {
    if temperature.is_nan() || temperature <= 0.0 {
        return lowest(costs, random);
    }
    let draw = random.unit();
    let mut min = f64::INFINITY;
    let mut max = f64::NEG_INFINITY;
    for &cost in costs {
        min = min.min(cost);
        max = max.max(cost);
    }
    if max <= min {
        return ((draw * costs.len() as f64) as usize).min(costs.len().saturating_sub(1));
    }
    // A range that overflows is halved exactly, by its larger end, before it is taken.
    let scale = if (max - min).is_finite() { 1.0 } else { min.abs().max(max.abs()) };
    let (min, range) = (min / scale, (max / scale - min / scale) * temperature);
    let weight = |cost: f64| {
        let above = cost / scale - min;
        // The lowest weighs 1 even where the temperature makes the range too small for a double.
        if above == 0.0 { 1.0 } else { math::exp(-above / range) }
    };
    let total: f64 = costs.iter().map(|&cost| weight(cost)).sum();
    let mut cumulative = 0.0;
    for (row, &cost) in costs.iter().enumerate() {
        cumulative += weight(cost) / total;
        if draw <= cumulative {
            return row;
        }
    }
    costs.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_cost_wins_and_draws_nothing() {
        let mut random = Random::new(9);
        assert_eq!(lowest(&[3.0, 1.0, 2.0], &mut random), 1);
        assert_eq!(random, Random::new(9));
    }

    #[test]
    fn ties_are_fair_and_the_seed_decides() {
        let mut counts = [0; 4];
        for seed in 0..4_000 {
            let row = lowest(&[1.0, 1.0, 5.0, 1.0], &mut Random::new(seed));
            assert_eq!(row, lowest(&[1.0, 1.0, 5.0, 1.0], &mut Random::new(seed)));
            counts[row] += 1;
        }
        assert_eq!(counts[2], 0);
        for row in [0, 1, 3] {
            assert!(
                (1_180..1_490).contains(&counts[row]),
                "row {row} was chosen {} times",
                counts[row]
            );
        }
    }

    #[test]
    fn many_rows_are_chosen_from_as_one_by_one() {
        let mut random = Random::new(5);
        for rows in 0..300 {
            for kinds in [3, 40, 1_000_000] {
                let mut costs: Vec<f64> = (0..rows).map(|_| random.below(kinds) as f64).collect();
                for odd in [f64::INFINITY, f64::NAN, f64::NEG_INFINITY, -0.0] {
                    let first =
                        costs.iter().copied().enumerate().filter(|(_, cost)| !cost.is_nan());
                    let first =
                        first.reduce(|best, next| if next.1 < best.1 { next } else { best });
                    let first =
                        first.filter(|(_, cost)| *cost < f64::INFINITY).map_or(0, |(at, _)| at);
                    assert_eq!(first_lowest(&costs), first, "{costs:?}");
                    let seed = random.next_u64();
                    let (mut at_once, mut by_turns) = (Random::new(seed), Random::new(seed));
                    assert_eq!(
                        lowest(&costs, &mut at_once),
                        in_turn(&costs, &mut by_turns),
                        "{costs:?}"
                    );
                    if let Some(cost) = costs.get_mut(random.below(rows)) {
                        *cost = odd;
                    }
                }
            }
        }
    }

    #[test]
    fn equal_values_go_to_the_first_or_the_last_as_named() {
        assert_eq!(first_lowest(&[2.0, 1.0, 1.0]), 1);
        assert_eq!(last_highest(&[2.0, 2.0, 1.0]), 1);
        assert_eq!(first_lowest(&[]), 0);
        assert_eq!(last_highest(&[]), 0);
    }

    #[test]
    fn softmax_is_uniform_over_equals_and_sharp_when_cold() {
        let mut random = Random::new(1);
        let mut counts = [0; 3];
        for _ in 0..3_000 {
            counts[softmax(&[4.0, 4.0, 4.0], 0.5, &mut random)] += 1;
        }
        assert!(counts.iter().all(|count| (880..1_120).contains(count)), "{counts:?}");
        for _ in 0..100 {
            assert_eq!(softmax(&[4.0, 1.0, 9.0], 0.001, &mut random), 1);
            assert_eq!(softmax(&[4.0, 1.0, 9.0], 0.0, &mut random), 1);
        }
    }

    #[test]
    fn softmax_takes_any_finite_costs() {
        let mut random = Random::new(1);
        for _ in 0..100 {
            assert!(softmax(&[f64::MAX, f64::MIN, 0.0], 1.0, &mut random) < 3);
            assert_eq!(softmax(&[f64::MIN_POSITIVE, 0.0], f64::MIN_POSITIVE, &mut random), 1);
        }
        assert_eq!(softmax(&[], 1.0, &mut random), 0);
        assert_eq!(softmax(&[2.0], 1.0, &mut random), 0);
    }
}
