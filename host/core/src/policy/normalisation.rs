//! What is made of a scorer's costs before they are weighed and added to others'.
//!
//! Owns the ways to bring costs of unlike scales, as tokens and requests, to one from 0 to 1. It is
//! by the rows that the filters left, of one decision alone. It doesn't know weights.

use serde::Serialize;

/// How one scorer's costs are brought to the scale of others'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalisation {
    /// As they are.
    #[default]
    None,
    /// The lowest becomes 0, the highest 1, and the others what they are between these. All are 0 where
    /// none is lower than another.
    MinMax,
    /// The share of the other rows that cost less: the lowest becomes 0, the highest 1 if it is alone.
    /// Equal costs stay equal. How far costs lie apart is of no account.
    Rank,
}

impl Normalisation {
    /// Whether it leaves costs as they are.
    pub(super) fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Brings finite costs to the scale; `order` is memory for it.
    pub(super) fn apply(self, costs: &mut [f64], order: &mut Vec<u32>) {
        match self {
            Self::None => {}
            Self::MinMax => min_max(costs),
            Self::Rank => rank(costs, order),
        }
    }
}

fn min_max(costs: &mut [f64]) {
    let low = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low >= high {
        costs.fill(0.0);
        return;
    }
    // The range of two finite costs may overflow; then everything shrinks first.
    let shrink = if (high - low).is_finite() { 1.0 } else { low.abs().max(high.abs()) };
    let (low, high) = (low / shrink, high / shrink);
    costs.iter_mut().for_each(|cost| *cost = (*cost / shrink - low) / (high - low));
}

fn rank(costs: &mut [f64], order: &mut Vec<u32>) {
    let others = costs.len().saturating_sub(1).max(1) as f64;
    order.clear();
    order.extend(0..costs.len() as u32);
    let cost = |row: u32| costs.get(row as usize).copied().unwrap_or(0.0);
    // By number, so that 0 and -0 are as high.
    order.sort_unstable_by(|&a, &b| (cost(a) + 0.0).total_cmp(&(cost(b) + 0.0)));
    let (mut last, mut share) = (f64::NAN, 0.0);
    for (place, &row) in order.iter().enumerate() {
        if let Some(cost) = costs.get_mut(row as usize) {
            if *cost != last {
                (last, share) = (*cost, place as f64 / others);
            }
            *cost = share;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn applied(normalisation: Normalisation, costs: &[f64]) -> Vec<f64> {
        let mut costs = costs.to_vec();
        normalisation.apply(&mut costs, &mut vec![7; 3]);
        costs
    }

    #[test]
    fn costs_of_any_scale_come_to_lie_between_0_and_1() {
        use Normalisation::{MinMax, None, Rank};
        let cases: [(Normalisation, &[f64], &[f64]); 11] = [
            (None, &[3.0, -7.0], &[3.0, -7.0]),
            (MinMax, &[30.0, 10.0, 20.0, 15.0], &[1.0, 0.0, 0.5, 0.25]),
            (MinMax, &[-4.0, -2.0], &[0.0, 1.0]),
            (MinMax, &[5.0, 5.0, 5.0], &[0.0, 0.0, 0.0]),
            (MinMax, &[f64::MAX, f64::MIN, 0.0], &[1.0, 0.0, 0.5]),
            (MinMax, &[], &[]),
            (Rank, &[1e9, 10.0, 20.0], &[1.0, 0.0, 0.5]),
            (Rank, &[2.0, 1.0, 2.0, 3.0, 1.0], &[0.5, 0.0, 0.5, 1.0, 0.0]),
            (Rank, &[0.0, -0.0, 1.0], &[0.0, 0.0, 1.0]),
            (Rank, &[8.0], &[0.0]),
            (Rank, &[], &[]),
        ];
        for (normalisation, costs, expected) in cases {
            assert_eq!(applied(normalisation, costs), expected, "{normalisation:?} of {costs:?}");
        }
    }

    proptest! {
        #[test]
        fn no_two_rows_change_places_and_nobody_leaves_the_range(
            costs in prop::collection::vec(
                prop_oneof![(-4..4_i32).prop_map(f64::from), any::<f64>().prop_filter("finite", |c| c.is_finite())],
                1..40,
            ),
        ) {
            for normalisation in [Normalisation::MinMax, Normalisation::Rank] {
                let after = applied(normalisation, &costs);
                prop_assert!(after.iter().all(|cost| (0.0..=1.0).contains(cost)), "{:?}", after);
                for (a, b) in (0..costs.len()).flat_map(|a| (0..costs.len()).map(move |b| (a, b))) {
                    if costs[a] < costs[b] {
                        prop_assert!(after[a] <= after[b], "{:?}: rows {} and {}", normalisation, a, b);
                    } else if costs[a] == costs[b] {
                        prop_assert_eq!(after[a], after[b]);
                    }
                }
            }
        }
    }
}
