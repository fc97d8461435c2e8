//! Meeting cases of decisions: one pipeline that is asked stage by stage, and one that decides in one call
//! where it can. Both must give what is expected.

mod compare;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::clock::Moment;
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::ids::{DecisionId, PartitionKey, WorkerId, WorkerRank};
use pointsman_core::policy::pipeline::{RunError, Selected};
use pointsman_core::policy::selection::{BuildContext, InstanceSpec, Recipe, TypeUse};
use pointsman_core::policy::{
    Catalog, InputSet, Limits, OnFailure, Pipeline, PolicyProvider, RequestView, RouterSettings,
};
use pointsman_core::request::RouteRequest;
use serde_json::{Map, Value};

use super::decision::{CaseOutcomeEvent, CaseRow, DecisionCase, Expected, Question};
use super::difference::{Difference, Key, own_words, quoted};
use super::names::RowName;
use super::place::settings;
use super::says;
use compare::{compare, list, words};

/// Decisions over which `picks` are gathered.
const SEEDS: u64 = 64;

/// A machine under load may stop a thread for long; cases are about what is decided.
const DEADLINE: Duration = Duration::from_secs(30);

/// What isn't as expected, with the step: what the first way to ask finds, if that finds any.
pub(super) fn run(
    policy: &Arc<dyn PolicyProvider>,
    case: &DecisionCase,
    parameters: &Map<String, Value>,
) -> Vec<Difference> {
    let parameters = case.parameters.as_ref().unwrap_or(parameters);
    let scene =
        settings(&case.router).and_then(|settings| Scene::new(policy, case, parameters, settings));
    let scene = match scene {
        Ok(scene) => scene,
        Err(words) => return vec![Difference::plain(words)],
    };
    let made = scene.pipeline().map(drop);
    if case.refused.is_some() || made.is_err() {
        return refusal(case.refused.as_deref(), made.err()).into_iter().collect();
    }
    for parts in [true, false] {
        let mut found = scene.play(case, parts);
        if !found.is_empty() {
            let way = if parts { "stage by stage" } else { "in one call" };
            for difference in &mut found {
                difference.what = format!("{} ({way})", difference.what);
            }
            return found;
        }
    }
    Vec::new()
}

/// What a configuration came to, if that isn't what was expected of it.
pub(super) fn refusal(wanted: Option<&str>, refused: Option<String>) -> Option<Difference> {
    match (wanted, refused) {
        (None, None) => None,
        (None, Some(words)) => Some(Difference::plain(words)),
        (Some(wanted), Some(words)) if says(&words, wanted) => None,
        (Some(wanted), Some(words)) => {
            let what = format!("it was refused as {words:?}, expected words with {wanted:?}");
            let found = quoted(&own_words(&words));
            Some(Difference::value("refused", quoted(wanted), found, what))
        }
        (Some(wanted), None) => {
            let what = format!("it was configured, expected a refusal with {wanted:?}");
            Some(Difference::plain(what).under(&[Key::Name("refused")]))
        }
    }
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
        let instance = InstanceSpec::new(
            "case",
            Recipe::Whole(TypeUse {
                policy_type: policy.policy_type().into(),
                parameters: Arc::new(parameters.clone()),
                limits,
            }),
            OnFailure::Reject,
        );
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

    fn play(&self, case: &DecisionCase, parts: bool) -> Vec<Difference> {
        match self.played(case, parts) {
            Ok(found) => found,
            Err(words) => vec![Difference::plain(words)],
        }
    }

    /// An error is one of the case itself.
    fn played(&self, case: &DecisionCase, parts: bool) -> Result<Vec<Difference>, String> {
        let mut pipeline = self.pipeline()?;
        let mut fleet = Fleet::default();
        if let Some(expected) = &case.expect {
            let stand = self.stand(&mut fleet, &case.fleet)?;
            return Ok(self.decide(&mut pipeline, &stand, &case.request, 1, expected, parts));
        }
        let (mut rows, mut found) = (&case.fleet, Vec::new());
        for (at, step) in case.steps.iter().enumerate() {
            rows = step.fleet.as_ref().unwrap_or(rows);
            let stand = self.stand(&mut fleet, rows)?;
            if step.reload {
                let mut new = self.pipeline()?;
                let taken = new.take_over(&mut pipeline);
                taken.map_err(|error| format!("step {}: {error}", at + 1))?;
                pipeline = new;
            }
            let request = step.request.as_ref().unwrap_or(&case.request);
            let outcomes: Vec<_> = step.outcomes.iter().map(CaseOutcomeEvent::told).collect();
            if !outcomes.is_empty() {
                pipeline.observe(&outcomes, request.now_ms, &mut Vec::new());
            }
            let number = at as u64 + 1;
            let of_step = self.decide(&mut pipeline, &stand, request, number, &step.expect, parts);
            found.extend(of_step.into_iter().map(|difference| difference.of_step(at)));
        }
        Ok(found)
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
    ) -> Vec<Difference> {
        pipeline.tell_fleet(&stand.snapshot);
        let answer = self.ask(pipeline, stand, question, number, parts);
        let mut found = compare(pipeline, stand, &answer, expected, parts);
        if let Some(wanted) = &expected.picks
            && found.is_empty()
        {
            found.extend(self.over_seeds(pipeline, stand, question, number, wanted, parts));
        }
        found.into_iter().map(|difference| difference.under(&[Key::Name("expect")])).collect()
    }

    fn over_seeds(
        &self,
        pipeline: &mut Pipeline,
        stand: &Stand<'_>,
        question: &Question,
        number: u64,
        wanted: &[RowName],
        parts: bool,
    ) -> Option<Difference> {
        let mut chosen = BTreeSet::new();
        for seed in 0..SEEDS {
            let question = Question { seed, ..question.clone() };
            match self.ask(pipeline, stand, &question, number, parts) {
                Ok(selected) => chosen.extend(name(stand, selected.row)),
                Err(error) => return Some(Difference::plain(format!("at seed {seed}: {error}"))),
            }
        }
        let chosen: Vec<RowName> = chosen.into_iter().collect();
        (chosen != *wanted).then(|| {
            let what = format!(
                "over {SEEDS} seeds it picked {}, expected {}",
                words(&chosen),
                words(wanted)
            );
            Difference::value("picks", list(wanted), list(&chosen), what)
        })
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
        pipeline.load(&stand.snapshot, &stand.eligible, InputSet::default(), |input, column| {
            for (value, row) in column.iter_mut().zip(stand.rows.values()) {
                *value = row.value(input);
            }
        });
        pipeline.run(&view, parts)
    }
}

fn rank_of(row: &CaseRow) -> WorkerRank {
    WorkerRank { worker_id: WorkerId(row.worker), dp_rank: pointsman_core::ids::DpRank(row.rank) }
}

fn name(stand: &Stand<'_>, row: usize) -> Option<RowName> {
    stand.rows.keys().nth(row).map(|row| RowName(*row))
}
