//! Native stages in one call.
//!
//! Owns their order and the memory that they share: what they give is what they would give if they were
//! called one by one, held to the same. It doesn't know who is asked, or what becomes of a failure.

use super::{Declaration, Stages, guarded};
use crate::clock::Chance;
use crate::policy::answer::{check_costs, check_row};
use crate::policy::builtin::pick_lowest;
use crate::policy::candidates::{Candidates, Room};
use crate::policy::declaration::Stage;
use crate::policy::failure::StageError;
use crate::policy::instance::Outcome;
use crate::policy::pipeline::Selected;
use crate::policy::row_mask::RowMask;
use crate::policy::view::RequestView;

/// What one call needs of memory, kept for the next.
#[derive(Debug, Default)]
pub(super) struct Whole {
    verdicts: RowMask,
    kept: Vec<u32>,
    room: Room,
    contribution: Vec<f64>,
}

impl Whole {
    /// Asks the filters, the scorers with what those left, and the picker with what these gave. If no row is
    /// left, the outcome's costs stay what they were, and mean nothing.
    pub(super) fn decide(
        &mut self,
        stages: &mut Stages,
        declaration: &Declaration,
        spoilt: &mut bool,
        request: &RequestView<'_>,
        rows: Candidates<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), StageError> {
        let all = rows.rows();
        let asked = self.filter(stages, declaration, spoilt, (request, rows), outcome)?;
        let left = if asked { outcome.verdicts.kept() } else { all };
        if left == 0 {
            return Ok(());
        }
        let seen = if left == all {
            rows
        } else {
            self.kept.clear();
            self.kept.extend(outcome.verdicts.iter().map(|row| row as u32));
            rows.rows_of(&self.kept, &mut self.room)
        };
        let costs = &mut outcome.costs;
        for (nth, (declared, scorer)) in stages.scorers.iter_mut().enumerate() {
            let name = declaration.scorers.get(nth);
            let seen = seen.for_stage(*declared);
            let own = if nth == 0 { &mut *costs } else { &mut self.contribution };
            if !scorer.leaves_none_out() {
                // A row that is left out is found by that.
                own.clear();
            }
            own.resize(left, f64::NAN);
            guarded(spoilt, || scorer.score(request, &seen, own)).map_err(|e| of_stage(e, name))?;
            if nth > 0 {
                costs.iter_mut().zip(&self.contribution).for_each(|(sum, cost)| *sum += cost);
            }
            // A contribution that isn't finite never makes a finite sum.
            check_costs(costs, seen.ids()).map_err(|e| of_stage(e, name))?;
        }
        let costs = if stages.scorers.is_empty() {
            costs.clear();
            self.contribution.clear();
            self.contribution.resize(left, 0.0);
            &self.contribution
        } else {
            &*costs
        };
        let picked = match &mut stages.picker {
            None => pick_lowest(costs, &mut Chance::new(request.moment.seed)),
            Some((declared, picker)) => {
                let seen = seen.for_stage(*declared);
                guarded(spoilt, || picker.pick(request, &seen, costs))
                    .and_then(|row| check_row(row, left))
                    .map_err(|e| of_stage(e, declaration.picker.as_ref()))?
            }
        };
        let place = if left == all { None } else { self.kept.get(picked) };
        outcome.row = place.map_or(picked, |&row| row as usize);
        // Not -0: a cost is a number that people read.
        let cost = costs.get(picked).copied().unwrap_or(0.0) + 0.0;
        outcome.checked = Some(Selected { row: outcome.row, cost, kept: left });
        Ok(())
    }

    /// Asks those filters whom the request concerns; false if there was none.
    fn filter(
        &mut self,
        stages: &mut Stages,
        declaration: &Declaration,
        spoilt: &mut bool,
        (request, rows): (&RequestView<'_>, Candidates<'_>),
        outcome: &mut Outcome,
    ) -> Result<bool, StageError> {
        let (all, mut asked) = (rows.rows(), false);
        for (nth, (declared, filter)) in stages.filters.iter_mut().enumerate() {
            let name = declaration.filters.get(nth);
            if !filter.concerns(request) {
                continue;
            }
            let seen = rows.for_stage(*declared);
            // The first has the mask as it came.
            let own = if asked { &mut self.verdicts } else { &mut outcome.verdicts };
            own.keep_all(all);
            guarded(spoilt, || filter.keep(request, &seen, own)).map_err(|e| of_stage(e, name))?;
            let got = own.rows();
            if got != all || (asked && !outcome.verdicts.and(self.verdicts.words())) {
                let text = format!("verdicts on {got} rows instead of {all}");
                return Err(of_stage(StageError::bad_output(text), name));
            }
            asked = true;
        }
        Ok(asked)
    }
}

/// The failure of one stage, with its name: the whole call is another's.
fn of_stage(error: StageError, stage: Option<&Stage>) -> StageError {
    let name = stage.map_or("", |stage| &stage.name);
    StageError { detail: format!("{name}: {}", error.detail), ..error }
}
