//! Pipelines before made-up columns.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::Result;
use pointsman_core::clock::{Chance, Moment};
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::ids::{DecisionId, DpRank, Role, WorkerId, WorkerTarget};
use pointsman_core::policy::builtin::{DefaultCost, preferred_taint_multiplier};
use pointsman_core::policy::selection::BuildContext;
use pointsman_core::policy::{
    Input, InputSet, Pipeline, PolicyProvider, RequestView, RouterSettings,
};
use pointsman_core::request::RouteRequest;
use pointsman_core::testing::{MadePolicy, native};
use pointsman_sdk::{About, Environment, Policy, Stages};
use pointsman_tests::linked::linked;
use serde_json::{Map, Value};

use super::{catalog, instance, parameters, partition, settings, three};

/// What the pipelines are made for.
struct Place {
    role: Role,
    block_size: u32,
    settings: Arc<RouterSettings>,
    parameters: Map<String, Value>,
    snapshot: Arc<Snapshot>,
}

impl Place {
    fn make(chance: &mut Chance, role: Role, rows: u32, with_parameters: bool) -> Self {
        let settings = Arc::new(settings(chance));
        let parameters = if with_parameters { parameters(chance) } else { Map::new() };
        let block_size = [1, 7, 16, 64, 512][chance.below(5)];
        let snapshot = Arc::new(snapshot(chance, role, rows));
        Self { role, block_size, settings, parameters, snapshot }
    }

    fn pipeline(&self, provider: &Arc<dyn PolicyProvider>) -> Pipeline {
        let context = BuildContext {
            catalog: &catalog(provider),
            partition: &partition(self.role),
            block_size: self.block_size,
            settings: &self.settings,
            seed: 7,
            trial: false,
        };
        instance(provider.policy_type(), &self.parameters).build(&context).unwrap()
    }
}

/// Whether nothing is said of any row.
fn is_neutral(input: Input, column: &[f64]) -> bool {
    column.iter().all(|value| value.to_bits() == input.neutral().to_bits())
}

/// So many rows, of workers with one to four ranks.
fn snapshot(chance: &mut Chance, role: Role, rows: u32) -> Snapshot {
    let mut fleet = Fleet::default();
    let (mut left, mut id) = (rows, 0);
    while left > 0 {
        let ranks = (1 + chance.below(4) as u32).min(left);
        let mut spec = WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", partition(role));
        spec.data_parallel_size = NonZeroU32::new(ranks).unwrap();
        spec.data_parallel_start_rank = chance.below(3) as u32;
        fleet.upsert(spec).unwrap();
        left -= ranks;
        id += 1 + chance.below(3) as u64;
    }
    fleet.snapshot(&partition(role))
}

/// A value of a column. `few` leaves so few values that rows tie.
fn cell(chance: &mut Chance, input: Input, few: bool, prompt: u64) -> f64 {
    let whole = |chance: &mut Chance, most: usize| chance.below(most) as f64;
    match input {
        Input::PreferredTaintMultiplier if chance.below(2) == 0 => 1.0,
        Input::PreferredTaintMultiplier if few => preferred_taint_multiplier(1.0),
        Input::PreferredTaintMultiplier => preferred_taint_multiplier((chance.unit() - 0.5) * 8.0),
        _ if few => whole(chance, 2) * 8.0,
        Input::EffectiveOverlapBlocks => chance.unit() * 100.0,
        Input::CachedTokens => whole(chance, prompt as usize * 2 + 1),
        Input::ActivePrefillTokens => whole(chance, 100_000),
        _ => whole(chance, 300),
    }
}

/// What the cases came across, so that none of it is missed for good.
#[derive(Debug, Default)]
struct Seen {
    decisions: usize,
    ties: usize,
    draws: usize,
    narrowed: usize,
    untracked: usize,
    unmatched: usize,
    rows: BTreeMap<usize, usize>,
}

/// One decision by all pipelines, in one call and stage by stage.
fn decide(
    at: &str,
    place: &Place,
    pipelines: &mut [Pipeline],
    chance: &mut Chance,
    seen: &mut Seen,
) {
    let rows = place.snapshot.rows.len();
    let eligible: Vec<u32> = match chance.below(3) {
        0 if rows > 1 => (0..rows as u32).filter(|&row| row == 0 || chance.unit() < 0.8).collect(),
        _ => (0..rows as u32).collect(),
    };
    let prompt = [0, 1, 160, 2_048, 100_003][chance.below(5)];
    let few = chance.below(3) == 0;
    let columns: BTreeMap<Input, Vec<f64>> = Input::ALL
        .into_iter()
        .map(|input| {
            let mut column: Vec<f64> =
                eligible.iter().map(|_| cell(chance, input, few, prompt)).collect();
            // As often as not, nothing is said of any row, or the same of all.
            let first = column[0];
            match chance.below(4) {
                0 => column.fill(f64::from(input == Input::PreferredTaintMultiplier)),
                1 => column.fill(first),
                _ => {}
            }
            (input, column)
        })
        .collect();

    let mut request = RouteRequest::new("r", partition(place.role), prompt);
    if chance.below(4) == 0 {
        let row = place.snapshot.rows[chance.below(rows)];
        let dp_rank = (chance.below(2) == 0).then_some(row.dp_rank);
        // One in eight is of nobody.
        let dp_rank = if chance.below(8) == 0 { Some(DpRank(99)) } else { dp_rank };
        request.affinity_target = Some(WorkerTarget { worker_id: row.worker_id, dp_rank });
    }
    request.router_temperature = [None, None, Some(0.0), Some(0.7)][chance.below(4)];
    let tracks = chance.below(4) > 0;
    let moment = Moment { now_ms: 5, seed: chance.bits() };
    let view = RequestView {
        has_tier_matches: chance.below(3) > 0,
        ..RequestView::new(&request, DecisionId(1), moment, place.block_size, tracks, None)
    };

    let mut answers = Vec::new();
    let mut costs = Vec::new();
    for pipeline in pipelines {
        for parts in [true, false] {
            // What is neutral in all rows may be known to be, or not.
            let knows = parts || chance.below(2) == 0;
            let neutral =
                columns.iter().filter(|(input, column)| knows && is_neutral(**input, column));
            let neutral = neutral.map(|(&input, _)| input).collect();
            pipeline.load(&place.snapshot, &eligible, neutral, |input, column| {
                column.copy_from_slice(&columns[&input]);
            });
            let selected = pipeline.run(&view, parts).unwrap_or_else(|e| panic!("{at}: {e:?}"));
            answers.push((selected.row, selected.cost.to_bits(), selected.kept));
            if parts {
                let bits = |cost: Option<f64>| cost.map(f64::to_bits);
                costs.push(pipeline.rows().map(|(_, cost)| bits(cost)).collect::<Vec<_>>());
            }
        }
    }
    let told = || format!("{at}: {view:?} {:?} {:?}", place.parameters, place.settings);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{}: {answers:?}", told());
    assert!(costs.iter().all(|bits| *bits == costs[0]), "{}: {costs:?}", told());

    let chosen = answers[0].1;
    let same = costs[0].iter().filter(|cost| **cost == Some(chosen)).count();
    let lowest =
        costs[0].iter().flatten().all(|&cost| f64::from_bits(cost) >= f64::from_bits(chosen));
    seen.decisions += 1;
    seen.ties += usize::from(lowest && same > 1);
    seen.draws += usize::from(!lowest);
    seen.narrowed += usize::from(answers[0].2 < eligible.len());
    seen.untracked += usize::from(!tracks);
    seen.unmatched += usize::from(!view.has_tier_matches);
    *seen.rows.entry(rows).or_default() += 1;
}

/// So many cases, each a place with five decisions.
fn agree(
    providers: &[Arc<dyn PolicyProvider>],
    roles: &[Role],
    with_parameters: bool,
    cases: u64,
) -> Seen {
    let mut seen = Seen::default();
    for case in 0..cases {
        let mut chance = Chance::new(case);
        let role = roles[chance.below(roles.len())];
        let rows = match case % 10 {
            0 | 1 => 1,
            2 | 3 => 64,
            4 => 1_000,
            _ => 2 + chance.below(140) as u32,
        };
        let place = Place::make(&mut chance, role, rows, with_parameters);
        let mut pipelines: Vec<Pipeline> = providers.iter().map(|p| place.pipeline(p)).collect();
        for decision in 0..5 {
            let at = format!("case {case}, decision {decision}");
            decide(&at, &place, &mut pipelines, &mut chance, &mut seen);
        }
    }
    seen
}

#[test]
fn costs_and_choices_are_the_built_ins_to_the_last_bit() -> Result<()> {
    let seen = agree(&three()?, &Role::ALL, true, 240);
    assert_eq!(seen.decisions, 1_200);
    for (count, what) in [
        (seen.ties, "ties"),
        (seen.draws, "draws of a row that isn't the lowest"),
        (seen.narrowed, "sessions that stay"),
        (seen.untracked, "prompts that aren't tracked"),
        (seen.unmatched, "prompts that no tier matched"),
        (seen.rows[&1], "decisions over one row"),
        (seen.rows[&64], "decisions over 64 rows"),
        (seen.rows[&1_000], "decisions over 1,000 rows"),
    ] {
        assert!(count >= 60, "only {count} {what}: {seen:?}");
    }
    Ok(())
}

/// The crate's cost function of workers that may prefill, whatever their role.
struct MayPrefill;

impl Policy for MayPrefill {
    type Parameters = default_cost::Settings;

    fn about() -> About {
        pointsman_sdk::about!()
    }

    fn build(
        settings: default_cost::Settings,
        environment: &Environment,
    ) -> pointsman_sdk::Result<Stages> {
        let weights = settings.over(environment)?;
        let scorer = default_cost::KvCost::new(&weights, environment.partition.role, false);
        Ok(Stages::new().scorer(scorer))
    }
}

#[test]
fn decode_workers_that_may_prefill_cost_the_same_too() {
    // Nothing makes such workers yet, so that the two cost functions are asked for them by hand.
    let builtin = MadePolicy::new("builtin-may-prefill", |environment| {
        let role = environment.partition.role;
        let settings = &environment.settings;
        let scorer = DefaultCost::new(settings, role, false);
        Ok(Box::new(native().scorer("kv-cost", scorer)))
    });
    let both = [Arc::new(builtin) as Arc<dyn PolicyProvider>, linked::<MayPrefill>("may-prefill")];
    let seen = agree(&both, &[Role::Decode], false, 120);
    assert!(seen.untracked > 60 && seen.ties > 30, "{seen:?}");
}

#[test]
fn a_draw_over_4096_rows_is_far_from_the_usual_limit_of_fuel() -> Result<()> {
    let [_, _, component] = three()?;
    // Every term is weighed, and each row's weight is worked out twice for the draw.
    let every = serde_json::json!({
        "overlap_score_credit_decay": 1, "decode_active_request_weight": 1,
        "shared_cache_multiplier": 1, "router_temperature": 0.5
    });
    let mut chance = Chance::new(1);
    let place = Place {
        role: Role::Aggregated,
        block_size: 16,
        settings: Arc::default(),
        parameters: every.as_object().cloned().unwrap_or_default(),
        snapshot: Arc::new(snapshot(&mut chance, Role::Aggregated, 4_096)),
    };
    let mut pipeline = place.pipeline(&component);
    let request = RouteRequest::new("r", partition(place.role), 2_048);
    let moment = Moment { now_ms: 5, seed: 1 };
    let view = RequestView {
        has_tier_matches: true,
        ..RequestView::new(&request, DecisionId(1), moment, 16, true, None)
    };
    let rows: Vec<u32> = (0..4_096).collect();
    pipeline.load(&place.snapshot, &rows, InputSet::default(), |input, column| {
        column.iter_mut().for_each(|value| *value = cell(&mut chance, input, false, 2_048));
    });
    pipeline.run(&view, false).unwrap();
    let fuel = pipeline.trace()[0].fuel.unwrap_or_default();
    assert!((10_000..2_500_000).contains(&fuel), "{fuel}");
    Ok(())
}
