//! The stages of one policy in one partition, run in order and checked.
//!
//! Owns the instances, the reused buffers of a decision, and the host's checks of every answer.
//! It is asked under its partition's lock: first [`Pipeline::load`] with the eligible rows, then
//! [`Pipeline::run`]. It doesn't know who is eligible, what becomes of a failure, or who books.

mod stages;

use std::sync::Arc;

use super::builtin::pick_lowest;
use super::candidates::{Candidates, Matrix, RowMask};
use super::catalog::Digest;
use super::failure::{StageError, StageFailure, StageKind};
use super::input::{Input, InputSet};
use super::instance::{Outcome, PolicyInstance};
use super::selection::OnFailure;
use super::view::RequestView;
use crate::clock::Chance;
use crate::fleet::Snapshot;
use crate::ids::WorkerRank;
use crate::receipt::StageTrace;

/// An instance, with what it was made from.
#[derive(Debug)]
pub struct Source {
    instance: Box<dyn PolicyInstance>,
    policy_type: Arc<str>,
    digest: Option<Digest>,
}

impl Source {
    /// An instance of `policy_type`.
    #[must_use]
    pub fn new(
        instance: Box<dyn PolicyInstance>,
        policy_type: Arc<str>,
        digest: Option<Digest>,
    ) -> Self {
        Self { instance, policy_type, digest }
    }

    /// Its type.
    #[must_use]
    pub fn policy_type(&self) -> &Arc<str> {
        &self.policy_type
    }

    /// Its component's identity; none for a native policy.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }
}

/// One stage in use.
#[derive(Debug)]
struct StageRef {
    source: usize,
    stage: usize,
    name: Arc<str>,
    inputs: Vec<Input>,
    declared: InputSet,
    weight: f64,
    on_failure: OnFailure,
}

/// The stages, in order.
#[derive(Debug)]
pub struct Pipeline {
    name: Arc<str>,
    discard_state: bool,
    sources: Vec<Source>,
    filters: Vec<StageRef>,
    scorers: Vec<StageRef>,
    picker: Option<StageRef>,
    /// The whole instance's inputs, when it can decide in one call.
    fused: Option<InputSet>,
    whole_on_failure: OnFailure,
    scratch: Scratch,
}

/// What one decision needs of memory, kept for the next.
#[derive(Debug, Default)]
struct Scratch {
    matrix: Matrix,
    ids: Vec<WorkerRank>,
    /// Where each row that is left stood when the rows were loaded.
    kept: Vec<u32>,
    loaded: usize,
    mask: RowMask,
    verdicts: RowMask,
    costs: Vec<f64>,
    contribution: Vec<f64>,
    outcome: Outcome,
    trace: Vec<StageTrace>,
}

/// The chosen row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selected {
    /// An index into the rows that were loaded.
    pub row: usize,
    /// Its cost; 0 when nothing scored.
    pub cost: f64,
    /// How many rows the filters left.
    pub kept: usize,
}

/// Why nothing was chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// The filters left no row. Not a failure of theirs.
    AllFiltered,
    /// A stage failed.
    Failed {
        /// How.
        failure: StageFailure,
        /// What its owner wants done about it.
        on_failure: OnFailure,
    },
}

impl Pipeline {
    /// The instance's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether a reload goes on when state can't be handed over.
    #[must_use]
    pub fn discards_state(&self) -> bool {
        self.discard_state
    }

    /// Its instances' types and digests.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// What each stage of the last run cost.
    #[must_use]
    pub fn trace(&self) -> &[StageTrace] {
        &self.scratch.trace
    }

    /// Takes in the rows of a decision: their identity, and each column that some stage declared.
    pub fn load(
        &mut self,
        snapshot: &Snapshot,
        rows: &[u32],
        fill: impl FnMut(Input, &mut [f64]),
    ) {
        let scratch = &mut self.scratch;
        scratch.loaded = rows.len();
        scratch.ids.clear();
        scratch.ids.extend(rows.iter().filter_map(|&row| snapshot.rows.get(row as usize)));
        scratch.kept.clear();
        scratch.kept.extend(0..rows.len() as u32);
        scratch.matrix.fill(rows.len(), fill);
    }

    /// Runs the stages over the rows that were loaded; at least one. With `parts`, every stage is
    /// called by itself, so that [`Pipeline::rows`] can tell verdicts and costs.
    pub fn run(&mut self, request: &RequestView<'_>, parts: bool) -> Result<Selected, RunError> {
        self.scratch.trace.clear();
        match self.fused {
            Some(declared) if !parts => self.run_fused(request, declared),
            _ => {
                self.run_filters(request)?;
                self.run_scorers(request)?;
                self.run_picker(request)
            }
        }
    }

    /// The rows that were loaded, as the last run left them: (index, cost if kept).
    pub fn rows(&self) -> impl Iterator<Item = (usize, Option<f64>)> + '_ {
        let mut kept = self.scratch.kept.iter().zip(&self.scratch.costs).peekable();
        (0..self.scratch.loaded).map(move |row| {
            let cost = kept.next_if(|(at, _)| **at as usize == row).map(|(_, &cost)| cost);
            (row, cost)
        })
    }

    /// Tells the instances that asked for it that the fleet has changed. Failures are reported,
    /// and don't stop the others.
    pub fn fleet_changed(&mut self, fleet: &Snapshot) -> Vec<(Arc<str>, StageError)> {
        let followers = self
            .sources
            .iter_mut()
            .filter(|source| source.instance.declaration().properties.follows_fleet);
        followers
            .filter_map(|source| {
                let error = source.instance.fleet_changed(fleet).err()?;
                Some((source.policy_type.clone(), error))
            })
            .collect()
    }

    /// Hands the state of `old` over, where the same type stands at the same place in both and
    /// both can. Returns whether anything was handed over.
    pub fn take_over(&mut self, old: &mut Self) -> Result<bool, StageFailure> {
        let mut any = false;
        for (new, old) in self.sources.iter_mut().zip(&mut old.sources) {
            let both_can = [&*new, &*old]
                .iter()
                .all(|source| source.instance.declaration().properties.hands_over);
            if new.policy_type != old.policy_type || !both_can {
                continue;
            }
            let handed = match old.instance.save() {
                None => continue,
                Some(state) => state.and_then(|state| new.instance.restore(&state)),
            };
            handed.map_err(|error| StageFailure {
                policy: self.name.clone(),
                kind: StageKind::Fused,
                stage: "handover".to_owned(),
                cause: error.cause,
                detail: error.detail,
            })?;
            any = true;
        }
        Ok(any)
    }

    fn run_filters(&mut self, request: &RequestView<'_>) -> Result<(), RunError> {
        let Self { name, sources, filters, scratch, .. } = self;
        if filters.is_empty() {
            return Ok(());
        }
        let rows = scratch.ids.len();
        scratch.mask.keep_all(rows);
        for filter in filters.iter() {
            let seen = Candidates::new(&scratch.ids, &scratch.matrix, filter.declared, &[]);
            scratch.verdicts.keep_all(rows);
            let instance = &mut sources[filter.source].instance;
            let answer = instance.keep(filter.stage, request, &seen, &mut scratch.verdicts);
            scratch.trace.push(filter.trace(StageKind::Filter, instance.last_fuel()));
            let answer = answer.and_then(|()| {
                if scratch.mask.and(scratch.verdicts.words()) {
                    Ok(())
                } else {
                    Err(StageError::bad_output(format!("the verdicts are not {rows} rows long")))
                }
            });
            if let Err(error) = answer {
                filter.fail(name, StageKind::Filter, error)?;
            }
        }
        Self::drop_rejected(scratch)
    }

    /// Leaves only the rows that the mask keeps.
    fn drop_rejected(scratch: &mut Scratch) -> Result<(), RunError> {
        if scratch.mask.kept() < scratch.ids.len() {
            scratch.kept.clear();
            scratch.kept.extend(scratch.mask.iter().map(|row| row as u32));
            scratch.costs.clear();
            if scratch.kept.is_empty() {
                return Err(RunError::AllFiltered);
            }
            scratch.matrix.compact(&scratch.kept);
            for (to, &from) in scratch.kept.iter().enumerate() {
                scratch.ids[to] = scratch.ids[from as usize];
            }
            scratch.ids.truncate(scratch.kept.len());
        }
        Ok(())
    }

    fn run_scorers(&mut self, request: &RequestView<'_>) -> Result<(), RunError> {
        let Self { name, sources, scorers, scratch, .. } = self;
        let rows = scratch.ids.len();
        scratch.costs.clear();
        scratch.costs.resize(rows, 0.0);
        for scorer in scorers.iter() {
            let seen = Candidates::new(&scratch.ids, &scratch.matrix, scorer.declared, &[]);
            scratch.contribution.clear();
            scratch.contribution.resize(rows, f64::NAN);
            let instance = &mut sources[scorer.source].instance;
            let answer = instance.score(scorer.stage, request, &seen, &mut scratch.contribution);
            scratch.trace.push(scorer.trace(StageKind::Scorer, instance.last_fuel()));
            let answer = answer.and_then(|()| {
                add_costs(
                    &mut scratch.costs,
                    &mut scratch.contribution,
                    scorer.weight,
                    &scratch.ids,
                )
            });
            if let Err(error) = answer {
                scorer.fail(name, StageKind::Scorer, error)?;
            }
        }
        Ok(())
    }

    fn run_picker(&mut self, request: &RequestView<'_>) -> Result<Selected, RunError> {
        let Self { name, sources, picker, scratch, .. } = self;
        let rows = scratch.ids.len();
        let row = match picker {
            None => pick_lowest(&scratch.costs, &mut Chance::new(request.moment.seed)),
            Some(picker) => {
                let seen = Candidates::new(&scratch.ids, &scratch.matrix, picker.declared, &[]);
                let instance = &mut sources[picker.source].instance;
                let answer = instance.pick(request, &seen, &scratch.costs);
                scratch.trace.push(picker.trace(StageKind::Picker, instance.last_fuel()));
                match answer.and_then(|row| check_row(row, rows)) {
                    Ok(row) => row,
                    Err(error) => return Err(picker.failed(name, StageKind::Picker, error)),
                }
            }
        };
        Ok(Selected { row: scratch.kept[row] as usize, cost: scratch.costs[row], kept: rows })
    }

    fn run_fused(
        &mut self,
        request: &RequestView<'_>,
        declared: InputSet,
    ) -> Result<Selected, RunError> {
        let Self { name, sources, scratch, whole_on_failure, filters, scorers, .. } = self;
        let rows = scratch.ids.len();
        let seen = Candidates::new(&scratch.ids, &scratch.matrix, declared, &[]);
        scratch.outcome.verdicts.keep_all(rows);
        scratch.outcome.costs.clear();
        let instance = &mut sources[0].instance;
        let answer = instance.decide(request, &seen, &mut scratch.outcome);
        scratch.trace.push(StageTrace {
            name: name.clone(),
            kind: StageKind::Fused,
            fuel: instance.last_fuel(),
        });
        let fail = |error: StageError| RunError::Failed {
            failure: StageFailure {
                policy: name.clone(),
                kind: StageKind::Fused,
                stage: "decide".to_owned(),
                cause: error.cause,
                detail: error.detail,
            },
            on_failure: *whole_on_failure,
        };
        answer.map_err(fail)?;
        let outcome = &scratch.outcome;
        let kept = if filters.is_empty() { rows } else { outcome.verdicts.kept() };
        if outcome.verdicts.rows() != rows {
            return Err(fail(StageError::bad_output("the verdicts have another length than the rows")));
        }
        if kept == 0 {
            return Err(RunError::AllFiltered);
        }
        let row = check_row(outcome.row, rows).map_err(fail)?;
        if !filters.is_empty() && !outcome.verdicts.keeps(row) {
            return Err(fail(StageError::bad_output(format!("row {row} was picked, but not kept"))));
        }
        let wanted = if scorers.is_empty() { 0 } else { kept };
        if outcome.costs.len() != wanted {
            let got = outcome.costs.len();
            return Err(fail(StageError::bad_output(format!("{got} costs for {wanted} kept rows"))));
        }
        let at = if filters.is_empty() {
            row
        } else {
            outcome.verdicts.iter().take_while(|&kept| kept < row).count()
        };
        if let Some(bad) = outcome.costs.iter().position(|cost| !cost.is_finite()) {
            let cost = outcome.costs[bad];
            return Err(fail(StageError::bad_output(format!("cost {cost} of kept row {bad}"))));
        }
        let cost = outcome.costs.get(at).copied().unwrap_or(0.0);
        Ok(Selected { row, cost, kept })
    }
}

/// Adds a scorer's weighted costs, if every sum is finite; else leaves `costs` as they were.
fn add_costs(
    costs: &mut Vec<f64>,
    contribution: &mut Vec<f64>,
    weight: f64,
    ids: &[WorkerRank],
) -> Result<(), StageError> {
    // A pass that can't stop early is one that vectorises; a bad row is looked for only if there
    // is one. A contribution that isn't finite never makes a finite sum.
    let mut sound = true;
    for (cost, added) in costs.iter().zip(contribution.iter_mut()) {
        *added = *cost + *added * weight;
        sound &= added.is_finite();
    }
    if sound {
        std::mem::swap(costs, contribution);
        return Ok(());
    }
    let row = contribution.iter().position(|sum| !sum.is_finite()).unwrap_or(0);
    Err(StageError::bad_output(format!(
        "the cost of row {row} (worker {}) is {}, not a finite number",
        ids[row], contribution[row]
    )))
}

fn check_row(row: usize, rows: usize) -> Result<usize, StageError> {
    if row < rows {
        Ok(row)
    } else {
        Err(StageError::bad_output(format!("row {row} was picked out of {rows}")))
    }
}

#[cfg(test)]
mod tests;
