//! A dry run: a component configured with its real parameters decides about made-up rows, before
//! any request depends on it.
//!
//! A policy that says no to made-up rows isn't broken, and one that fails on them is.

use pointsman_core::clock::Moment;
use pointsman_core::ids::{DecisionId, DpRank, WorkerId, WorkerRank};
use pointsman_core::policy::candidates::Matrix;
use pointsman_core::policy::{
    Candidates, Cause, Declaration, Input, InstantiateError, Outcome, PolicyEnvironment,
    PolicyInstance, PolicyProvider, RequestView, RowMask, StageError, StageKind,
};
use pointsman_core::request::RouteRequest;
use serde::Serialize;
use thiserror::Error;

use crate::component::ComponentPolicy;

/// How many rows there are: one, a few, more than a mask's word holds.
const ROWS: [usize; 3] = [1, 3, 70];

/// What a dry run found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProbeReport {
    /// The most fuel that one call used.
    pub most_fuel: u64,
    /// The most fuel that all calls of one decision used together.
    pub most_fuel_per_decision: u64,
    /// What the policy said no to, in its words.
    pub refusals: Vec<String>,
}

/// Why a component isn't fit to decide.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProbeError {
    /// It can't be made or configured.
    #[error(transparent)]
    Instantiate(#[from] InstantiateError),
    /// A stage failed on made-up rows.
    #[error("type {policy_type:?}: {kind} {stage:?} failed in a dry run over {rows} rows: {error}")]
    Stage {
        /// The policy's type.
        policy_type: String,
        /// What kind of stage.
        kind: StageKind,
        /// Its name.
        stage: String,
        /// Over how many rows.
        rows: usize,
        /// How it failed.
        error: StageError,
    },
}

impl ComponentPolicy {
    /// Makes an instance for `environment`, and lets it decide about made-up rows.
    pub fn probe(&self, environment: &PolicyEnvironment) -> Result<ProbeReport, ProbeError> {
        let mut instance = self.instantiate(environment)?;
        let declaration = instance.declaration().clone();
        let mut report = ProbeReport::default();
        for rows in ROWS {
            let mut run = Run { report: &mut report, rows, fuel: 0 };
            run.decision(&mut *instance, &declaration, environment).map_err(
                |(kind, stage, error)| ProbeError::Stage {
                    policy_type: self.policy_type().to_owned(),
                    kind,
                    stage,
                    rows,
                    error,
                },
            )?;
            let fuel = run.fuel;
            report.most_fuel_per_decision = report.most_fuel_per_decision.max(fuel);
        }
        Ok(report)
    }
}

/// One made-up decision.
struct Run<'a> {
    report: &'a mut ProbeReport,
    rows: usize,
    fuel: u64,
}

type Failure = (StageKind, String, StageError);

impl Run<'_> {
    fn decision(
        &mut self,
        instance: &mut dyn PolicyInstance,
        declaration: &Declaration,
        environment: &PolicyEnvironment,
    ) -> Result<(), Failure> {
        let rows = self.rows;
        let ids: Vec<WorkerRank> = (0..rows as u64)
            .map(|row| WorkerRank {
                worker_id: WorkerId(1 + row / 2),
                dp_rank: DpRank((row % 2) as u32),
            })
            .collect();
        let union = declaration.union();
        let mut matrix = Matrix::new(&union);
        matrix.fill(rows, |input, column| {
            column.iter_mut().enumerate().for_each(|(row, value)| *value = made_up(input, row));
        });
        let request = RouteRequest::new("probe", environment.partition.clone(), 1000);
        let moment = Moment { now_ms: 1000, seed: environment.seed ^ rows as u64 };
        let block_size = environment.block_size;
        let view = RequestView::new(&request, DecisionId(0), moment, block_size, true, None);
        let hashes: Vec<u64> = (1..=u64::from(declaration.prefix_hash_blocks.min(8))).collect();

        for (at, stage) in declaration.filters.iter().enumerate() {
            let seen = Candidates::new(&ids, &matrix, stage.input_set(), &hashes);
            let mut verdicts = RowMask::default();
            verdicts.keep_all(rows);
            let answer = instance.keep(at, &view, &seen, &mut verdicts);
            self.note(instance, StageKind::Filter, &stage.name, answer)?;
        }
        let mut costs = vec![f64::NAN; rows];
        for (at, stage) in declaration.scorers.iter().enumerate() {
            let seen = Candidates::new(&ids, &matrix, stage.input_set(), &hashes);
            let answer = instance.score(at, &view, &seen, &mut costs);
            let answer = answer.and_then(|()| finite(&costs));
            self.note(instance, StageKind::Scorer, &stage.name, answer)?;
        }
        if let Some(stage) = &declaration.picker {
            let seen = Candidates::new(&ids, &matrix, stage.input_set(), &hashes);
            let costs: Vec<f64> = (0..rows).map(|row| (row % 5) as f64).collect();
            let answer = instance.pick(&view, &seen, &costs);
            let answer = answer.and_then(|row| in_range(row, rows));
            self.note(instance, StageKind::Picker, &stage.name, answer)?;
        }
        if declaration.properties.fused {
            let all = union.iter().copied().collect();
            let seen = Candidates::new(&ids, &matrix, all, &hashes);
            let mut outcome = Outcome::default();
            outcome.verdicts.keep_all(rows);
            let answer = instance.decide(&view, &seen, &mut outcome);
            let answer = answer.and_then(|()| fused(declaration, &outcome, rows));
            self.note(instance, StageKind::Fused, "decide", answer)?;
        }
        Ok(())
    }

    fn note(
        &mut self,
        instance: &dyn PolicyInstance,
        kind: StageKind,
        stage: &str,
        answer: Result<(), StageError>,
    ) -> Result<(), Failure> {
        let fuel = instance.last_fuel().unwrap_or(0);
        self.fuel = self.fuel.saturating_add(fuel);
        self.report.most_fuel = self.report.most_fuel.max(fuel);
        match answer {
            Err(error) if error.cause == Cause::Refused => {
                self.report.refusals.push(format!("{kind} {stage:?}: {}", error.detail));
                Ok(())
            }
            answer => answer.map_err(|error| (kind, stage.to_owned(), error)),
        }
    }
}

/// A plausible value, different from row to row, and 0 for some.
fn made_up(input: Input, row: usize) -> f64 {
    let spread = ((row * 7 + input as usize * 3) % 11) as f64;
    match input {
        Input::PreferredTaintMultiplier => 1.0,
        Input::CachedTokens => spread * 16.0,
        Input::ActivePrefillTokens => spread * 100.0,
        _ => spread,
    }
}

fn finite(costs: &[f64]) -> Result<(), StageError> {
    match costs.iter().enumerate().find(|(_, cost)| !cost.is_finite()) {
        Some((row, cost)) => Err(StageError::bad_output(format!(
            "the cost of row {row} is {cost}, not a finite number"
        ))),
        None => Ok(()),
    }
}

fn in_range(row: usize, rows: usize) -> Result<(), StageError> {
    if row < rows {
        return Ok(());
    }
    Err(StageError::bad_output(format!("row {row} was picked out of {rows}")))
}

fn fused(declaration: &Declaration, outcome: &Outcome, rows: usize) -> Result<(), StageError> {
    let kept = if declaration.filters.is_empty() { rows } else { outcome.verdicts.kept() };
    if kept == 0 {
        return Ok(());
    }
    let wanted = if declaration.scorers.is_empty() { 0 } else { kept };
    if outcome.costs.len() != wanted {
        let got = outcome.costs.len();
        return Err(StageError::bad_output(format!("{got} costs for {wanted} kept rows")));
    }
    finite(&outcome.costs)?;
    in_range(outcome.row, rows)?;
    if !declaration.filters.is_empty() && !outcome.verdicts.keeps(outcome.row) {
        let row = outcome.row;
        return Err(StageError::bad_output(format!("row {row} was picked, but not kept")));
    }
    Ok(())
}
