//! What an answer must be, whoever gave it and however it was asked for.

use super::failure::StageError;
use crate::ids::WorkerRank;
use crate::lanes;

/// That every cost is finite. A contribution that isn't never makes a finite sum.
pub(super) fn check_costs<'a>(
    costs: &[f64],
    mut ids: impl Iterator<Item = &'a WorkerRank>,
) -> Result<(), StageError> {
    // A bad row is looked for only if there is one.
    if lanes::all_finite(costs) {
        return Ok(());
    }
    let row = costs.iter().position(|cost| !cost.is_finite()).unwrap_or(0);
    let cost = costs.get(row).copied().unwrap_or(f64::NAN);
    let worker = ids.nth(row).map(|id| format!(" (worker {id})")).unwrap_or_default();
    Err(StageError::bad_output(format!(
        "the cost of row {row}{worker} is {cost}, not a finite number"
    )))
}

/// That a row is one of `rows`.
pub(super) fn check_row(row: usize, rows: usize) -> Result<usize, StageError> {
    if row < rows {
        Ok(row)
    } else {
        Err(StageError::bad_output(format!("row {row} was picked out of {rows}")))
    }
}
