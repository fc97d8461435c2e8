//! An instance's stages in one call, held to what the calls one by one would have to give.

use super::{Pipeline, RunError, Scratch, Selected};
use crate::policy::answer::{check_costs, check_row};
use crate::policy::candidates::Candidates;
use crate::policy::failure::{StageError, StageFailure, StageKind};
use crate::policy::input::InputSet;
use crate::policy::view::RequestView;

impl Pipeline {
    pub(super) fn run_fused(
        &mut self,
        request: &RequestView<'_>,
        declared: InputSet,
    ) -> Result<Selected, RunError> {
        let Self { name, sources, scratch, whole_on_failure, filters, scorers, fuel_left, .. } =
            self;
        let Some(source) = sources.first_mut() else { return Err(RunError::AllFiltered) };
        let rows = scratch.ids.len();
        let hashes = source.instance.declaration().prefix_hash_blocks;
        let hashes = request.prefix_hashes(hashes);
        let seen = Candidates::of_rows(&scratch.ids, &scratch.matrix, declared, hashes);
        scratch.outcome.verdicts.keep_all(rows);
        if !source.instance.replaces_costs() {
            scratch.outcome.costs.clear();
        }
        (scratch.outcome.row, scratch.outcome.checked) = (0, None);
        let answer = source.call(request.moment.now_ms, fuel_left, |instance| {
            instance.decide(request, &seen, &mut scratch.outcome)
        });
        let answer = answer.and_then(|()| check(scratch, !filters.is_empty(), !scorers.is_empty()));
        source.note(answer.as_ref().err());
        let spent = source.spent();
        scratch.trace.push(name, StageKind::Fused, spent, answer.as_ref().err());
        match answer {
            Ok(Some(selected)) => {
                if selected.kept < rows {
                    scratch.kept.clear();
                    scratch.kept.extend(scratch.outcome.verdicts.iter().map(|row| row as u32));
                }
                Ok(selected)
            }
            Ok(None) => Err(RunError::AllFiltered),
            Err(error) => Err(RunError::Failed {
                failure: Box::new(StageFailure {
                    policy: name.clone(),
                    kind: StageKind::Fused,
                    stage: "decide".to_owned(),
                    cause: error.cause,
                    detail: error.detail,
                }),
                on_failure: *whole_on_failure,
            }),
        }
    }
}

/// What was chosen; none when no row was kept.
fn check(scratch: &Scratch, filters: bool, scores: bool) -> Result<Option<Selected>, StageError> {
    let Scratch { ids, outcome, .. } = scratch;
    if outcome.checked.is_some() {
        return Ok(outcome.checked);
    }
    let rows = ids.len();
    let got = outcome.verdicts.rows();
    if filters && got != rows {
        return Err(StageError::bad_output(format!("verdicts on {got} rows instead of {rows}")));
    }
    let kept = if filters { outcome.verdicts.kept() } else { rows };
    if kept == 0 {
        return Ok(None);
    }
    let wanted = if scores { kept } else { 0 };
    let got = outcome.costs.len();
    if got != wanted {
        return Err(StageError::bad_output(format!("{got} costs for {wanted} kept rows")));
    }
    if filters {
        check_costs(&outcome.costs, outcome.verdicts.iter().filter_map(|row| ids.get(row)))?;
    } else {
        check_costs(&outcome.costs, ids.iter())?;
    }
    let row = check_row(outcome.row, rows)?;
    if filters && !outcome.verdicts.keeps(row) {
        return Err(StageError::bad_output(format!("row {row} was picked, but not kept")));
    }
    let at = if filters { outcome.verdicts.kept_before(row) } else { row };
    let cost = outcome.costs.get(at).copied().unwrap_or(0.0);
    Ok(Some(Selected { row, cost: cost + 0.0, kept }))
}
