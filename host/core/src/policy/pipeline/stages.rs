//! The stages one by one: every answer checked, and what becomes of a stage that fails.
//!
//! A filter sees all rows that were loaded; scorers and the picker see those that all filters kept.
//! Whoever is left out by its owner's `skip` leaves no trace in verdicts and costs.

use std::sync::Arc;

use super::traces::Traces;
use super::{Part, Pipeline, RunError, Scratch, Selected, Source, StageRef};
use crate::clock::Chance;
use crate::policy::answer::{check_costs, check_row};
use crate::policy::builtin::pick_lowest;
use crate::policy::candidates::Candidates;
use crate::policy::failure::{StageError, StageFailure, StageKind};
use crate::policy::selection::{OnAllFiltered, OnFailure};
use crate::policy::view::RequestView;
use crate::recording::StageAnswer;

impl StageRef {
    /// The leading hashes that its instance declared.
    fn prefix<'a>(&self, request: &RequestView<'a>) -> &'a [u64] {
        request.prefix_hashes(self.prefix_hash_blocks)
    }

    /// Notes what the stage's call cost, and how it failed if it did.
    fn note<T>(
        &self,
        trace: &mut Traces,
        kind: StageKind,
        source: &mut Source,
        answer: &Result<T, StageError>,
    ) {
        source.note(answer.as_ref().err());
        let spent = source.spent();
        trace.push(&self.name, kind, spent, answer.as_ref().err());
    }

    /// An answer of it, yet to be filled in.
    fn answer(&self, kind: StageKind) -> StageAnswer {
        StageAnswer { name: self.name.clone(), kind, rejected: Vec::new(), costs: Vec::new() }
    }

    /// The failure of a stage that can't be left out.
    fn failed(&self, policy: &Arc<str>, kind: StageKind, error: StageError) -> RunError {
        RunError::Failed {
            failure: Box::new(StageFailure {
                policy: policy.clone(),
                kind,
                stage: self.name.to_string(),
                cause: error.cause,
                detail: error.detail,
            }),
            on_failure: self.on_failure,
        }
    }

    /// The failure of a stage that may be left out, if its owner said so.
    fn fail(&self, policy: &Arc<str>, kind: StageKind, error: StageError) -> Result<(), RunError> {
        if self.on_failure == OnFailure::Skip {
            tracing::warn!(%policy, %kind, stage = &*self.name, %error, "a failed stage was left out");
            return Ok(());
        }
        Err(self.failed(policy, kind, error))
    }
}

impl Pipeline {
    pub(super) fn run_filters(&mut self, request: &RequestView<'_>) -> Result<(), RunError> {
        let Self { name, sources, filters, scratch, fuel_left, safeguards, .. } = self;
        let (now_ms, bypasses) =
            (request.moment.now_ms, safeguards.on_all_filtered == OnAllFiltered::Bypass);
        if filters.is_empty() {
            return Ok(());
        }
        let rows = scratch.ids.len();
        scratch.mask.keep_all(rows);
        // Those that follow are asked all the same, as in a fused call.
        let mut emptied = false;
        for filter in filters.iter() {
            let Scratch { matrix, ids, mask, mask_before, verdicts, trace, answers, .. } = scratch;
            let seen = Candidates::of_rows(ids, matrix, filter.declared, filter.prefix(request));
            verdicts.keep_all(rows);
            let source = &mut sources[filter.source];
            let answer = source.call(now_ms, fuel_left, |instance| {
                instance.keep(filter.stage, request, &seen, verdicts)
            });
            if bypasses {
                mask_before.copy_from(mask);
            }
            let answer = answer.and_then(|()| {
                if verdicts.rows() == rows && mask.and(verdicts.words()) {
                    Ok(())
                } else {
                    let got = verdicts.rows();
                    Err(StageError::bad_output(format!("verdicts on {got} rows instead of {rows}")))
                }
            });
            filter.note(trace, StageKind::Filter, source, &answer);
            if let (Some(answers), Ok(())) = (answers, &answer) {
                let rejected = (0..rows).filter(|&row| !verdicts.keeps(row));
                answers.push(StageAnswer {
                    rejected: rejected.map(|row| row as u32).collect(),
                    ..filter.answer(StageKind::Filter)
                });
            }
            match answer {
                Err(error) => filter.fail(name, StageKind::Filter, error)?,
                Ok(()) if !emptied && mask.kept() == 0 => {
                    tracing::debug!(
                        policy = &**name,
                        filter = &*filter.name,
                        bypassed = bypasses,
                        "a filter rejected every row that was left"
                    );
                    if bypasses {
                        mask.copy_from(mask_before);
                        trace.bypass_last();
                    }
                    emptied = !bypasses;
                }
                Ok(()) => {}
            }
        }
        drop_rejected(scratch)
    }

    pub(super) fn run_scorers(&mut self, request: &RequestView<'_>) -> Result<(), RunError> {
        let Self { name, sources, scorers, scratch, fuel_left, .. } = self;
        let now_ms = request.moment.now_ms;
        let rows = scratch.ids.len();
        let Scratch { matrix, ids, costs, contribution, order, trace, answers, .. } = scratch;
        costs.clear();
        let mut scored = false;
        for scorer in scorers.iter() {
            let seen = Candidates::of_rows(ids, matrix, scorer.declared, scorer.prefix(request));
            contribution.clear();
            contribution.resize(rows, f64::NAN);
            let source = &mut sources[scorer.source];
            let answer = source.call(now_ms, fuel_left, |instance| {
                instance.score(scorer.stage, request, &seen, contribution)
            });
            let unweighted = answers.is_some().then(|| contribution.clone());
            let answer = answer.and_then(|()| {
                // The first costs stand as they are: even 0 + -0 would be another number.
                let sum = scored.then_some(&*costs);
                let Part { normalisation, weight } = scorer.part;
                if !normalisation.is_none() {
                    check_costs(contribution, ids.iter())?;
                    normalisation.apply(contribution, order);
                }
                weigh(contribution, weight, sum.map(Vec::as_slice));
                check_costs(contribution, ids.iter())
            });
            scorer.note(trace, StageKind::Scorer, source, &answer);
            if let (Some(answers), Some(costs), Ok(())) = (answers.as_mut(), unweighted, &answer) {
                answers.push(StageAnswer { costs, ..scorer.answer(StageKind::Scorer) });
            }
            match answer {
                Ok(()) => {
                    std::mem::swap(costs, contribution);
                    scored = true;
                }
                Err(error) => scorer.fail(name, StageKind::Scorer, error)?,
            }
        }
        if !scored {
            costs.resize(rows, 0.0);
        }
        Ok(())
    }

    pub(super) fn run_picker(&mut self, request: &RequestView<'_>) -> Result<Selected, RunError> {
        let Self { name, sources, picker, scratch, fuel_left, .. } = self;
        let now_ms = request.moment.now_ms;
        let Scratch { matrix, ids, costs, trace, answers, .. } = &mut *scratch;
        let row = match picker {
            None => pick_lowest(costs, &mut Chance::new(request.moment.seed)),
            Some(picker) => {
                let seen =
                    Candidates::of_rows(ids, matrix, picker.declared, picker.prefix(request));
                let source = &mut sources[picker.source];
                let answer =
                    source.call(now_ms, fuel_left, |instance| instance.pick(request, &seen, costs));
                let answer = answer.and_then(|row| check_row(row, ids.len()));
                picker.note(trace, StageKind::Picker, source, &answer);
                if let (Some(answers), Ok(_)) = (answers, &answer) {
                    answers.push(picker.answer(StageKind::Picker));
                }
                match answer {
                    Ok(row) => row,
                    Err(error) => return Err(picker.failed(name, StageKind::Picker, error)),
                }
            }
        };
        Ok(Selected {
            row: scratch.loaded_place(row).unwrap_or(row),
            // Not -0: a cost is a number that people read.
            cost: scratch.costs[row] + 0.0,
            kept: scratch.ids.len(),
        })
    }
}

/// Leaves only the rows that the mask keeps.
fn drop_rejected(scratch: &mut Scratch) -> Result<(), RunError> {
    if scratch.mask.kept() == scratch.ids.len() {
        return Ok(());
    }
    scratch.narrowed = true;
    scratch.kept.clear();
    scratch.kept.extend(scratch.mask.iter().map(|row| row as u32));
    scratch.compact();
    let Scratch { ids, kept, costs, .. } = scratch;
    ids.keep(kept);
    if kept.is_empty() {
        costs.clear();
        return Err(RunError::AllFiltered);
    }
    Ok(())
}

/// Multiplies a contribution by its weight, and adds the sum so far to it.
fn weigh(contribution: &mut [f64], weight: f64, sum: Option<&[f64]>) {
    match sum {
        None if weight == 1.0 => {}
        None => contribution.iter_mut().for_each(|cost| *cost *= weight),
        Some(sum) => {
            for (cost, sum) in contribution.iter_mut().zip(sum) {
                *cost = sum + *cost * weight;
            }
        }
    }
}
