//! All stages of an instance in one call: what the separate calls would have given, without the
//! crossings.

use super::left::Left;
use super::{Call, Instance, Which, unscored};
use crate::Result;
use crate::context::Stream;
use crate::lanes::Lanes;
use crate::lists::{self, Lists};
use crate::request::Request;

/// What a fused call gives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Kept rows as a bit mask, all filters together; empty when all rows are kept, as they are
    /// without a filter.
    pub verdicts: Vec<u64>,
    /// One summed cost per kept row; empty when the policy has no scorer.
    pub costs: Vec<f64>,
    /// The chosen row, an index into the rows that were given; 0 when no row was kept.
    pub row: u32,
}

/// Buffers that live from call to call.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    left: Left,
    /// One filter's verdicts.
    mask: Vec<u64>,
    /// One scorer's costs, or zeros for a picker without scorers.
    costs: Vec<f64>,
}

impl Instance {
    /// Decides over lists that hold the [fused inputs](crate::native::Declaration::fused_inputs).
    ///
    /// A cost that isn't finite is handed over for the host to refuse, and then nothing is picked.
    ///
    /// # Errors
    ///
    /// The first refusal of a stage, an undeclared read, or lists that don't match the declaration.
    pub fn decide(
        &mut self,
        request: &Request,
        lists: Lists<'_>,
        decision: &mut Decision,
    ) -> Result {
        decision.verdicts.clear();
        decision.costs.clear();
        decision.row = 0;
        let Self { environment, stages, spread, scratch, .. } = self;
        let Scratch { left, mask, costs: spare } = scratch;
        let given = lists;
        if let Some(matrix) = stages.fused_matrix() {
            lists::check(given, matrix)?;
            spread.hold(given, matrix);
        }
        let spread = &*spread;
        let call = |stream| Call { request, environment, spread, stream };

        left.all();
        for (index, part) in stages.filters.iter_mut().enumerate() {
            // The first that doesn't keep all writes the verdicts, each further one takes from them.
            let is_first = decision.verdicts.is_empty();
            let verdicts = if is_first { &mut decision.verdicts } else { &mut *mask };
            let call = call(Stream::Filter(index));
            call.run("filter", part, Which::Fused, given, |stage, cx, rows| {
                stage.run(cx, rows, verdicts)
            })?;
            if !is_first && !mask.is_empty() {
                for (verdicts, further) in decision.verdicts.iter_mut().zip(&*mask) {
                    *verdicts &= further;
                }
            }
        }
        if !decision.verdicts.is_empty() {
            if let Some(filter) = stages.filters.first() {
                left.only(&decision.verdicts, given, filter.fused.matrix());
            }
        }

        let lists = left.lists(given);
        let rows = lists.rows as usize;
        if rows == 0 {
            return Ok(());
        }
        for (index, part) in stages.scorers.iter_mut().enumerate() {
            let costs = if index == 0 { &mut decision.costs } else { &mut *spare };
            let call = call(Stream::Scorer(index));
            call.run("scorer", part, Which::Fused, lists, |stage, cx, rows| {
                unscored(costs, rows.len());
                stage.score(cx, rows, costs)
            })?;
            if index > 0 {
                for (sum, cost) in decision.costs.iter_mut().zip(&*spare) {
                    *sum += cost;
                }
            }
        }
        if !all_finite(&decision.costs) {
            return Ok(());
        }
        let costs = if stages.scorers.is_empty() {
            spare.clear();
            spare.resize(rows, 0.0);
            &*spare
        } else {
            &decision.costs
        };
        let row = call(Stream::Picker).pick(stages.picker.as_mut(), Which::Fused, lists, costs)?;
        decision.row = left.given_row(row);
        Ok(())
    }
}

/// Whether each cost is finite. A sum is finite only if every part was, so the sums tell of all
/// scorers.
fn all_finite(costs: &[f64]) -> bool {
    let mut blocks = costs.chunks_exact(2 * Lanes::ROWS);
    let mut finite = true;
    for block in &mut blocks {
        let (first, rest) = block.split_at(Lanes::ROWS);
        let lanes =
            |rows: &[f64]| rows.first_chunk().is_some_and(|eight| Lanes::of(eight).are_finite());
        finite &= lanes(first) & lanes(rest);
    }
    finite && blocks.remainder().iter().all(|cost| cost.is_finite())
}

#[cfg(test)]
mod tests {
    use super::all_finite;

    #[test]
    fn one_cost_that_is_not_finite_is_found_wherever_it_stands() {
        for odd in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for place in 0..35 {
                let mut costs = [f64::MAX; 35];
                assert!(all_finite(&costs));
                costs[place] = odd;
                assert!(!all_finite(&costs), "{odd} in row {place}");
            }
        }
    }
}
