//! What a decision of each policy costs in fuel, by rows.

use anyhow::{Context, Result};
use pointsman_core::clock::Chance;
use pointsman_core::fleet::{Fleet, WorkerSpec};
use pointsman_core::ids::{Role, WorkerId};
use pointsman_core::policy::Pipeline;
use pointsman_tests::library::{LIBRARY, Native};
use std::sync::Arc;

use pointsman_core::classifier::{
    Arrival, Capacity, ClassifierEnvironment, ClassifierProvider, ClassifyRequest, LifecycleEvent,
};
use pointsman_core::ids::{DpRank, WorkerRank};
use pointsman_core::policy::Limits;
use pointsman_core::request::Session;
use std::time::Duration;

use super::decisions::{Decision, Place};
use super::{component, policies};

/// Half of what a call may use unless the operator says otherwise.
const MOST_FUEL: u64 = 2_500_000;

/// What `policies/pause-resume/policy.yaml` gives a call.
const CLASSIFIER_FUEL: u64 = 20_000_000;

/// The mean of some warm decisions, fused where the policy can.
pub(super) fn fuel(pipeline: &mut Pipeline, place: &Place, rows: u64) -> Result<u64> {
    let mut fleet = Fleet::default();
    for id in 0..rows {
        let spec = WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", place.partition.clone());
        fleet.upsert(spec)?;
    }
    let snapshot = Arc::new(fleet.snapshot(&place.partition));
    let mut chance = Chance::new(rows);
    let mut all = Vec::new();
    for n in 0..40 {
        let decision = Decision::usual(&mut chance, place, snapshot.clone(), n);
        let answer = decision.run(pipeline, place);
        answer.with_context(|| format!("{rows} rows"))?;
        all.push(pipeline.trace().iter().filter_map(|stage| stage.fuel).sum::<u64>());
    }
    let warm = &all[20..];
    Ok(warm.iter().sum::<u64>() / warm.len() as u64)
}

/// With `--nocapture` this prints the catalogue's column.
#[test]
fn a_decision_over_4096_rows_is_far_from_the_usual_limit_of_fuel() -> Result<()> {
    for entry in LIBRARY {
        let Native::Policy(_) = entry.native else { continue };
        let [_, component] = policies(entry)?.context("it is a policy")?;
        let role = if entry.name == "disagg-roles" { Role::Prefill } else { Role::Aggregated };
        let place = Place::new(role, 16, entry.parameters[0])?;
        let mut figures = Vec::new();
        for rows in [1, 64, 1_024, 4_096] {
            let mut pipeline = place.pipeline(&component)?;
            figures.push(fuel(&mut pipeline, &place, rows).with_context(|| entry.name)?);
        }
        eprintln!("{} {figures:?}", entry.name);
        assert!(
            figures.iter().all(|&fuel| (300..MOST_FUEL).contains(&fuel)),
            "{}: {figures:?}",
            entry.name
        );
    }
    Ok(())
}

/// Sessions beyond what is handed over, and the ones used last.
#[test]
fn a_reload_of_a_long_table_of_sessions_stays_within_the_usual_limit_and_keeps_the_last_ones()
-> Result<()> {
    for name in ["sticky-min-load", "sticky-session", "subagent-group-affinity"] {
        let entry = LIBRARY.iter().find(|entry| entry.name == name).context("it is there")?;
        let [_, provider] = policies(entry)?.context("it is a policy")?;
        let place = Place::new(Role::Aggregated, 16, entry.parameters[0])?;
        let mut fleet = Fleet::default();
        for id in 0..32 {
            let partition = place.partition.clone();
            fleet.upsert(WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", partition))?;
        }
        let snapshot = Arc::new(fleet.snapshot(&place.partition));
        let (mut chance, mut old) = (Chance::new(1), place.pipeline(&provider)?);
        let mut rows = Vec::new();
        let of = |chance: &mut Chance, n: u64| {
            // As long as ids of sessions usually are.
            let id = format!("0f4c9a52-7d31-4f0e-9b1d-{n:012}");
            Decision::usual(chance, &place, snapshot.clone(), n).in_session(&id)
        };
        for n in 0..1_500 {
            rows.push(of(&mut chance, n).run(&mut old, &place)?.row);
        }
        let mut new = place.pipeline(&provider)?;
        assert!(new.take_over(&mut old)?, "{name} hands its sessions over");
        for n in [500, 501, 1_000, 1_499] {
            let row = of(&mut chance, n).run(&mut new, &place)?.row;
            assert_eq!(row, rows[n as usize], "{name}, session {n}");
        }
    }
    Ok(())
}

#[test]
fn a_look_at_ten_thousand_programs_stays_within_the_limit_that_its_lines_set() -> Result<()> {
    let entry = LIBRARY.iter().find(|entry| entry.name == "pause-resume").context("it is there")?;
    let lines = crate::docs::read("policies/pause-resume/policy.yaml")?;
    assert!(lines.contains(&format!("  limits: {{ fuel: {CLASSIFIER_FUEL} }} ")), "{lines}");
    let place = Place::new(Role::Aggregated, 16, "{}")?;
    let worker = |id| WorkerRank { worker_id: WorkerId(id), dp_rank: DpRank(0) };
    let of = |id| Capacity { worker: worker(id), total_kv_blocks: Some(100_000) };
    let environment = ClassifierEnvironment {
        partition: place.partition,
        block_size: 16,
        parameters: Arc::default(),
        settings: Arc::default(),
        policy_classes: ["default".into()].into(),
        workers: (0..16).map(of).collect(),
        limits: Limits {
            fuel: Some(CLASSIFIER_FUEL),
            deadline: Some(Duration::from_secs(30)),
            ..Limits::default()
        },
        seed: 1,
        trial: false,
    };
    let provider: Arc<dyn ClassifierProvider> = component(entry)?;
    let mut instance = provider.instantiate(&environment)?;
    for n in 0..10_000_u64 {
        let mut arrival = Arrival::new(format!("r{n}").into(), "default".into(), 4_000);
        let id = format!("0f4c9a52-7d31-4f0e-9b1d-{n:012}").into();
        arrival.session = Some(Session { id, parent_id: None, is_final: None, evict: None });
        let request =
            ClassifyRequest { arrival: &arrival, progress_tokens: 0, arrived_at_ms: n, now_ms: n };
        instance.classify(&request).map_err(|error| anyhow::anyhow!("request {n}: {error}"))?;
    }
    // Room for some of those that are paused, then for many.
    for (n, at_ms) in [(0, 20_000), (1, 25_000), (2_000, 30_000), (6_000, 2_000_000)] {
        for request in 0..n {
            let id = format!("r{request}");
            instance.on_event(&LifecycleEvent::Completed(&id, Some(100)), at_ms)?;
        }
        let looked = instance.on_event(&LifecycleEvent::Tick, at_ms);
        looked.map_err(|error| anyhow::anyhow!("after {n} have ended: {error}"))?;
    }
    Ok(())
}
