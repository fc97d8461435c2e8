//! What stages can count on, on the native build: inputs, order, chance, checks.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use pointsman_sdk::native::{Decision, Instance, Lists};
use pointsman_sdk::prelude::*;
use pointsman_sdk::testing::{self, Candidate, Trial};

/// A policy of one stage.
macro_rules! export_policy_of_one {
    ($name:ident, scorer: $stage:expr) => {
        export_policy_of_one!($name, |stages: Stages| stages.scorer($stage));
    };
    ($name:ident, picker: $stage:expr) => {
        export_policy_of_one!($name, |stages: Stages| stages.picker($stage));
    };
    ($name:ident, $add:expr) => {
        struct $name;

        impl Policy for $name {
            type Parameters = NoParameters;

            fn about() -> About {
                about!()
            }

            fn build(_: NoParameters, _: &Environment) -> Result<Stages> {
                Ok(($add)(Stages::new()))
            }
        }
    };
}

export_policy! {
    /// Two filters, two scorers, and a picker that draws; reads everything that there is to read.
    pub policy Everything(_: NoParameters, environment) {
        filters: [AtLeast(Input::DeviceOverlapBlocks), AtLeast(Input::HostOverlapBlocks)],
        scorers: [ByIdentity, ByFact(f64::from(environment.partition.block_size))],
        picker: Drawn,
        prefix_hash_blocks: 2,
        properties: [stateless],
    }
}

/// Keeps rows whose column isn't below the request's block count.
struct AtLeast(Input);

impl WorkerFilter for AtLeast {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity, self.0]
    }

    fn keep(&mut self, cx: &Context<'_>, row: Row<'_>) -> Result<bool> {
        Ok(row.value(self.0) >= cx.request.request_blocks as f64)
    }
}

/// Costs what id, rank and the prompt's hashes say.
struct ByIdentity;

impl WorkerScorer for ByIdentity {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity, Input::Column("power")]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let hashes: u64 = cx.prefix_hashes().iter().sum();
        rows.score(costs, |row| {
            let worker = row.worker();
            let identity = worker.id * 100 + u64::from(worker.dp_rank) * 10 + hashes;
            identity as f64 + row.value(Input::Column("power"))
        });
        Ok(())
    }
}

struct ByFact(f64);

impl WorkerScorer for ByFact {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Fact("tariff"), Input::ActiveRequests]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let tariff = rows.fact("tariff").unwrap_or(0.0) + cx.random().unit();
        rows.score_columns([Input::ActiveRequests], costs, |[requests]| requests * tariff + self.0);
        Ok(())
    }
}

struct Drawn;

impl WorkerPicker for Drawn {
    fn pick(&mut self, cx: &Context<'_>, _: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        Ok(pick::softmax(costs, 0.5, &mut cx.random()))
    }
}

/// As many workers, with values that look arbitrary and aren't.
fn fleet(workers: u64) -> Vec<Candidate> {
    (1..=workers)
        .map(|id| {
            let mut values = Random::new(id);
            let mut below = |n: usize| values.below(n) as f64;
            testing::worker(id)
                .rank((id % 3) as u32)
                .with(Input::DeviceOverlapBlocks, below(4))
                .with(Input::HostOverlapBlocks, below(4))
                .with(Input::ActiveRequests, below(9))
                .with(Input::Column("power"), below(5))
        })
        .collect()
}

#[test]
fn separate_and_fused_calls_agree_for_any_fleet_and_seed() {
    let mut trial = Trial::of::<Everything>("{}").unwrap();
    trial.set_fact("tariff", 1.5);
    trial.set_prefix_hashes([7, 11]);
    let mut kept = std::collections::BTreeSet::new();
    for workers in [1, 2, 7, 8, 9, 63, 64, 65, 129, 300] {
        for seed in 0..20 {
            let request = Request { request_blocks: seed % 5, seed, ..testing::request() };
            // `decide` itself compares the two ways.
            let choice = trial.decide(&request, &fleet(workers)).unwrap();
            assert_eq!(choice.row.is_some(), !choice.kept.is_empty());
            assert!(choice.row.is_none_or(|row| choice.kept.contains(&row)));
            kept.insert(choice.kept.len());
        }
    }
    assert!(kept.len() > 10, "the fleets were too much alike: {kept:?}");
}

#[test]
fn every_input_reaches_the_stage_that_declared_it() {
    let mut trial = Trial::of::<Everything>("{}").unwrap();
    trial.set_fact("tariff", 2.0);
    trial.set_prefix_hashes([7, 11]);
    let left_out = testing::worker(1);
    let kept = testing::worker(4)
        .rank(2)
        .with(Input::DeviceOverlapBlocks, 1.0)
        .with(Input::HostOverlapBlocks, 1.0)
        .with(Input::ActiveRequests, 0.0)
        .with(Input::Column("power"), 0.5);
    let request = Request { request_blocks: 1, ..testing::request() };
    let choice = trial.decide(&request, &[left_out, kept]).unwrap();
    // 4 x 100 + 2 x 10 + 7 + 11 + 0.5 of the first scorer, 16 of the second.
    assert_eq!((choice.kept, choice.costs), (vec![1], vec![454.5]));
    assert_eq!(choice.worker, Some(Worker { id: 4, dp_rank: 2 }));
}

#[test]
fn a_declaration_has_names_inputs_and_properties() {
    let instance = Instance::configure::<Everything>(testing::environment("{}")).unwrap();
    let declaration = instance.declaration();
    let names: Vec<_> = declaration.filters.iter().map(|filter| &filter.name[..]).collect();
    assert_eq!(names, ["at-least", "at-least-2"]);
    assert_eq!(declaration.filters[0].inputs, ["identity", "device-overlap-blocks"]);
    assert_eq!(declaration.picker.as_ref().unwrap().inputs, [""; 0]);
    assert_eq!(declaration.prefix_hash_blocks, 2);
    assert_eq!(declaration.properties, ["fused", "compact", "stateless"]);
    let all = ["identity", "device-overlap-blocks", "host-overlap-blocks", "power", "tariff"];
    assert_eq!(declaration.fused_inputs()[..5], all);
}

export_policy_of_one! { Careless, scorer: ReadsOther }

/// Reads what it didn't declare.
struct ReadsOther;

impl WorkerScorer for ReadsOther {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests]
    }

    fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        rows.score(costs, |row| row.active_requests() + row.cached_tokens());
        Ok(())
    }
}

#[test]
fn an_undeclared_read_is_refused_by_name() {
    let refusal = Trial::of::<Careless>("{}").unwrap().decide(&testing::request(), &fleet(9));
    assert_eq!(
        refusal.unwrap_err().message(),
        "scorer \"reads-other\": it reads \"cached-tokens\" without declaring it; \
         return Input::CachedTokens from inputs() too"
    );
}

export_policy_of_one! { Forgetful, scorer: LeavesOneOut }

/// Scores all rows but the last.
struct LeavesOneOut;

impl WorkerScorer for LeavesOneOut {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests]
    }

    fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let scored = costs.len() - 1;
        costs[..scored].copy_from_slice(&rows.column(Input::ActiveRequests)[..scored]);
        Ok(())
    }
}

#[test]
fn a_row_that_was_left_out_reaches_the_host_as_nan() {
    let mut instance = Instance::configure::<Forgetful>(testing::environment("{}")).unwrap();
    let lists = Lists { rows: 3, numbers: &[4.0, 5.0, 6.0], ..Lists::default() };
    let mut costs = Vec::new();
    instance.score(0, &testing::request(), lists, &mut costs).unwrap();
    assert!(costs[..2] == [4.0, 5.0] && costs[2].is_nan());
    let mut decision = Decision::default();
    instance.decide(&testing::request(), lists, &mut decision).unwrap();
    assert!(decision.costs[2].is_nan());
}

export_policy! {
    /// Keeps workers with odd numbers, and all where a request has no blocks.
    pub policy OddAtTimes {
        filters: [Odd(false)],
        picker: Drawn,
    }
}

struct Odd(bool);

impl WorkerFilter for Odd {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity]
    }

    fn prepare(&mut self, cx: &Context<'_>, _: &Candidates<'_>) -> Result {
        self.0 = cx.request.request_blocks == 0;
        Ok(())
    }

    fn keeps_all(&self) -> bool {
        self.0
    }

    fn keep(&mut self, _: &Context<'_>, row: Row<'_>) -> Result<bool> {
        Ok(row.worker().id % 2 == 1)
    }
}

#[test]
fn a_filter_that_keeps_all_keeps_each_row_that_there_is_and_none_beyond() {
    let mut instance = Instance::configure::<OddAtTimes>(testing::environment("{}")).unwrap();
    for rows in [0, 1, 7, 63, 64, 65, 128, 130] {
        let identity: Vec<u64> = (0..rows).chain((0..rows).map(|_| 0)).collect();
        let lists = Lists { rows: rows as u32, identity: &identity, ..Lists::default() };
        let mut request = testing::request();
        for (blocks, each) in [(0, 1), (1, 2)] {
            request.request_blocks = blocks;
            let mut mask = Vec::new();
            instance.keep(0, &request, lists, &mut mask).unwrap();
            assert_eq!(mask.len(), rows.div_ceil(64) as usize, "{rows} rows");
            let kept: u32 = mask.iter().map(|word| word.count_ones()).sum();
            assert_eq!(u64::from(kept), rows / each, "{rows} rows");
        }
    }
}

export_policy_of_one! { OutOfRange, picker: PicksPastTheEnd }

/// Picks a row that isn't there.
struct PicksPastTheEnd;

impl WorkerPicker for PicksPastTheEnd {
    fn pick(&mut self, _: &Context<'_>, rows: &Candidates<'_>, _: &[f64]) -> Result<usize> {
        Ok(rows.len())
    }
}

#[test]
fn a_row_past_the_end_stays_past_the_end() {
    let mut trial = Trial::of::<OutOfRange>("{}").unwrap();
    let choice = trial.decide(&testing::request(), &fleet(3)).unwrap();
    assert_eq!((choice.row, choice.worker), (Some(3), None));
}

#[test]
fn lists_that_do_not_match_are_refused_rather_than_read() {
    let mut instance = Instance::configure::<Everything>(testing::environment("{}")).unwrap();
    let (request, mut mask) = (testing::request(), Vec::new());
    let identity = [1, 2, 0, 0];
    for (rows, uniform, numbers, identity) in [
        (2, 0, &[1.0][..], &identity[..]),
        (2, 0, &[1.0, 2.0, 3.0], &identity),
        (2, 0, &[1.0, 2.0], &identity[..3]),
        (2, 1, &[1.0, 2.0], &identity),
        (2, 1, &[], &identity),
        (2, 2, &[1.0], &identity),
        (2, u64::MAX, &[1.0], &identity),
        (u32::MAX, 0, &[], &[]),
        (u32::MAX, u64::MAX, &[], &[]),
    ] {
        let lists = Lists { rows, uniform, numbers, identity, prefix_hashes: &[] };
        let refusal = instance.keep(0, &request, lists, &mut mask);
        assert!(refusal.unwrap_err().message().contains("disagree about the contract"));
        let mut decision = Decision::default();
        assert!(instance.decide(&request, lists, &mut decision).is_err());
    }
    let none = Lists::default();
    assert!(instance.keep(2, &request, none, &mut mask).is_err());
    assert!(instance.pick(&request, Lists { rows: 2, ..none }, &[0.0]).is_err());
}

export_policy_of_one! { Spelled, scorer: SpellsOut }

/// Spells a named input out.
struct SpellsOut;

impl WorkerScorer for SpellsOut {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Column("active-requests")]
    }

    fn score(&mut self, _: &Context<'_>, _: &Candidates<'_>, _: &mut [f64]) -> Result {
        Ok(())
    }
}

#[test]
fn one_input_has_one_spelling() {
    let refusal = Instance::configure::<Spelled>(testing::environment("{}")).unwrap_err();
    assert_eq!(
        refusal.message(),
        "input \"active-requests\" has a variant of its own; declare Input::ActiveRequests"
    );
}
