//! Two builds of a policy over the same sequences of decisions: fleets that change, sessions that come back,
//! prompts that begin alike, reloads in between.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use pointsman_core::clock::{Chance, Moment};
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::hashing::sequence_hash;
use pointsman_core::ids::{DecisionId, DpRank, PartitionKey, Role, WorkerId, WorkerTarget};
use pointsman_core::policy::pipeline::{RunError, Selected};
use pointsman_core::policy::selection::{BuildContext, InstanceSpec, Recipe, TypeUse};
use pointsman_core::policy::{
    Catalog, Input, Limits, OnFailure, Pipeline, PolicyProvider, RequestView, RouterSettings,
};
use pointsman_core::request::{InputTrigger, RouteRequest, Session};
use pointsman_tests::library::Entry;
use serde_json::{Map, Value};

use super::TRIPLES;

/// Decisions by the same instances.
const IN_A_ROW: u64 = 50;
const TAINTS: [&str; 4] = ["canary", "fast", "old", "spot"];

/// What the pipelines serve.
pub(crate) struct Place {
    pub(crate) partition: PartitionKey,
    pub(crate) block_size: u32,
    parameters: Map<String, Value>,
}

impl Place {
    pub(crate) fn new(role: Role, block_size: u32, parameters: &str) -> Result<Self> {
        let partition = PartitionKey { model: "m".into(), routing_group: "default".into(), role };
        let parameters = serde_json::from_str(parameters).context("parameters of the table")?;
        Ok(Self { partition, block_size, parameters })
    }

    pub(super) fn pipeline(&self, provider: &Arc<dyn PolicyProvider>) -> Result<Pipeline> {
        let mut catalog = Catalog::builtin();
        if catalog.get(provider.policy_type()).is_none() {
            catalog.insert(provider.clone())?;
        }
        let recipe = Recipe::Whole(TypeUse {
            policy_type: provider.policy_type().into(),
            parameters: Arc::new(self.parameters.clone()),
            // A busy machine may stop a thread for long; this is about what is chosen.
            limits: Limits { deadline: Some(Duration::from_secs(30)), ..Limits::default() },
        });
        let instance = InstanceSpec::new("it", recipe, OnFailure::Reject);
        let context = BuildContext {
            catalog: &catalog,
            partition: &self.partition,
            block_size: self.block_size,
            settings: &Arc::new(RouterSettings::default()),
            seed: 7,
            trial: false,
        };
        Ok(instance.build(&context)?)
    }

    /// A worker with some ranks and taints.
    pub(crate) fn worker(&self, chance: &mut Chance, id: u64) -> WorkerSpec {
        let mut spec = WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", self.partition.clone());
        let ranks = [1, 1, 2, 4][chance.below(4)];
        spec.data_parallel_size = NonZeroU32::MIN.saturating_add(ranks - 1);
        spec.data_parallel_start_rank = chance.below(3) as u32;
        let has = TAINTS.iter().filter(|_| chance.below(4) == 0);
        spec.taints = has.map(|taint| (*taint).to_owned()).collect();
        spec
    }
}

/// One triple, but for the seed's use.
pub(crate) struct Decision {
    snapshot: Arc<Snapshot>,
    eligible: Vec<u32>,
    columns: BTreeMap<Input, Vec<f64>>,
    request: RouteRequest,
    moment: Moment,
    tracks: bool,
    has_tier_matches: bool,
    parts: bool,
}

/// Hashes of a prompt's whole blocks. Prompts of a family begin alike.
fn chain(family: u64, shared: u64, own: u64, blocks: u64) -> Arc<[u64]> {
    let mut parent = None;
    let link = |at| {
        let hash = sequence_hash(parent, if at < shared { family } else { own ^ at });
        parent = Some(hash);
        hash
    };
    (0..blocks).map(link).collect()
}

/// One of few sessions, some of them with a parent, one with a name that is too long.
fn session(chance: &mut Chance) -> Option<Session> {
    let id = match chance.below(24) {
        0..6 => return None,
        6 => "x".repeat(300),
        n => format!("session-{n}"),
    };
    let parent = (chance.below(3) == 0).then(|| format!("parent-{}", chance.below(4)).into());
    Some(Session { id: id.into(), parent_id: parent, is_final: None, evict: None })
}

impl Decision {
    pub(crate) fn make(
        chance: &mut Chance,
        place: &Place,
        snapshot: Arc<Snapshot>,
        now_ms: u64,
    ) -> Self {
        let rows = snapshot.rows.len();
        let all = 0..rows as u32;
        let eligible: Vec<u32> = match chance.below(3) {
            0 => all.clone().filter(|_| chance.unit() < 0.7).collect(),
            _ => all.clone().collect(),
        };
        let eligible = if eligible.is_empty() { all.collect() } else { eligible };
        let tokens = [0, 1, 15, 160, 2_048, 30_001][chance.below(6)];
        // So few values that rows tie.
        let few = chance.below(3) == 0;
        let cell = |chance: &mut Chance, input| {
            let most = match input {
                Input::CachedTokens => tokens as usize + 1,
                Input::ActivePrefillTokens => 60_000,
                Input::ActiveRequests => 80,
                _ => (tokens / u64::from(place.block_size)) as usize + 3,
            };
            match (input, few) {
                (Input::PreferredTaintMultiplier, _) => [1.0, 0.5, 2.0][chance.below(3)],
                (_, true) => chance.below(2) as f64 * 4.0,
                (_, false) => chance.below(most) as f64,
            }
        };
        let column = |input| {
            let mut column: Vec<f64> = eligible.iter().map(|_| cell(chance, input)).collect();
            if chance.below(4) == 0 {
                column.fill(f64::from(input == Input::PreferredTaintMultiplier));
            }
            (input, column)
        };
        let columns = Input::ALL.into_iter().map(column).collect();
        let mut request = RouteRequest::new("r", place.partition.clone(), tokens);
        if chance.below(5) > 0 {
            let blocks = (tokens / u64::from(place.block_size)).min(600);
            // One family is asked for most of the time.
            let family = [0, 0, 0, 0, 0, 1, 2, 3][chance.below(8)];
            let shared = [0, 3, 6, 40][chance.below(4)];
            request.chain = chain(family, shared, chance.below(5) as u64, blocks);
        }
        request.session = session(chance);
        request.trigger = [None, Some(InputTrigger::ToolResult)][chance.below(2)];
        if chance.below(3) == 0 {
            let row = snapshot.rows[chance.below(rows)];
            let dp_rank = [None, Some(row.dp_rank), Some(DpRank(99))][chance.below(3)];
            request.affinity_target = Some(WorkerTarget { worker_id: row.worker_id, dp_rank });
        }
        request.router_temperature = [None, None, Some(0.4)][chance.below(3)];
        Self {
            snapshot,
            eligible,
            columns,
            request,
            moment: Moment { now_ms, seed: chance.bits() },
            tracks: chance.below(4) > 0,
            has_tier_matches: chance.below(3) > 0,
            parts: chance.below(2) == 0,
        }
    }

    /// What comes most: a prompt of 2,048 tokens in a session, over all rows, with loads and caches that
    /// differ, in one call.
    pub(super) fn usual(
        chance: &mut Chance,
        place: &Place,
        snapshot: Arc<Snapshot>,
        now_ms: u64,
    ) -> Self {
        let rows = snapshot.rows.len();
        let column = |input| {
            let most = match input {
                Input::ActivePrefillTokens => 16_384,
                Input::CachedTokens => 2_048,
                Input::ActiveRequests => 16,
                _ => 128,
            };
            let one = input == Input::PreferredTaintMultiplier;
            let cell = |_| if one { 1.0 } else { chance.below(most) as f64 };
            (input, (0..rows).map(cell).collect())
        };
        let columns = Input::ALL.into_iter().map(column).collect();
        let mut request = RouteRequest::new("r", place.partition.clone(), 2_048);
        request.chain = chain(chance.below(8) as u64, 16, chance.bits(), 128);
        let id = format!("session-{}", chance.below(8)).into();
        request.session = Some(Session { id, parent_id: None, is_final: None, evict: None });
        Self {
            eligible: (0..rows as u32).collect(),
            snapshot,
            columns,
            request,
            moment: Moment { now_ms, seed: chance.bits() },
            tracks: true,
            has_tier_matches: true,
            parts: false,
        }
    }

    /// The same of that session, and of its group of subagents.
    pub(super) fn in_session(mut self, id: &str) -> Self {
        let parent_id = Some(format!("of-{id}").into());
        self.request.session =
            Some(Session { id: id.into(), parent_id, is_final: None, evict: None });
        self
    }

    pub(crate) fn is_of_a_tools_result(&self) -> bool {
        self.request.trigger == Some(InputTrigger::ToolResult)
    }

    pub(crate) fn has_a_temperature(&self) -> bool {
        self.request.router_temperature.is_some()
    }

    /// What the rows that may be had are given for one input.
    pub(crate) fn column(&self, input: Input) -> &[f64] {
        &self.columns[&input]
    }

    pub(crate) fn run(&self, pipeline: &mut Pipeline, place: &Place) -> Result<Selected, RunError> {
        let view = RequestView {
            has_tier_matches: self.has_tier_matches,
            ..RequestView::new(
                &self.request,
                DecisionId(self.moment.now_ms),
                self.moment,
                place.block_size,
                self.tracks,
                None,
            )
        };
        pipeline.tell_fleet(&self.snapshot);
        let neutral = self.columns.iter().filter(|(input, column)| {
            column.iter().all(|value| value.to_bits() == input.neutral().to_bits())
        });
        let neutral = neutral.map(|(&input, _)| input).collect();
        pipeline.load(&self.snapshot, &self.eligible, neutral, |input, column| {
            column.copy_from_slice(&self.columns[&input]);
        });
        pipeline.run(&view, self.parts)
    }
}

/// What the decisions came across.
#[derive(Debug, Default)]
struct Seen {
    decisions: u64,
    chosen: u64,
    reloads: u64,
    rows: BTreeSet<usize>,
}

/// The row, its cost and how many were kept, or why there is none; and the costs of all rows.
type Bits = (Result<(usize, u64, usize), String>, Vec<Option<u64>>);

/// What a build answers, to the last bit; a failure by its words, without the type's name.
fn bits(answer: Result<Selected, RunError>, pipeline: &Pipeline) -> Bits {
    let costs = pipeline.rows().map(|(_, cost)| cost.map(f64::to_bits)).collect();
    let answer = answer.map(|chosen| (chosen.row, chosen.cost.to_bits(), chosen.kept));
    match answer {
        Ok(answer) => (Ok(answer), costs),
        // What a component says stands in quotes, with its own escaped.
        Err(RunError::Failed { failure, .. }) => {
            let words = failure.detail.replace("\\\"", "\"");
            (Err(words.trim_matches('"').to_owned()), Vec::new())
        }
        Err(other) => (Err(other.to_string()), Vec::new()),
    }
}

/// Asks both builds for as many decisions as there are to be, and compares them.
pub(super) fn agree(entry: &Entry, both: &[Arc<dyn PolicyProvider>; 2]) -> Result<()> {
    agree_over(TRIPLES, entry, both)
}

/// The same over so many triples.
pub(super) fn agree_over(
    triples: u64,
    entry: &Entry,
    both: &[Arc<dyn PolicyProvider>; 2],
) -> Result<()> {
    let mut seen = Seen::default();
    for case in 0..triples / IN_A_ROW {
        let mut chance = Chance::new(case);
        let role = Role::ALL[case as usize % 4];
        let parameters = entry.parameters[case as usize / 4 % entry.parameters.len()];
        let place = Place::new(role, [16, 16, 64, 7][chance.below(4)], parameters)?;
        let mut pipelines = [place.pipeline(&both[0])?, place.pipeline(&both[1])?];
        let (mut fleet, mut now_ms) = (Fleet::default(), 0);
        for id in 0..1 + chance.below(12) as u64 {
            fleet.upsert(place.worker(&mut chance, id))?;
        }
        for n in 0..IN_A_ROW {
            let at = format!("{} with {parameters}, case {case}, decision {n}", entry.name);
            if n % 10 == 9 {
                change(&mut chance, &place, &mut fleet)?;
            }
            if n % 20 == 19 {
                for (pipeline, provider) in pipelines.iter_mut().zip(both) {
                    let mut new = place.pipeline(provider)?;
                    seen.reloads += u64::from(new.take_over(pipeline).with_context(|| at.clone())?);
                    *pipeline = new;
                }
            }
            now_ms += [0, 3, 900, 40_000][chance.below(4)];
            let snapshot = Arc::new(fleet.snapshot(&place.partition));
            let decision = Decision::make(&mut chance, &place, snapshot, now_ms);
            let [native, component] = pipelines.each_mut().map(|pipeline| {
                let answer = decision.run(pipeline, &place);
                let (answer, costs) = bits(answer, pipeline);
                (answer, if decision.parts { costs } else { Vec::new() })
            });
            assert_eq!(native, component, "{at}");
            seen.decisions += 1;
            if let Ok((row, ..)) = native.0 {
                seen.chosen += 1;
                seen.rows.insert(row);
            }
        }
    }
    assert_eq!(seen.decisions, triples, "{}", entry.name);
    // A third of them at least, and not always the same few rows.
    assert!(seen.chosen >= triples / 3 && seen.rows.len() >= 8, "{}: {seen:?}", entry.name);
    Ok(())
}

/// A worker leaves, comes, or is marked otherwise.
fn change(chance: &mut Chance, place: &Place, fleet: &mut Fleet) -> Result<()> {
    let ids: Vec<WorkerId> = fleet.workers().map(|worker| worker.spec.worker_id).collect();
    let id = ids[chance.below(ids.len())];
    match chance.below(3) {
        0 if ids.len() > 1 => {
            fleet.remove(id)?;
        }
        1 => {
            let new = 20 + chance.below(4) as u64;
            fleet.upsert(place.worker(chance, new))?;
        }
        _ => {
            fleet.upsert(place.worker(chance, id.0))?;
        }
    }
    Ok(())
}
