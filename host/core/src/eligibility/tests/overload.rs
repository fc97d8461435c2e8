//! Promises about who has too much to do.

use super::*;
use crate::clock::Moment;
use crate::fleet::Epoch;
use crate::ids::{DecisionId, WorkerRank};
use crate::ledger::Columns;
use crate::partition::{Decision, Mode};
use crate::policy::settings::RouterSettings;
use crate::router::{Policies, Router};
use crate::testing::{builtin, router};

fn blocks(share: f64) -> BusyThresholds {
    BusyThresholds { active_decode_blocks_threshold: Some(share), ..BusyThresholds::default() }
}

fn tokens(most: u64) -> BusyThresholds {
    BusyThresholds { active_prefill_tokens_threshold: Some(most), ..BusyThresholds::default() }
}

fn multiple(frac: f64) -> BusyThresholds {
    BusyThresholds { active_prefill_tokens_threshold_frac: Some(frac), ..BusyThresholds::default() }
}

fn sized(spec: WorkerSpec, total: Option<u64>, batched: Option<u64>) -> WorkerSpec {
    WorkerSpec { total_kv_blocks: total, max_num_batched_tokens: batched, ..spec }
}

/// Rows' (decode blocks, prefill tokens).
fn columns(rows: &[(f64, f64)]) -> Columns {
    Columns {
        active_requests: vec![1.0; rows.len()],
        active_prefill_tokens: rows.iter().map(|row| row.1).collect(),
        active_decode_blocks: rows.iter().map(|row| row.0).collect(),
    }
}

fn looked(
    thresholds: BusyThresholds,
    snapshot: &Snapshot,
    rows: &[(f64, f64)],
    reports: &LoadReports,
) -> Vec<bool> {
    let mut overload = Overload::default();
    overload.look(&thresholds, snapshot, &columns(rows), reports, 20_000);
    overload.workers().to_vec()
}

/// Whether a worker of one rank has too much to do.
fn busy(thresholds: BusyThresholds, spec: WorkerSpec, row: (f64, f64)) -> bool {
    looked(thresholds, &snapshot([spec]), &[row], &LoadReports::default()) == [true]
}

#[test]
fn a_rank_is_busy_above_a_threshold_and_not_at_it() {
    let spec = || sized(worker(1), Some(100), Some(1_000));
    assert!(!busy(blocks(0.5), spec(), (50.0, 0.0)));
    assert!(busy(blocks(0.5), spec(), (51.0, 0.0)));
    assert!(!busy(tokens(700), spec(), (0.0, 700.0)));
    assert!(busy(tokens(700), spec(), (0.0, 701.0)));
    // 0.0015 of 1000 is 1.5, and counts as 1.
    assert!(!busy(multiple(0.0015), spec(), (0.0, 1.0)));
    assert!(busy(multiple(0.0015), spec(), (0.0, 2.0)));
    assert!(!busy(multiple(2.0), spec(), (0.0, 2_000.0)));
    assert!(busy(multiple(2.0), spec(), (0.0, 2_001.0)));
    assert!(busy(blocks(0.0), spec(), (1.0, 0.0)) && !busy(blocks(0.0), spec(), (0.0, 9.0)));
    // One is enough.
    let all = BusyThresholds {
        active_decode_blocks_threshold: Some(0.5),
        active_prefill_tokens_threshold: Some(700),
        active_prefill_tokens_threshold_frac: Some(2.0),
    };
    assert!(busy(all, spec(), (51.0, 0.0)) && busy(all, spec(), (0.0, 701.0)));
    assert!(!busy(all, spec(), (50.0, 700.0)));
    assert!(!busy(BusyThresholds::default(), spec(), (1e9, 1e9)), "none is set");
}

#[test]
fn what_is_not_known_makes_nobody_busy() {
    let unknown = || sized(worker(1), None, None);
    assert!(!busy(blocks(0.0), unknown(), (1e9, 0.0)), "the check is off");
    assert!(!busy(multiple(0.5), unknown(), (0.0, 5_000_000.0)));
    assert!(busy(multiple(0.5), unknown(), (0.0, 5_000_001.0)), "10,000,000 at once");
}

#[test]
fn a_worker_has_too_much_to_do_only_with_all_its_ranks() {
    let snapshot = snapshot([worker(1), ranked(2, 4, 3), worker(3)]);
    let look = |rows: &[f64]| {
        let rows: Vec<_> = rows.iter().map(|&tokens| (0.0, tokens)).collect();
        looked(tokens(10), &snapshot, &rows, &LoadReports::default())
    };
    assert_eq!(look(&[11.0, 11.0, 11.0, 10.0, 0.0]), [true, false, false]);
    assert_eq!(look(&[0.0, 11.0, 11.0, 11.0, 0.0]), [false, true, false]);
    assert!(look(&[10.0; 5]).is_empty(), "nobody");
}

#[test]
fn an_engines_own_count_makes_busy_too_while_it_is_fresh_and_of_this_life() {
    let snapshot = snapshot([sized(worker(1), Some(100), None)]);
    let epoch = snapshot.workers[0].epoch;
    let look = |counted: f64, epoch: Epoch, report: LoadReport| {
        let mut reports = LoadReports::default();
        let mut theirs = snapshot.clone();
        theirs.workers[0].epoch = epoch;
        reports.take(rank(1, 0), &theirs, report);
        looked(blocks(0.5), &snapshot, &[(counted, 0.0)], &reports) == [true]
    };
    let report =
        |used, at_ms| LoadReport { used_kv_blocks: Some(used), at_ms, ..LoadReport::default() };
    assert!(look(0.0, epoch, report(51, 20_000)));
    assert!(!look(0.0, epoch, report(50, 20_000)));
    assert!(look(51.0, epoch, report(0, 20_000)), "either is enough, until both are below");
    assert!(look(0.0, epoch, report(51, 10_000)), "ten seconds old");
    assert!(!look(0.0, epoch, report(51, 9_999)), "too old to be believed");
    assert!(!look(0.0, Epoch(epoch.0 + 1), report(51, 20_000)), "another life's");
    // Who didn't say how many there are at registration may say so now.
    let snapshot = super::snapshot([worker(1)]);
    let mut reports = LoadReports::default();
    let report = LoadReport { total_kv_blocks: Some(10), ..report(6, 20_000) };
    assert_eq!(reports.take(rank(1, 0), &snapshot, report), Some(false), "nobody asked");
    assert_eq!(looked(blocks(0.5), &snapshot, &[(0.0, 0.0)], &reports), [true]);
    // An engine that counts both needs no number of either.
    let usage = |share| {
        let report =
            LoadReport { kv_cache_usage: Some(share), at_ms: 20_000, ..LoadReport::default() };
        let mut reports = LoadReports::default();
        reports.take(rank(1, 0), &snapshot, report);
        looked(blocks(0.5), &snapshot, &[(0.0, 0.0)], &reports) == [true]
    };
    assert!(usage(0.51) && !usage(0.5));
    assert_eq!(reports.take(rank(1, 1), &snapshot, report), None, "it has one rank");
    reports.realign(&Snapshot::default());
    assert_eq!(reports.all().count(), 0);
}

fn busy_router(policy: &str, thresholds: BusyThresholds) -> Router {
    let settings = RouterSettings { busy: thresholds, ..RouterSettings::default() };
    let policies = Policies { settings: settings.into(), ..builtin(policy) };
    router(policies, [worker(1), worker(2)])
}

fn route(router: &Router, request: &RouteRequest) -> Result<Decision, &'static str> {
    let decided = router.route(request, Moment { now_ms: 20_000, seed: 1 }, Mode::Book);
    decided.map_err(|error| error.kind())
}

#[test]
fn who_has_too_much_to_do_gets_nothing_until_it_has_less() {
    for policy in ["default", "round-robin"] {
        let router = busy_router(policy, tokens(100));
        let large = request(200);
        let first = route(&router, &large).expect("both are idle");
        let second = route(&router, &large).expect("one is");
        assert_ne!(first.receipt.worker, second.receipt.worker, "{policy}");
        assert!(!second.receipt.hosted, "more is looked at than is counted without the lock");
        assert_eq!(second.receipt.excluded.overloaded, 1);
        let all_busy = route(&router, &request(1)).map(|_| ());
        assert_eq!(all_busy, Err("all_eligible_workers_overloaded"));
        let pinned = constrained(|c| c.pinned = pin(1, None));
        assert_eq!(route(&router, &pinned).map(|_| ()), Err("pinned_worker_overloaded"));
        drop(first);
        assert!(route(&router, &request(1)).is_ok());
    }
}

#[test]
fn an_operator_sets_thresholds_for_a_model_as_it_runs() {
    let router = busy_router("round-robin", BusyThresholds::default());
    let held: Vec<_> = (0..4).map(|_| route(&router, &request(200))).collect();
    assert!(held.iter().flatten().all(|decision| decision.receipt.hosted));
    assert!(!router.set_busy_thresholds("other", Some(tokens(1))));
    assert!(router.set_busy_thresholds("m", Some(tokens(100))));
    // What was decided without the lock has no prefill tokens booked.
    let (a, b) = (route(&router, &request(200)), route(&router, &request(200)));
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(route(&router, &request(1)).map(|_| ()), Err("all_eligible_workers_overloaded"));
    // Partitions of the model that begin now go by it, too; an installation leaves it.
    router
        .upsert_worker(WorkerSpec { partition: crate::testing::group("g"), ..worker(9) })
        .expect("it is taken");
    let prepared = router.prepare(builtin("default")).expect("it is made");
    router.install(prepared).expect("it is installed");
    for partition in router.partitions() {
        assert_eq!(partition.busy_thresholds(), tokens(100));
    }
    assert!(router.set_busy_thresholds("m", None));
    assert!(route(&router, &request(1)).is_ok(), "as the settings have it");
}

#[test]
fn a_report_counts_for_decisions_and_goes_with_its_worker() {
    let settings = RouterSettings { busy: blocks(0.5), ..RouterSettings::default() };
    let policies = Policies { settings: settings.into(), ..builtin("default") };
    let spec = |id| sized(worker(id), Some(100), None);
    let router = router(policies, [spec(1), spec(2)]);
    let partition = router.partition(&key(Role::Aggregated)).expect("it is there");
    let report = LoadReport { used_kv_blocks: Some(90), at_ms: 20_000, ..LoadReport::default() };
    let life = partition.ledger().snapshot().workers[0].epoch;
    assert!(!partition.report_load(rank(1, 0), Some(Epoch(life.0 + 1)), report), "another life's");
    assert!(partition.load_reports().is_empty());
    assert!(partition.report_load(rank(1, 0), Some(life), report));
    let unknown = WorkerRank { worker_id: WorkerId(7), ..rank(1, 0) };
    assert!(!partition.report_load(unknown, None, report));
    assert_eq!(partition.overloaded_workers(20_000), [WorkerId(1)]);
    assert!(partition.overloaded_workers(40_000).is_empty(), "nobody has said so for long");
    let settings = router.settings();
    for seed in 0..20 {
        let moment = Moment { now_ms: 20_000, seed };
        let id = DecisionId(seed);
        let decided = partition.decide(&request(1), &settings, id, moment, Mode::DryRun);
        assert_eq!(decided.expect("it is routed").receipt.worker, rank(2, 0));
    }
    router.remove_worker(WorkerId(1)).expect("it is there");
    assert!(partition.load_reports().is_empty());
}

#[test]
fn bad_thresholds_are_named() {
    let bad = BusyThresholds {
        active_decode_blocks_threshold: Some(1.5),
        active_prefill_tokens_threshold: Some(0),
        active_prefill_tokens_threshold_frac: Some(f64::NAN),
    };
    let keys: Vec<_> = bad.problems().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["active_decode_blocks_threshold", "active_prefill_tokens_threshold_frac"]);
    assert!(blocks(1.0).problems().is_empty() && multiple(3.5).problems().is_empty());
}
