//! Stages of several policies in one: components' and built-ins', filters before scorers of others, costs
//! weighed and brought to one scale; against what each stage gives alone.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use pointsman::config::Config;
use pointsman_core::clock::Chance;
use pointsman_core::fleet::Fleet;
use pointsman_core::ids::Role;
use pointsman_core::policy::pipeline::{RunError, Selected};
use pointsman_core::policy::selection::BuildContext;
use pointsman_core::policy::{Catalog, Input, Pipeline, RouterSettings};
use pointsman_tests::library::{LIBRARY, Native};
use pointsman_tests::{components, guests, languages};

use crate::library::decisions::{Decision, Place};

/// Compositions, each asked for one decision.
const CASES: u64 = 1_500;

const WAYS: [&str; 3] = ["none", "min-max", "rank"];

/// Filters, from none to all, built-in and not.
const FILTERS: [&str; 4] = [
    "",
    "{ type: least-busy, parameters: { min_device_overlap_blocks: 2 }, limits: { deadline: 30s } }",
    "{ type: default, stage: affinity }",
    "{ type: default }, { type: least-prefill, parameters: { min_device_overlap_blocks: 1 }, limits: { deadline: 30s } }",
];

/// Scorers without a weight.
const SCORERS: [&str; 3] = [
    "type: default, parameters: { overlap_score_credit: 0.5 }",
    "type: least-prefill, limits: { deadline: 30s }",
    "type: least-busy, parameters: { min_device_overlap_blocks: 0 }, limits: { deadline: 30s }",
];

/// A component's picker takes the lowest cost that stands first; without one it is any of the lowest.
const PICKERS: [&str; 3] = [
    "",
    "picker: { type: default, stage: lowest-or-softmax }",
    "picker: { type: least-busy, parameters: { min_device_overlap_blocks: 0 }, limits: { deadline: 30s } }",
];

fn pipeline(catalog: &Catalog, place: &Place, stages: &str) -> Result<Pipeline> {
    let yaml = format!(
        "worker_selection:
  aggregated: it
  instances:
    - {{ name: it, on_failure: reject, {stages} }}
workers:
  - {{ worker_id: 1, endpoint: \"http://127.0.0.1:1\", model: m }}
"
    );
    let config =
        Config::from_yaml("composed.yaml", &yaml, &crate::docs::root()).context(yaml.clone())?;
    let instance = config.selection.instances.first().context("an instance")?;
    let context = BuildContext {
        catalog,
        partition: &place.partition,
        block_size: place.block_size,
        settings: &Arc::new(RouterSettings::default()),
        seed: 7,
        trial: false,
    };
    instance.build(&context).context(yaml)
}

/// Each row's cost; none for a row that was rejected.
fn costs(pipeline: &Pipeline) -> Vec<Option<f64>> {
    pipeline.rows().map(|(_, cost)| cost).collect()
}

/// What a way makes of costs, as one would explain it.
fn brought_to_scale(way: &str, costs: &[f64]) -> Vec<f64> {
    let low = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let one = |cost: f64| match way {
        "min-max" if low == high => 0.0,
        "min-max" => (cost - low) / (high - low),
        "rank" => {
            let less = costs.iter().filter(|other| **other < cost).count();
            if costs.len() > 1 { less as f64 / (costs.len() - 1) as f64 } else { 0.0 }
        }
        _ => cost,
    };
    costs.iter().map(|&cost| one(cost)).collect()
}

#[test]
fn stages_of_components_and_built_ins_add_up_as_each_alone_gives() -> Result<()> {
    let mut catalog = Catalog::builtin();
    catalog.insert(components::load(guests::least_busy())?)?;
    catalog.insert(components::load(guests::least_prefill())?)?;
    let (mut decided, mut filtered, mut narrowed) = (0, 0, 0);
    for case in 0..CASES {
        let mut chance = Chance::new(case);
        let place = Place::new(Role::Aggregated, [16, 64, 7][chance.below(3)], "{}")?;
        let mut fleet = Fleet::default();
        for id in 0..1 + chance.below(12) as u64 {
            fleet.upsert(place.worker(&mut chance, id))?;
        }
        let snapshot = Arc::new(fleet.snapshot(&place.partition));
        let decision = Decision::make(&mut chance, &place, snapshot, case);
        let filters = format!("filters: [{}]", FILTERS[chance.below(FILTERS.len())]);
        let picker = chance.below(PICKERS.len());
        let used: Vec<(usize, &str, f64)> = (0..1 + chance.below(3))
            .map(|_| {
                let weight = [1.0, 0.5, -2.0, 0.001][chance.below(4)];
                (chance.below(SCORERS.len()), WAYS[chance.below(3)], weight)
            })
            .collect();
        let scorers: Vec<String> = used
            .iter()
            .map(|(which, way, weight)| {
                format!("{{ {}, normalisation: {way}, weight: {weight} }}", SCORERS[*which])
            })
            .collect();
        let stages = format!("{filters}, scorers: [{}]", scorers.join(", "));
        let whole = match PICKERS[picker] {
            "" => stages,
            picker => format!("{stages}, {picker}"),
        };
        let mut composed = pipeline(&catalog, &place, &whole)?;
        let answer = decision.run(&mut composed, &place);

        let mut sum: Vec<f64> = Vec::new();
        let mut kept: Vec<usize> = Vec::new();
        for (nth, &(which, way, weight)) in used.iter().enumerate() {
            let alone = format!("{filters}, scorers: [{{ {} }}]", SCORERS[which]);
            let mut alone = pipeline(&catalog, &place, &alone)?;
            if decision.run(&mut alone, &place) == Err(RunError::AllFiltered) {
                kept.clear();
                break;
            }
            let rows = costs(&alone);
            kept = (0..rows.len()).filter(|&row| rows[row].is_some()).collect();
            let own: Vec<f64> = rows.into_iter().flatten().collect();
            let own = brought_to_scale(way, &own);
            sum = match nth {
                0 => own.iter().map(|cost| cost * weight).collect(),
                _ => sum.iter().zip(own).map(|(sum, cost)| sum + cost * weight).collect(),
            };
        }
        if kept.is_empty() {
            assert_eq!(answer, Err(RunError::AllFiltered), "case {case}: {whole}");
            filtered += 1;
            continue;
        }
        let found = costs(&composed);
        let rows: Vec<usize> = (0..found.len()).filter(|&row| found[row].is_some()).collect();
        assert_eq!(rows, kept, "case {case}: {whole}");
        let found: Vec<f64> = found.into_iter().flatten().collect();
        assert_eq!(found, sum, "case {case}: {whole}");
        let Selected { row, cost, kept: left } = answer.with_context(|| whole.clone())?;
        let at = kept.iter().position(|&kept| kept == row);
        let at = at.with_context(|| format!("case {case}: row {row} was rejected: {whole}"))?;
        assert_eq!((cost, left), (sum[at], kept.len()), "case {case}: {whole}");
        let lowest = sum.iter().copied().fold(f64::INFINITY, f64::min);
        if picker == 2 && decision.is_of_a_tools_result() {
            let device = decision.column(Input::DeviceOverlapBlocks);
            let most = kept.iter().map(|&row| device[row]).fold(0.0, f64::max);
            assert_eq!(device[row], most, "case {case}: {whole}");
        } else if picker == 2 {
            assert_eq!(sum.iter().position(|cost| *cost == lowest), Some(at), "{case}: {whole}");
        } else if picker == 0 || !decision.has_a_temperature() {
            assert_eq!(cost, lowest, "case {case}: {whole}");
        }
        decided += 1;
        narrowed += u64::from(kept.len() < composed.rows().count());
    }
    ensure!(
        decided > CASES / 2 && filtered > 20 && narrowed > 100,
        "{decided} decided, {narrowed} over fewer rows, {filtered} filtered: too few of a kind"
    );
    Ok(())
}

/// Decisions of a Python scorer, each of which takes as long as a hundred of Rust's.
const FEWER_CASES: u64 = 300;

/// The filters are the router's own code, a built-in's and a linked policy's; the scorer is a component in Python, whose own filter and picker nobody
/// asked for.
#[test]
fn a_python_scorer_behind_native_filters_costs_and_chooses_as_the_same_one_in_rust() -> Result<()> {
    let folder = crate::docs::root().join("policies/least-busy/python");
    let Some(python) = languages::build(&folder)? else { return Ok(()) };
    let linked = LIBRARY.iter().find(|entry| entry.name == "least-prefill").context("an entry")?;
    let Native::Policy(linked) = linked.native else { anyhow::bail!("it is a policy") };
    let mut catalog = Catalog::builtin();
    catalog.insert(linked())?;
    catalog.insert(components::load(guests::least_busy())?)?;
    catalog.insert(components::load(&python.file)?)?;
    let filters = "filters: [{ type: default, stage: affinity }, { type: least-prefill-native, parameters: { min_device_overlap_blocks: 1 } }]";
    let scored_by = |policy_type: &str, rest: &str| {
        format!(
            "{filters}, scorers: [{{ type: {policy_type}, parameters: {{ min_device_overlap_blocks: 9 }}, limits: {{ deadline: 30s }}{rest} }}, \
             {{ type: default, weight: 0.25 }}]"
        )
    };
    let (mut decided, mut filtered, mut narrowed) = (0, 0, 0);
    for case in 0..FEWER_CASES {
        let mut chance = Chance::new(case);
        let place = Place::new(Role::Aggregated, 16, "{}")?;
        let mut fleet = Fleet::default();
        for id in 0..1 + chance.below(12) as u64 {
            fleet.upsert(place.worker(&mut chance, id))?;
        }
        let snapshot = Arc::new(fleet.snapshot(&place.partition));
        let decision = Decision::make(&mut chance, &place, snapshot, case);
        let rest = ["", ", weight: -2.0", ", normalisation: min-max", ", normalisation: rank"];
        let rest = rest[chance.below(rest.len())];
        let both = ["least-busy-python", "least-busy"].map(|policy_type| {
            let mut pipeline = pipeline(&catalog, &place, &scored_by(policy_type, rest))?;
            let answer = decision.run(&mut pipeline, &place);
            anyhow::Ok((answer, costs(&pipeline)))
        });
        let [python, rust] = both;
        let (python, rust) = (python?, rust?);
        assert_eq!(python, rust, "case {case}, {rest:?}");
        match python.0 {
            Ok(Selected { kept, .. }) => {
                decided += 1;
                narrowed += u64::from(kept < python.1.len());
            }
            Err(RunError::AllFiltered) => filtered += 1,
            Err(other) => return Err(other).context(format!("case {case}")),
        }
    }
    ensure!(
        decided > FEWER_CASES / 3 && filtered > 5 && narrowed > 20,
        "{decided} decided, {narrowed} over fewer rows, {filtered} filtered: too few of a kind"
    );
    Ok(())
}
