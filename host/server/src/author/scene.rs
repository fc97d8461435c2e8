//! Made-up decisions: fleets of any size, loads and caches that differ from row to row, requests of all
//! kinds; and what a policy answers.
//!
//! Everything comes from a seed, so that the same scene can be played to another instance, in another
//! order or with one thing changed. What follows from the answers is not known here.

mod draw;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::clock::Moment;
use pointsman_core::fleet::{Fleet, Snapshot};
use pointsman_core::ids::{DecisionId, PartitionKey, WorkerRank};
use pointsman_core::policy::breaker::BreakerSpec;
use pointsman_core::policy::pipeline::{RunError, Selected};
use pointsman_core::policy::selection::{BuildContext, InstanceSpec, Recipe, Safeguards, TypeUse};
use pointsman_core::policy::{
    Catalog, Cause, Input, Limits, OnFailure, Pipeline, PolicyEnvironment, PolicyProvider,
    RequestView,
};
use pointsman_core::request::RouteRequest;

pub(super) use draw::{Extent, shuffle};

/// A machine under load may stop a thread for long; scenes are about what is decided.
const DEADLINE: Duration = Duration::from_secs(30);

/// The same limits, with a deadline that doesn't come before the fuel is used up.
pub(in crate::author) fn patient(limits: Limits) -> Limits {
    let least = limits.fuel.map_or(DEADLINE, Limits::least_deadline);
    Limits { deadline: Some(DEADLINE.max(least)), ..limits }
}

/// How many rows, or requests of a crowd, costs are told for.
pub(in crate::author) const SIZES: [usize; 3] = [64, 1_024, 4_096];

/// Who decides, and where.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) provider: Arc<dyn PolicyProvider>,
    pub(super) environment: PolicyEnvironment,
}

/// How a policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Stage by stage, so that verdicts and costs are told.
    Parts,
    /// In one call where it can, as it is asked when it serves.
    OneCall,
}

/// Decisions in a row over one fleet.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) decisions: Vec<Decision>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// The candidates, by their places in the fleet, in the order in which they are given.
    pub(super) rows: Vec<u32>,
    /// Values by place in the fleet.
    columns: BTreeMap<Input, Vec<f64>>,
    request: RouteRequest,
    moment: Moment,
    number: u64,
}

/// What came of a decision.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) chosen: Result<Chosen, NoChoice>,
    /// By worker, what it costs, none if it was rejected. Empty where a policy is asked in one call.
    pub(super) rows: BTreeMap<WorkerRank, Option<f64>>,
    pub(super) fuel: Fuel,
}

/// Who was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) worker: WorkerRank,
    pub(super) cost: f64,
    /// How many rows the filters left.
    pub(super) kept: usize,
}

/// Why nobody was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoChoice {
    AllFiltered,
    /// It said no, in these words.
    Refused(String),
    Failed(Cause, String),
}

/// What calls used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fuel {
    /// All calls of the decision.
    pub(super) decision: u64,
    /// The one that used most.
    pub(super) call: u64,
}

impl Stage {
    /// A new instance.
    pub(super) fn pipeline(&self) -> Result<Pipeline, String> {
        let PolicyEnvironment { partition, block_size, settings, seed, trial, .. } =
            &self.environment;
        let mut catalog = Catalog::builtin();
        let policy_type = self.provider.policy_type();
        if catalog.get(policy_type).is_none() {
            catalog.insert(self.provider.clone()).map_err(|taken| taken.to_string())?;
        }
        let limits = patient(self.environment.limits);
        let instance = InstanceSpec {
            safeguards: Safeguards { breaker: BreakerSpec::off(), ..Safeguards::default() },
            ..InstanceSpec::new(
                policy_type,
                Recipe::Whole(TypeUse {
                    policy_type: policy_type.into(),
                    parameters: self.environment.parameters.clone(),
                    limits,
                }),
                OnFailure::Reject,
            )
        };
        let context = BuildContext {
            catalog: &catalog,
            partition,
            block_size: *block_size,
            settings,
            seed: *seed,
            trial: *trial,
        };
        instance.build(&context).map_err(|error| error.to_string())
    }
}

impl Scene {
    /// So many decisions over so many rows.
    pub(super) fn new(stage: &Stage, extent: Extent, seed: u64) -> Self {
        let PolicyEnvironment { partition, block_size, .. } = &stage.environment;
        draw::scene(partition, *block_size, extent, seed)
    }

    /// What a new instance answers.
    pub(super) fn play(&self, stage: &Stage, way: Way) -> Result<Vec<Answer>, String> {
        let mut pipeline = stage.pipeline()?;
        Ok(self.play_on(&mut pipeline, stage, way))
    }

    /// What an instance answers that may have been asked before.
    pub(super) fn play_on(&self, pipeline: &mut Pipeline, stage: &Stage, way: Way) -> Vec<Answer> {
        let block_size = stage.environment.block_size;
        let ask = |decision: &Decision| {
            let answer = decision.ask(pipeline, &self.snapshot, block_size, way);
            decision.answered(pipeline, &self.snapshot, answer, way)
        };
        self.decisions.iter().map(ask).collect()
    }

    /// The same decisions from the last one to the first.
    pub(super) fn reversed(&self) -> Self {
        let decisions = self.decisions.iter().rev().cloned().collect();
        Self { decisions, ..self.clone() }
    }

    /// The first or the last decisions.
    pub(super) fn part(&self, from: usize, to: usize) -> Self {
        let decisions = self.decisions.get(from..to).unwrap_or_default().to_vec();
        Self { decisions, ..self.clone() }
    }

    /// The same, changed decision by decision.
    pub(super) fn changed(&self, mut change: impl FnMut(&mut Decision)) -> Self {
        let mut changed = self.clone();
        changed.decisions.iter_mut().for_each(&mut change);
        changed
    }
}

impl Decision {
    /// Other chance: the seed, and the number that nothing else depends on.
    pub(super) fn draw_anew(&mut self) {
        self.moment.seed ^= 0x9e37_79b9_7f4a_7c15;
        self.number += 1_000_003;
    }

    /// What an input says of a row, it says of the next one.
    pub(super) fn shift(&mut self, input: Input) {
        if let Some(column) = self.columns.get_mut(&input) {
            column.rotate_left(1);
        }
    }

    /// All rows are what the first is, but for one input.
    pub(super) fn level_but(&mut self, input: Option<Input>) {
        for (_, column) in self.columns.iter_mut().filter(|(of, _)| Some(**of) != input) {
            let first = column.first().copied().unwrap_or(0.0);
            column.fill(first);
        }
    }

    /// Its prompt begins with something else.
    pub(super) fn begin_otherwise(&mut self) {
        self.request.chain = self.request.chain.iter().map(|hash| !hash).collect();
    }

    /// Asks a policy.
    pub(super) fn ask(
        &self,
        pipeline: &mut Pipeline,
        snapshot: &Arc<Snapshot>,
        block_size: u32,
        way: Way,
    ) -> Result<Selected, RunError> {
        let view = RequestView {
            has_tier_matches: true,
            ..RequestView::new(
                &self.request,
                DecisionId(self.number),
                self.moment,
                block_size,
                true,
                None,
            )
        };
        pipeline.tell_fleet(snapshot);
        let neutral = self.columns.iter().filter(|(input, column)| {
            column.iter().all(|value| value.to_bits() == input.neutral().to_bits())
        });
        let neutral = neutral.map(|(&input, _)| input).collect();
        pipeline.load(snapshot, &self.rows, neutral, |input, column| {
            let Some(values) = self.columns.get(&input) else { return };
            for (value, row) in column.iter_mut().zip(&self.rows) {
                *value = values.get(*row as usize).copied().unwrap_or_default();
            }
        });
        pipeline.run(&view, way == Way::Parts)
    }

    fn answered(
        &self,
        pipeline: &Pipeline,
        snapshot: &Snapshot,
        answer: Result<Selected, RunError>,
        way: Way,
    ) -> Answer {
        let worker = |row: usize| snapshot.rows.get(*self.rows.get(row)? as usize).copied();
        let used = || pipeline.trace().iter().filter_map(|stage| stage.fuel);
        let fuel = Fuel { decision: used().sum(), call: used().max().unwrap_or(0) };
        let told = way == Way::Parts && answer.is_ok();
        let rows = told.then(|| pipeline.rows()).into_iter().flatten();
        let rows = rows.filter_map(|(row, cost)| Some((worker(row)?, cost))).collect();
        let chosen = match answer {
            Ok(selected) => match worker(selected.row) {
                Some(worker) => Ok(Chosen { worker, cost: selected.cost, kept: selected.kept }),
                None => Err(NoChoice::Failed(Cause::BadOutput, "a row that isn't there".into())),
            },
            Err(RunError::AllFiltered) => Err(NoChoice::AllFiltered),
            Err(RunError::Failed { failure, .. }) if failure.cause == Cause::Refused => {
                Err(NoChoice::Refused(failure.detail))
            }
            Err(RunError::Failed { failure, .. }) => {
                Err(NoChoice::Failed(failure.cause, failure.to_string()))
            }
        };
        Answer { chosen, rows, fuel }
    }
}

impl Answer {
    /// Whether both choose the same, and say the same of all rows, to the last bit.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        self.chooses_as(other) && self.judges_as(other)
    }

    /// Whether both say the same of all rows, to the last bit.
    pub(super) fn judges_as(&self, other: &Self) -> bool {
        let bits = |rows: &BTreeMap<WorkerRank, Option<f64>>| -> Vec<_> {
            rows.iter().map(|(worker, cost)| (*worker, cost.map(f64::to_bits))).collect()
        };
        bits(&self.rows) == bits(&other.rows)
    }

    /// Whether both choose the same, at the same cost, out of as many.
    pub(super) fn chooses_as(&self, other: &Self) -> bool {
        match (&self.chosen, &other.chosen) {
            (Ok(one), Ok(other)) => {
                (one.worker, one.cost.to_bits(), one.kept)
                    == (other.worker, other.cost.to_bits(), other.kept)
            }
            (one, other) => one == other,
        }
    }

    /// In a few words.
    pub(super) fn words(&self) -> String {
        match &self.chosen {
            Ok(chosen) => format!("{} at a cost of {}", chosen.worker, chosen.cost),
            Err(NoChoice::AllFiltered) => "nobody, as all rows were rejected".to_owned(),
            Err(NoChoice::Refused(words)) => format!("nobody, as it said no: {words}"),
            Err(NoChoice::Failed(_, words)) => format!("nobody, as it failed: {words}"),
        }
    }
}

/// Whom a partition's policies decide for, with nobody in it.
pub(super) fn nobody(partition: &PartitionKey) -> Arc<Snapshot> {
    Arc::new(Fleet::default().snapshot(partition))
}
