//! The promises of the README, on the native build.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

mod formula;
mod parameters;

use pointsman_sdk::prelude::*;
use pointsman_sdk::testing::{self, Candidate, Trial};

use crate::DefaultCost;

/// A partition of blocks of 16 tokens whose workers have this role.
fn environment(role: Role, parameters: &str) -> Environment {
    let mut environment = testing::environment(parameters);
    environment.partition.role = role;
    environment
}

/// A request of so many tokens.
fn request(prompt_tokens: u64) -> Request {
    Request {
        prompt_tokens,
        request_blocks: prompt_tokens.div_ceil(16),
        has_tier_matches: true,
        ..testing::request()
    }
}

/// The columns of one row; what is left out is 0, and the taints' factor 1.
type Row<'a> = &'a [(Input, f64)];

fn fleet(rows: &[Row<'_>]) -> Vec<Candidate> {
    (1..)
        .zip(rows)
        .map(|(id, row)| {
            row.iter()
                .fold(testing::worker(id), |worker, &(input, value)| worker.with(input, value))
        })
        .collect()
}

/// Workers that cost 10 blocks and what each has of decode blocks.
fn decoding(blocks: &[f64]) -> Vec<Candidate> {
    let row = |&blocks: &f64| [(Input::DecodeCostBlocks, blocks)];
    let rows: Vec<_> = blocks.iter().map(row).collect();
    fleet(&rows.iter().map(|row| &row[..]).collect::<Vec<_>>())
}

#[test]
fn the_lowest_cost_is_chosen_and_a_tie_by_the_seed() {
    let mut trial = Trial::of::<DefaultCost>("{}").unwrap();
    let choice = trial.decide(&request(160), &decoding(&[3.0, 1.0, 2.0])).unwrap();
    assert_eq!((choice.row, choice.costs), (Some(1), vec![13.0, 11.0, 12.0]));
    let mut counts = [0; 4];
    for seed in 0..2_000 {
        let request = Request { seed, ..request(160) };
        let choice = trial.decide(&request, &decoding(&[1.0, 1.0, 5.0, 1.0])).unwrap();
        counts[choice.row.unwrap()] += 1;
    }
    assert_eq!(counts[2], 0);
    assert!([0, 1, 3].iter().all(|&row: &usize| (590..745).contains(&counts[row])), "{counts:?}");
}

#[test]
fn a_temperature_draws_by_softmax_over_the_range_of_costs() {
    // Costs 10, 11, 12 at temperature 1: weights 1, e^-1/2, e^-1, in all 1.974.
    let mut trial = Trial::of::<DefaultCost>(r#"{"router_temperature": 1}"#).unwrap();
    let mut shares = [0.0; 3];
    let draws = 4_000;
    for seed in 0..draws {
        let request = Request { seed, ..request(160) };
        let choice = trial.decide(&request, &decoding(&[0.0, 1.0, 2.0])).unwrap();
        shares[choice.row.unwrap()] += 1.0 / draws as f64;
    }
    for (share, expected) in shares.iter().zip([0.506_48, 0.307_2, 0.186_32]) {
        let share: f64 = *share;
        assert!((share - expected).abs() < 0.03, "{shares:?}");
    }
}

#[test]
fn a_request_brings_its_own_temperature() {
    let fleet = decoding(&[1.0, 2.0]);
    for (parameters, own, spreads) in [
        ("{}", Some(1e6), true),
        ("{}", None, false),
        (r#"{"router_temperature": 1000000}"#, Some(0.0), false),
        (r#"{"router_temperature": 1000000}"#, None, true),
    ] {
        let mut trial = Trial::of::<DefaultCost>(parameters).unwrap();
        let second = (0..200).filter(|&seed| {
            let request = Request { seed, router_temperature: own, ..request(160) };
            trial.decide(&request, &fleet).unwrap().row == Some(1)
        });
        assert_eq!(second.count() > 50, spreads, "{parameters} {own:?}");
    }
}

#[test]
fn a_bound_session_stays_while_its_worker_is_there() {
    let mut trial = Trial::of::<DefaultCost>("{}").unwrap();
    let fleet = [
        testing::worker(1),
        testing::worker(2).rank(4).with(Input::DecodeCostBlocks, 9.0),
        testing::worker(2).rank(5).with(Input::DecodeCostBlocks, 8.0),
    ];
    for (id, dp_rank, kept, row) in [
        (2, Some(4), vec![1], 1),
        (2, None, vec![1, 2], 2),
        (2, Some(6), vec![0, 1, 2], 0),
        (7, None, vec![0, 1, 2], 0),
    ] {
        let affinity_target = Some(WorkerTarget { id, dp_rank });
        let choice = trial.decide(&Request { affinity_target, ..request(160) }, &fleet).unwrap();
        assert_eq!((choice.kept, choice.row), (kept, Some(row)), "{id} {dp_rank:?}");
    }
    // What was kept for one decision is nothing to the next.
    assert_eq!(trial.decide(&request(160), &fleet).unwrap().kept, [0, 1, 2]);
}

#[test]
fn only_those_that_are_left_say_who_is_lightest() {
    let mut trial = Trial::of::<DefaultCost>(r#"{"overlap_score_credit_decay": 1}"#).unwrap();
    let (prefill, device) = (Input::ActivePrefillTokens, Input::DeviceOverlapBlocks);
    let fleet = [
        testing::worker(1).with(device, 4.0),
        testing::worker(2).rank(0).with(prefill, 160.0).with(device, 4.0),
        testing::worker(2).rank(1).with(prefill, 320.0).with(device, 4.0),
    ];
    let affinity_target = Some(WorkerTarget { id: 2, dp_rank: None });
    let choice = trial.decide(&Request { affinity_target, ..request(160) }, &fleet).unwrap();
    // The second is 10 blocks above the first, over a prompt of 10: its credit is halved.
    assert_eq!((choice.kept, choice.costs), (vec![1, 2], vec![20.0 - 4.0, 30.0 - 2.0]));
}

#[test]
fn stages_have_the_built_ins_names() {
    let mut trial = Trial::of::<DefaultCost>("{}").unwrap();
    let [instance, _] = trial.instances();
    let declaration = instance.declaration();
    let names = declaration.filters.iter().chain(&declaration.scorers).chain(&declaration.picker);
    let names: Vec<_> = names.map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["affinity", "kv-cost", "lowest-or-softmax"]);
    assert_eq!(declaration.properties, ["fused", "compact", "stateless", "replicable"]);
}
