//! Meeting cases of decisions: one pipeline that is asked stage by stage, and one that decides in one call
//! where it can. Both must give what is expected.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::clock::Moment;
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::ids::{DecisionId, PartitionKey, WorkerId, WorkerRank};
use pointsman_core::policy::pipeline::{RunError, Selected};
use pointsman_core::policy::selection::{
    BuildContext, InstanceSpec, Recipe, Rollout, Safeguards, TypeUse,
};
use pointsman_core::policy::{
    Catalog, Limits, OnFailure, Pipeline, PolicyProvider, RequestView, RouterSettings,
};
use pointsman_core::request::RouteRequest;
use serde_json::{Map, Value};

use super::decision::{CaseOutcomeEvent, CaseRow, DecisionCase, Expected, Question};
use super::names::RowName;
use super::place::settings;
use super::says;

/// Decisions over which `picks` are gathered.
const SEEDS: u64 = 64;

/// A machine under load may stop a thread for long; cases are about what is decided.
const DEADLINE: Duration = Duration::from_secs(30);

/// What failed, with the step.
pub(super) fn run(
    policy: &Arc<dyn PolicyProvider>,
    case: &DecisionCase,
    parameters: &Map<String, Value>,
) -> Result<(), String> {
    let parameters = case.parameters.as_ref().unwrap_or(parameters);
    let settings = settings(&case.router)?;
    let scene = Scene::new(policy, case, parameters, settings)?;
    match (&case.refused, scene.pipeline()) {
        (None, Ok(_)) => {}
        (None, Err(words)) => return Err(words),
        (Some(wanted), Err(words)) if says(&words, wanted) => return Ok(()),
        (Some(wanted), Err(words)) => {
            return Err(format!("it was refused as {words:?}, expected words with {wanted:?}"));
        }
        (Some(wanted), Ok(_)) => {
            return Err(format!("it was configured, expected a refusal with {wanted:?}"));
        }
    }
    for parts in [true, false] {
        let way = if parts { "stage by stage" } else { "in one call" };
        scene.play(case, parts).map_err(|what| format!("{what} ({way})"))?;
    }
    Ok(())
}

/// What stays the same over a case.
struct Scene {
    catalog: Catalog,
    instance: InstanceSpec,
    partition: PartitionKey,
    block_size: NonZeroU32,
    settings: Arc<RouterSettings>,
}

/// The fleet of the moment.
struct Stand<'a> {
    rows: BTreeMap<WorkerRank, &'a CaseRow>,
    snapshot: Arc<Snapshot>,
    eligible: Vec<u32>,
}

impl Scene {
    fn new(
        policy: &Arc<dyn PolicyProvider>,
        case: &DecisionCase,
        parameters: &Map<String, Value>,
        settings: RouterSettings,
    ) -> Result<Self, String> {
        let mut catalog = Catalog::builtin();
        if catalog.get(policy.policy_type()).is_none() {
            catalog.insert(policy.clone()).map_err(|error| error.to_string())?;
        }
        let limits = Limits { deadline: Some(DEADLINE), ..Limits::default() };
        let instance = InstanceSpec {
            name: "case".into(),
            recipe: Recipe::Whole(TypeUse {
                policy_type: policy.policy_type().into(),
                parameters: Arc::new(parameters.clone()),
                limits,
            }),
            on_failure: OnFailure::Reject,
            discard_state: false,
            safeguards: Safeguards::default(),
            rollout: Rollout::default(),
        };
        let (partition, block_size) = (case.partition.partition(), case.partition.block_size);
        Ok(Self { catalog, instance, partition, block_size, settings: Arc::new(settings) })
    }

    fn pipeline(&self) -> Result<Pipeline, String> {
        let context = BuildContext {
            catalog: &self.catalog,
            partition: &self.partition,
            block_size: self.block_size.get(),
            settings: &self.settings,
            seed: 0,
            trial: false,
        };
        self.instance.build(&context).map_err(|error| error.to_string())
    }

    fn play(&self, case: &DecisionCase, parts: bool) -> Result<(), String> {
        let mut pipeline = self.pipeline()?;
        let mut fleet = Fleet::default();
        if let Some(expected) = &case.expect {
            let stand = self.stand(&mut fleet, &case.fleet)?;
            return self.decide(&mut pipeline, &stand, &case.request, 1, expected, parts);
        }
        let mut rows = &case.fleet;
        for (number, step) in (1..).zip(&case.steps) {
            rows = step.fleet.as_ref().unwrap_or(rows);
            let stand = self.stand(&mut fleet, rows)?;
            let at = |what| format!("step {number}: {what}");
            if step.reload {
                let mut new = self.pipeline()?;
                new.take_over(&mut pipeline).map_err(|error| at(error.to_string()))?;
                pipeline = new;
            }
            let request = step.request.as_ref().unwrap_or(&case.request);
            let outcomes: Vec<_> = step.outcomes.iter().map(CaseOutcomeEvent::told).collect();
            if !outcomes.is_empty() {
                pipeline.observe(&outcomes, request.now_ms, &mut Vec::new());
            }
            self.decide(&mut pipeline, &stand, request, number, &step.expect, parts).map_err(at)?;
        }
        Ok(())
    }

    fn stand<'a>(&self, fleet: &mut Fleet, rows: &'a [CaseRow]) -> Result<Stand<'a>, String> {
        let mut named = BTreeMap::new();
        let mut ranks: BTreeMap<u64, Vec<&CaseRow>> = BTreeMap::new();
        for row in rows {
            let name = RowName(rank_of(row));
            if named.insert(name.0, row).is_some() {
                return Err(format!("row {name} stands twice in the fleet"));
            }
            ranks.entry(row.worker).or_default().push(row);
        }
        let before: Vec<WorkerId> = fleet.workers().map(|worker| worker.spec.worker_id).collect();
        for gone in before.into_iter().filter(|id| !ranks.contains_key(&id.0)) {
            fleet.remove(gone).map_err(|error| error.to_string())?;
        }
        for (id, of_worker) in &ranks {
            let spec = self.worker(WorkerId(*id), of_worker);
            fleet.upsert(spec).map_err(|error| error.to_string())?;
        }
        let snapshot = Arc::new(fleet.snapshot(&self.partition));
        let here = |(_, row): &(u32, &WorkerRank)| named.contains_key(row);
        let eligible = (0..).zip(&snapshot.rows).filter(here).map(|(at, _)| at).collect();
        Ok(Stand { rows: named, snapshot, eligible })
    }

    fn worker(&self, id: WorkerId, rows: &[&CaseRow]) -> WorkerSpec {
        let mut spec = WorkerSpec::new(id, "http://127.0.0.1:1", self.partition.clone());
        let ranks: BTreeSet<u32> = rows.iter().map(|row| row.rank).collect();
        let (first, last) = (ranks.first().copied(), ranks.last().copied());
        spec.data_parallel_start_rank = first.unwrap_or(0);
        let more = last.unwrap_or(0) - spec.data_parallel_start_rank;
        spec.data_parallel_size = NonZeroU32::MIN.saturating_add(more);
        spec.block_size = self.block_size;
        if let Some(row) = rows.first() {
            spec.taints.clone_from(&row.taints);
            spec.labels.clone_from(&row.labels);
            spec.total_kv_blocks = row.total_kv_blocks;
        }
        spec
    }

    fn decide(
        &self,
        pipeline: &mut Pipeline,
        stand: &Stand<'_>,
        question: &Question,
        number: u64,
        expected: &Expected,
        parts: bool,
    ) -> Result<(), String> {
        pipeline.tell_fleet(&stand.snapshot);
        let answer = self.ask(pipeline, stand, question, number, parts);
        compare(pipeline, stand, &answer, expected, parts)?;
        let Some(wanted) = &expected.picks else { return Ok(()) };
        let mut chosen = BTreeSet::new();
        for seed in 0..SEEDS {
            let question = Question { seed, ..question.clone() };
            let answer = self.ask(pipeline, stand, &question, number, parts);
            let answer = answer.map_err(|error| format!("at seed {seed}: {error}"))?;
            chosen.extend(name(stand, answer.row));
        }
        let chosen: Vec<RowName> = chosen.into_iter().collect();
        if chosen == *wanted {
            return Ok(());
        }
        Err(format!("over {SEEDS} seeds it picked {}, expected {}", list(&chosen), list(wanted)))
    }

    fn ask(
        &self,
        pipeline: &mut Pipeline,
        stand: &Stand<'_>,
        question: &Question,
        number: u64,
        parts: bool,
    ) -> Result<Selected, RunError> {
        let mut request = RouteRequest::new("case", self.partition.clone(), question.prompt_tokens);
        request.chain = question.prefix_hashes.clone().into();
        request.session.clone_from(&question.session);
        request.trigger = question.trigger;
        request.affinity_target = question.affinity_target.map(|target| target.0);
        request.expected_output_tokens = question.expected_output_tokens;
        request.router_temperature = question.router_temperature;
        let matches = || stand.rows.values().any(|row| row.has_tier_match());
        let view = RequestView {
            has_tier_matches: question.has_tier_matches.unwrap_or_else(matches),
            ..RequestView::new(
                &request,
                DecisionId(number),
                Moment { now_ms: question.now_ms, seed: question.seed },
                self.block_size.get(),
                question.tracks_prefill_tokens,
                question.pinned_worker.map(|row| row.0),
            )
        };
        pipeline.load(
            &stand.snapshot,
            &stand.eligible,
            |_| None,
            |input, column| {
                for (value, row) in column.iter_mut().zip(stand.rows.values()) {
                    *value = row.value(input);
                }
            },
        );
        pipeline.run(&view, parts)
    }
}

fn rank_of(row: &CaseRow) -> WorkerRank {
    WorkerRank { worker_id: WorkerId(row.worker), dp_rank: pointsman_core::ids::DpRank(row.rank) }
}

fn name(stand: &Stand<'_>, row: usize) -> Option<RowName> {
    stand.rows.keys().nth(row).map(|row| RowName(*row))
}

fn list(rows: &[RowName]) -> String {
    let names: Vec<String> = rows.iter().map(ToString::to_string).collect();
    format!("[{}]", names.join(", "))
}

fn compare(
    pipeline: &Pipeline,
    stand: &Stand<'_>,
    answer: &Result<Selected, RunError>,
    expected: &Expected,
    parts: bool,
) -> Result<(), String> {
    let selected = match (answer, &expected.error) {
        (Err(RunError::Failed { failure, .. }), Some(wanted)) => {
            let words = failure.to_string();
            return if says(&words, wanted) {
                Ok(())
            } else {
                Err(format!("it failed as {words:?}, expected words with {wanted:?}"))
            };
        }
        (_, Some(wanted)) => return Err(format!("it didn't fail, expected words with {wanted:?}")),
        (Err(RunError::AllFiltered), None) => match &expected.kept {
            Some(kept) if kept.is_empty() => return Ok(()),
            _ => return Err("no row was kept".to_owned()),
        },
        (Err(error), None) => return Err(error.to_string()),
        (Ok(selected), None) => selected,
    };
    if let Some(wanted) = expected.pick
        && name(stand, selected.row) != Some(wanted)
    {
        let picked = name(stand, selected.row).map_or("nobody".to_owned(), |row| row.to_string());
        return Err(format!("it picked {picked}, expected {wanted}"));
    }
    // Verdicts and costs are told by the stages; one call tells how many rows it kept.
    if !parts {
        return match &expected.kept {
            Some(kept) if kept.len() != selected.kept => {
                Err(format!("it kept {} rows, expected {}", selected.kept, list(kept)))
            }
            _ => Ok(()),
        };
    }
    let rows: Vec<(usize, f64)> =
        pipeline.rows().filter_map(|(row, cost)| Some((row, cost?))).collect();
    let kept: Vec<RowName> = rows.iter().filter_map(|(row, _)| name(stand, *row)).collect();
    match &expected.kept {
        Some(wanted) if *wanted != kept => {
            return Err(format!("it kept {}, expected {}", list(&kept), list(wanted)));
        }
        _ => {}
    }
    let costs: Vec<f64> = rows.iter().map(|(_, cost)| *cost).collect();
    match &expected.costs {
        Some(wanted) if !are_close(wanted, &costs) => {
            Err(format!("the costs of {} are {costs:?}, expected {wanted:?}", list(&kept)))
        }
        _ => Ok(()),
    }
}

fn are_close(wanted: &[f64], costs: &[f64]) -> bool {
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
    wanted.len() == costs.len() && wanted.iter().zip(costs).all(close)
}
