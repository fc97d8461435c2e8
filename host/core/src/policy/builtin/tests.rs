//! Promises of the built-in policies.

mod cost;
mod two_tier;
mod weights;

use std::collections::BTreeMap;

use super::*;
use crate::clock::Moment;
use crate::ids::{DecisionId, DpRank, PartitionKey, Role, WorkerId, WorkerRank, WorkerTarget};
use crate::policy::candidates::{Candidates, Matrix};
use crate::policy::catalog::PolicyEnvironment;
use crate::policy::input::{Input, InputSet};
use crate::policy::native::{WorkerPicker, WorkerScorer};
use crate::policy::settings::RouterSettings;
use crate::policy::view::RequestView;
use crate::policy::{Catalog, Limits};
use crate::request::RouteRequest;
use crate::testing::{key, moment, rank, ranked, request, snapshot};

fn environment(role: Role, parameters: serde_json::Value) -> PolicyEnvironment {
    let serde_json::Value::Object(parameters) = parameters else { panic!("an object") };
    PolicyEnvironment {
        instance: "mine".into(),
        partition: PartitionKey { role, ..key(role) },
        block_size: 16,
        parameters: Arc::new(parameters),
        settings: Arc::default(),
        limits: Limits::default(),
        seed: 1,
        trial: false,
    }
}

fn instance(name: &str, parameters: serde_json::Value) -> Box<dyn PolicyInstance> {
    let catalog = Catalog::builtin();
    let provider = catalog.get(name).expect("a built-in");
    provider.instantiate(&environment(Role::Aggregated, parameters)).expect("it is made")
}

fn view<'a>(request: &'a RouteRequest, moment: Moment, tracks: bool) -> RequestView<'a> {
    RequestView::new(request, DecisionId(1), moment, 16, tracks, None)
}

/// The columns of one row; what is left out is 0, and the taints' factor 1.
type Row = &'static [(Input, f64)];

fn columns(rows: &[Row], inputs: &[Input]) -> Matrix {
    let mut matrix = Matrix::new(inputs);
    matrix.fill(rows.len(), |input, column| {
        for (value, row) in column.iter_mut().zip(rows) {
            let given = row.iter().find(|(given, _)| *given == input).map(|(_, value)| *value);
            let absent = if input == Input::PreferredTaintMultiplier { 1.0 } else { 0.0 };
            *value = given.unwrap_or(absent);
        }
    });
    matrix
}

fn ids(rows: usize) -> Vec<WorkerRank> {
    (0..rows as u64).map(|id| rank(id, 0)).collect()
}

use Input::ActiveRequests as Requests;

#[test]
fn preferred_taints_stay_within_a_factor_of_e() {
    let e = std::f64::consts::E;
    let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert_eq!(preferred_taint_multiplier(0.0), 1.0);
    assert_eq!(preferred_taint_multiplier(-0.0), 1.0);
    // exp(-tanh(1)), tanh(1) = 0.7615941559557649.
    assert!(close(preferred_taint_multiplier(1.0), 0.466921487722));
    for (weight, expected) in [(1e300, 1.0 / e), (-1e300, e), (f64::INFINITY, 1.0 / e)] {
        assert!(close(preferred_taint_multiplier(weight), expected), "{weight}");
    }
}

#[test]
fn parameters_take_the_place_of_settings_and_bad_ones_are_named() {
    let catalog = Catalog::builtin();
    let make = |name: &str, parameters| {
        let provider = catalog.get(name).expect("a built-in");
        provider.instantiate(&environment(Role::Aggregated, parameters)).map(|_| ())
    };
    assert!(make("default", serde_json::json!({})).is_ok());
    assert!(
        make("default", serde_json::json!({"overlap_score_credit": 2, "router_temperature": 0.5}))
            .is_ok()
    );
    for (parameters, named) in [
        (serde_json::json!({"overlap_score_credit": -1}), "overlap_score_credit"),
        (serde_json::json!({"host_cache_hit_weight": 1.5}), "host_cache_hit_weight"),
        (serde_json::json!({"temprature": 1}), "temprature"),
        (serde_json::json!({"router_temperature": "hot"}), "hot"),
    ] {
        let refusal = make("default", parameters).expect_err("it is refused").to_string();
        assert!(refusal.contains(named), "{refusal}");
    }
    for (ratio, is_taken) in [(1.0, true), (0.5, false), (-8.0, false)] {
        let parameters = serde_json::json!({ "ratio": ratio });
        assert_eq!(make("device-aware", parameters).is_ok(), is_taken, "{ratio}");
    }
    for name in NAMES.into_iter().filter(|name| *name != "default") {
        assert!(make(name, serde_json::json!({})).is_ok(), "{name}");
        assert!(make(name, serde_json::json!({"x": 1})).is_err(), "{name} takes no parameters");
    }
}

#[test]
fn one_row_is_picked_without_a_draw() {
    // Whatever is drawn next is drawn as if nobody had asked; a pin leaves one row.
    let request = request(1);
    let pinned = RequestView { pinned_worker: Some(rank(0, 0)), ..view(&request, moment(1), true) };
    for temperature in [0.0, 0.7] {
        assert_eq!(pick(&mut DefaultPicker { temperature }, &pinned, &[f64::MAX]), 0);
    }
    let mut chance = Chance::new(1);
    assert_eq!(pick_lowest(&[f64::MAX], &mut chance), 0);
    assert_eq!(chance.bits(), Chance::new(1).bits());
}

fn pick(picker: &mut dyn WorkerPicker, request: &RequestView<'_>, costs: &[f64]) -> usize {
    let ids = ids(costs.len());
    let matrix = Matrix::new(&[]);
    let rows = Candidates::new(&ids, &matrix, InputSet::default(), &[]);
    picker.pick(request, &rows, costs).expect("it picks")
}

#[test]
fn the_lowest_cost_wins_and_ties_are_even() {
    let mut chance = Chance::new(1);
    assert_eq!(pick_lowest(&[3.0, -1.0, 2.0], &mut chance), 1);
    assert_eq!(chance.bits(), Chance::new(1).bits(), "without a tie nothing is drawn");
    let mut counts = [0; 4];
    for seed in 0..4_000 {
        counts[pick_lowest(&[1.0, 5.0, 1.0, 1.0], &mut Chance::new(seed))] += 1;
    }
    assert_eq!(counts[1], 0);
    assert!(
        [0, 2, 3].iter().all(|&row: &usize| (1_200..1_470).contains(&counts[row])),
        "{counts:?}"
    );
    // What the host lets nobody give is no panic either.
    for odd in [&[][..], &[f64::NAN; 3], &[f64::INFINITY; 3], &[f64::NAN, f64::INFINITY]] {
        assert!(pick_lowest(odd, &mut Chance::new(2)) < odd.len().max(1));
    }
    assert_eq!(
        pick_lowest(&[0.0, -0.0], &mut Chance::new(3)),
        pick_lowest(&[1.0, 1.0], &mut Chance::new(3))
    );
}

#[test]
fn softmax_weighs_rows_by_their_cost_over_the_range() {
    // Costs 0, 1, 2 at temperature 1: weights 1, e^-1/2, e^-1, in all 1.974.
    let request = request(1);
    let mut picker = DefaultPicker { temperature: 1.0 };
    let mut counts = [0.0; 3];
    let draws = 20_000;
    for seed in 0..draws {
        counts[pick(&mut picker, &view(&request, moment(seed), true), &[0.0, 1.0, 2.0])] += 1.0;
    }
    for (count, expected) in counts.iter().zip([0.506_48, 0.307_2, 0.186_32]) {
        let share: f64 = count / draws as f64;
        assert!((share - expected).abs() < 0.015, "{counts:?}");
    }
}

#[test]
fn softmax_takes_any_finite_costs_and_temperatures() {
    let request = request(1);
    let costs: [&[f64]; 8] = [
        &[f64::MAX, f64::MIN, 0.0],
        &[f64::MIN, f64::MAX],
        &[0.0, f64::MIN_POSITIVE],
        &[5e-324, 0.0],
        &[1e308, -1e308, 1e308],
        &[7.0, 7.0, 7.0],
        &[-0.0, 0.0],
        &[3.0],
    ];
    for costs in costs {
        for temperature in [5e-324, 1e-300, 0.5, 1e300, f64::MAX] {
            let mut picker = DefaultPicker { temperature };
            for seed in 0..50 {
                let view = view(&request, moment(seed), true);
                let row = pick(&mut picker, &view, costs);
                assert!(row < costs.len());
                // So cold that only the lowest is left, unless the costs are equal.
                let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
                if temperature < 1e-200 {
                    assert_eq!(costs[row], lowest, "{costs:?} at {temperature}");
                }
            }
        }
    }
    // So hot that all are even, even where the range overflows.
    let mut counts = [0; 3];
    for seed in 0..3_000 {
        let view = view(&request, moment(seed), true);
        counts
            [pick(&mut DefaultPicker { temperature: 1e300 }, &view, &[f64::MAX, f64::MIN, 0.0])] +=
            1;
    }
    assert!(counts.iter().all(|count| (880..1_120).contains(count)), "{counts:?}");
}

#[test]
fn a_request_brings_its_own_temperature() {
    let mut hot = request(1);
    hot.router_temperature = Some(1e6);
    let mut cold = request(1);
    cold.router_temperature = Some(0.0);
    let chosen = |request: &RouteRequest, temperature: f64| {
        let rows = (0..200).map(|seed| {
            pick(
                &mut DefaultPicker { temperature },
                &view(request, moment(seed), true),
                &[1.0, 2.0],
            )
        });
        rows.sum::<usize>()
    };
    assert!(chosen(&hot, 0.0) > 50);
    assert_eq!(chosen(&cold, 1e6), 0);
}

/// Asks a policy that reads identity and active requests, and tells its picked rank.
fn ask(
    instance: &mut dyn PolicyInstance,
    ids: &[WorkerRank],
    loads: &[f64],
    request: &RequestView<'_>,
) -> Result<WorkerRank, crate::policy::StageError> {
    let mut matrix = Matrix::new(&[Requests]);
    matrix.fill(ids.len(), |_, column| column.copy_from_slice(loads));
    let stage = instance.declaration().picker.clone().expect("a picker");
    let rows = Candidates::new(ids, &matrix, stage.input_set(), &[]);
    let row = instance.pick(request, &rows, &vec![0.0; ids.len()])?;
    Ok(ids[row])
}

#[test]
fn turns_go_round_by_worker_and_then_by_rank() {
    let mut policy = instance("round-robin", serde_json::json!({}));
    let fleet = snapshot([ranked(1, 0, 1), ranked(2, 4, 3), ranked(3, 0, 1)]);
    policy.fleet_changed(&fleet).expect("it follows");
    let request = request(1);
    let view = view(&request, moment(1), true);
    let loads = vec![0.0; 5];
    let turns: Vec<_> = (0..9)
        .map(|_| ask(&mut *policy, &fleet.rows, &loads, &view).expect("it picks"))
        .map(|rank| (rank.worker_id.0, rank.dp_rank.0))
        .collect();
    let expected = [(1, 0), (2, 4), (3, 0), (1, 0), (2, 5), (3, 0), (1, 0), (2, 6), (3, 0)];
    assert_eq!(turns, expected);
}

#[test]
fn turns_stay_fair_while_the_rows_change() {
    // Every other request may not have worker 3; a plain cursor would starve it.
    let mut policy = instance("round-robin", serde_json::json!({}));
    let all = ids(3);
    let request = request(1);
    let view = view(&request, moment(1), true);
    let mut counts: BTreeMap<WorkerId, u32> = BTreeMap::new();
    for turn in 0..90 {
        let rows = if turn % 2 == 0 { &all[..] } else { &all[..2] };
        let picked = ask(&mut *policy, rows, &vec![0.0; rows.len()], &view).expect("it picks");
        *counts.entry(picked.worker_id).or_default() += 1;
    }
    assert!(counts.values().all(|&count| (20..=40).contains(&count)), "{counts:?}");
    // A newcomer has its turn first, and is then one of four.
    let four = ids(4);
    let mut counts: BTreeMap<WorkerId, u32> = BTreeMap::new();
    for _ in 0..40 {
        let picked = ask(&mut *policy, &four, &[0.0; 4], &view).expect("it picks");
        *counts.entry(picked.worker_id).or_default() += 1;
    }
    assert!(counts.values().all(|&count| count == 10), "{counts:?}");
}

#[test]
fn a_pinned_or_bound_request_takes_no_turn() {
    let mut policy = instance("round-robin", serde_json::json!({}));
    let rows = ids(3);
    let plain = request(1);
    let mut bound = request(1);
    bound.affinity_target = Some(WorkerTarget { worker_id: WorkerId(2), dp_rank: None });
    let pinned = RequestView { pinned_worker: Some(rank(2, 0)), ..view(&plain, moment(1), true) };
    let mut picked = Vec::new();
    for _ in 0..3 {
        let turn = ask(&mut *policy, &rows, &[0.0; 3], &view(&plain, moment(1), true));
        picked.push(turn.expect("it picks").worker_id.0);
        let bound = ask(&mut *policy, &rows, &[0.0; 3], &view(&bound, moment(1), true));
        assert_eq!(bound.expect("it picks"), rank(2, 0));
        assert_eq!(ask(&mut *policy, &rows[2..], &[0.0], &pinned).expect("it picks"), rank(2, 0));
    }
    assert_eq!(picked, [0, 1, 2]);
}

#[test]
fn an_affinity_target_among_the_rows_gets_the_request() {
    let rows = snapshot([ranked(1, 0, 1), ranked(2, 4, 3)]).rows;
    let loads = [0.0, 9.0, 8.0, 9.0];
    let target = |id, dp_rank: Option<u32>| {
        Some(WorkerTarget { worker_id: WorkerId(id), dp_rank: dp_rank.map(DpRank) })
    };
    for name in ["round-robin", "random", "least-loaded", "power-of-two", "direct"] {
        let mut policy = instance(name, serde_json::json!({}));
        for seed in 0..20 {
            let mut request = request(1);
            request.affinity_target = target(2, Some(6));
            let picked = ask(&mut *policy, &rows, &loads, &view(&request, moment(seed), true));
            assert_eq!(picked.expect("it picks"), rank(2, 6), "{name}");
            request.affinity_target = target(2, None);
            let picked = ask(&mut *policy, &rows, &loads, &view(&request, moment(seed), true));
            let picked = picked.expect("it picks");
            assert_eq!(picked.worker_id, WorkerId(2), "{name}");
            assert!(name != "least-loaded" || picked == rank(2, 5));
            // A target that isn't there is no reason to fail, but for `direct`.
            request.affinity_target = target(7, None);
            let picked = ask(&mut *policy, &rows, &loads, &view(&request, moment(seed), true));
            assert_eq!(picked.is_err(), name == "direct", "{name}");
        }
    }
}

#[test]
fn direct_goes_where_the_request_says_and_nowhere_else() {
    let mut policy = instance("direct", serde_json::json!({}));
    let rows = ids(3);
    let plain = request(1);
    let refused = ask(&mut *policy, &rows, &[0.0; 3], &view(&plain, moment(1), true));
    assert_eq!(refused.expect_err("it refuses").cause, crate::policy::Cause::Refused);
    let pinned = RequestView { pinned_worker: Some(rank(1, 0)), ..view(&plain, moment(1), true) };
    assert_eq!(ask(&mut *policy, &rows[1..2], &[0.0], &pinned).expect("it picks"), rank(1, 0));
}

#[test]
fn the_least_loaded_wins_and_two_choices_avoid_the_busiest() {
    let rows = ids(4);
    let request = request(1);
    let mut least = instance("least-loaded", serde_json::json!({}));
    let mut two = instance("power-of-two", serde_json::json!({}));
    let mut random = instance("random", serde_json::json!({}));
    let loads = [3.0, 1.0, 9.0, 1.0];
    let mut counts = [[0; 4]; 3];
    for seed in 0..2_000 {
        let view = view(&request, moment(seed), true);
        for (policy, counts) in [&mut least, &mut two, &mut random].into_iter().zip(&mut counts) {
            let picked = ask(&mut **policy, &rows, &loads, &view).expect("it picks");
            counts[picked.worker_id.0 as usize] += 1;
            assert_eq!(ask(&mut **policy, &rows, &loads, &view), Ok(picked), "the seed decides");
        }
    }
    let [least, two, random] = counts;
    assert_eq!((least[0], least[2]), (0, 0));
    assert!(least[1] > 900 && least[3] > 900, "{least:?}");
    // Of six pairs the busiest loses all; row 0 wins one.
    assert_eq!(two[2], 0);
    assert!((270..400).contains(&two[0]), "{two:?}");
    assert!(random.iter().all(|count| (430..570).contains(count)), "{random:?}");
    for policy in ["least-loaded", "power-of-two", "random", "round-robin"] {
        let mut policy = instance(policy, serde_json::json!({}));
        let view = view(&request, moment(1), true);
        assert_eq!(ask(&mut *policy, &rows[..1], &[5.0], &view), Ok(rank(0, 0)), "one row");
    }
}

#[test]
fn two_choices_take_the_first_of_equals() {
    let rows = ids(2);
    let request = request(1);
    let mut policy = instance("power-of-two", serde_json::json!({}));
    let first_of = |seed: u64| Chance::new(seed).below(2) as u64;
    for seed in 0..50 {
        let picked = ask(&mut *policy, &rows, &[4.0, 4.0], &view(&request, moment(seed), true));
        assert_eq!(picked.expect("it picks").worker_id.0, first_of(seed));
    }
}
