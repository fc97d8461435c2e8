//! Promises of a decision: who is asked with what, what is booked, and what becomes of failures.

mod accounting;
mod caches;
mod direct;
mod failures;
mod fleets;
mod fused;
mod observers;
mod rollout;
mod safeguards;
mod sessions;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use proptest::prelude::*;

use super::slot::PROVEN_AFTER;
use super::*;
use crate::fleet::{Availability, Snapshot};
use crate::ids::{DpRank, Role, WorkerId, WorkerRank, WorkerTarget};
use crate::policy::native::{NativePolicy, WorkerPicker};
use crate::policy::settings::SharedCacheType;
use crate::policy::{Candidates, Cause, Input, OnFailure, Properties, RequestView, StageError};
use crate::receipt::Receipt;
use crate::request::Constraints;
use crate::router::{Policies, Router};
use crate::testing::{
    builtin, filter, key, moment, native, picker, policies, rank, ranked, request, router, scorer,
    tainted, worker,
};

fn partition(router: &Router) -> Arc<Partition> {
    router.partition(&key(Role::Aggregated)).expect("workers began it")
}

/// Every row's active requests.
fn load(router: &Router) -> Vec<u64> {
    partition(router).ledger().loads().iter().map(|load| load.active_requests).collect()
}

fn route(router: &Router, request: &RouteRequest, seed: u64) -> Result<Decision, RouteError> {
    router.route(request, moment(seed), Mode::Book)
}

/// A policy whose scorer costs what its row's load is, and fails while `broken` says so.
fn breakable(broken: &Arc<AtomicBool>) -> NativePolicy {
    let broken = broken.clone();
    native().scorer(
        "s",
        scorer(&[Input::ActiveRequests], move |_, rows, costs| {
            if broken.load(Ordering::Relaxed) {
                return Err(StageError::new(Cause::Trap, "unreachable"));
            }
            costs.copy_from_slice(rows.column(Input::ActiveRequests).unwrap_or_default());
            Ok(())
        }),
    )
}

#[test]
fn a_decision_books_prefill_and_blocks_until_it_is_over() {
    let router = router(builtin("default"), [worker(1)]);
    let mut decision = route(&router, &request(100), 1).expect("it is routed");
    let loads = partition(&router).ledger().loads();
    // 100 tokens are 7 blocks of 16.
    assert_eq!((loads[0].active_prefill_tokens, loads[0].active_decode_blocks), (100, 7));
    assert_eq!(decision.receipt.request_blocks, 7);
    decision.lease.as_mut().expect("it is booked").prefill_done();
    let loads = partition(&router).ledger().loads();
    assert_eq!((loads[0].active_prefill_tokens, loads[0].active_decode_blocks), (0, 7));
    drop(decision);
    assert_eq!(load(&router), [0]);
    assert_eq!(partition(&router).ledger().live_leases(), 0);
}

#[test]
fn what_isnt_tracked_isnt_booked() {
    let settings = RouterSettings { router_track_active_blocks: false, ..Default::default() };
    let policies = Policies { settings: Arc::new(settings), ..builtin("default") };
    let router = router(policies, [worker(1)]);
    let mut request = request(100);
    request.track_prefill_tokens = Some(false);
    let _decision = route(&router, &request, 1).expect("it is routed");
    let loads = partition(&router).ledger().loads();
    let load = loads[0];
    assert_eq!(
        (load.active_requests, load.active_prefill_tokens, load.active_decode_blocks),
        (1, 0, 0)
    );
}

#[test]
fn a_dry_run_tells_of_every_row_and_books_nothing() {
    let policy = || {
        native()
            .filter(
                "f",
                filter(&[], |_, _, verdicts| {
                    verdicts.reject(1);
                    Ok(())
                }),
            )
            .scorer(
                "s",
                scorer(&[], |_, _, costs| {
                    costs.copy_from_slice(&[5.0, 3.0]);
                    Ok(())
                }),
            )
    };
    let router = router(policies(OnFailure::Default, policy), [worker(1), worker(2), worker(3)]);
    let decision = router.route(&request(100), moment(1), Mode::DryRun).expect("it is routed");
    assert!(decision.lease.is_none());
    assert_eq!(load(&router), [0, 0, 0]);
    let rows = decision.receipt.rows.expect("a dry run reports rows");
    let rows: Vec<_> = rows.iter().map(|row| (row.worker, row.kept, row.cost)).collect();
    let expected =
        [(rank(1, 0), true, Some(5.0)), (rank(2, 0), false, None), (rank(3, 0), true, Some(3.0))];
    assert_eq!(rows, expected);
    assert_eq!((decision.receipt.worker, decision.receipt.cost), (rank(3, 0), 3.0));
    assert_eq!((decision.receipt.eligible, decision.receipt.kept), (3, 2));
}

#[test]
fn simultaneous_requests_see_each_other() {
    // Load never drains, so that what a pick sees is what the picks before it booked.
    for (name, most) in [("default", 12), ("least-loaded", 8), ("round-robin", 9)] {
        let router = router(builtin(name), (1..=8).map(worker));
        let sequence = |seed: u64| {
            let decisions: Vec<Decision> = (0..64)
                .map(|n| route(&router, &request(1_000), seed + n).expect("it is routed"))
                .collect();
            assert!(load(&router).iter().all(|&n| n <= most), "{name}: {:?}", load(&router));
            decisions.iter().map(|d| d.receipt.worker).collect::<Vec<_>>()
        };
        let first = sequence(9);
        assert_eq!(load(&router), [0; 8]);
        let decided_by_seeds = name != "round-robin";
        assert!(!decided_by_seeds || sequence(9) == first, "{name}: the seeds decide");
    }
}

#[test]
fn a_miss_goes_to_the_idle_worker_until_loads_cross() {
    let router = router(builtin("default"), [worker(1), worker(2)]);
    let mut heavy = request(8_000);
    heavy.constraints.pinned = Some(WorkerTarget { worker_id: WorkerId(1), dp_rank: None });
    let _heavy: Vec<_> =
        (0..20).map(|n| route(&router, &heavy, n).expect("it is routed")).collect();
    let misses: Vec<_> =
        (0..10).map(|n| route(&router, &request(8_000), n).expect("it is routed")).collect();
    assert!(misses.iter().all(|miss| miss.receipt.worker == rank(2, 0)));
    let _more: Vec<_> =
        (0..10).map(|n| route(&router, &request(8_000), n).expect("it is routed")).collect();
    assert_eq!(load(&router), [20, 20]);
    let _crossed: Vec<_> =
        (0..2).map(|n| route(&router, &request(8_000), n).expect("it is routed")).collect();
    assert_eq!(load(&router), [21, 21]);
}

#[test]
fn long_prefills_wait_evenly() {
    let router = Router::new(
        Policies { catalog: crate::policy::Catalog::builtin(), ..Policies::default() },
        1,
    );
    for id in 1..=5 {
        router
            .upsert_worker(crate::fleet::WorkerSpec { partition: key(Role::Prefill), ..worker(id) })
            .expect("it is taken");
    }
    let prefill = RouteRequest::new("r", key(Role::Prefill), 32_000);
    let ledger = router.partition(&key(Role::Prefill)).expect("it is there").ledger().clone();
    let mut waiting = std::collections::VecDeque::new();
    for n in 0..200 {
        waiting.push_back(router.route(&prefill, moment(n), Mode::Book).expect("it is routed"));
        if n % 3 == 2 {
            waiting.pop_front();
        }
        let loads: Vec<u64> = ledger.loads().iter().map(|load| load.active_requests).collect();
        let spread = loads.iter().max().zip(loads.iter().min()).map(|(max, min)| max - min);
        assert!(spread.is_some_and(|spread| spread <= 2), "{loads:?}");
    }
}

type Seen = Arc<Mutex<Vec<(Vec<WorkerRank>, Option<WorkerRank>)>>>;

#[test]
fn pins_and_taints_hold_before_the_policy_is_asked() {
    let seen: Seen = Arc::default();
    let spy = {
        let seen = seen.clone();
        move || {
            let seen = seen.clone();
            native().picker(
                "spy",
                picker(&[Input::Identity], move |request, rows, _| {
                    let ids = rows.identity().unwrap_or_default().to_vec();
                    seen.lock().expect("not poisoned").push((ids, request.pinned_worker));
                    Ok(0)
                }),
            )
        }
    };
    let fleet = [tainted(1, &["fast"]), ranked(2, 3, 2), tainted(3, &["fast", "big"])];
    let router = router(policies(OnFailure::Default, spy), fleet);
    let pin = |id, dp_rank: Option<u32>| {
        Some(WorkerTarget { worker_id: WorkerId(id), dp_rank: dp_rank.map(DpRank) })
    };
    let ask = |change: &dyn Fn(&mut Constraints)| {
        let mut request = request(1);
        change(&mut request.constraints);
        let answer = route(&router, &request, 1).map(|decision| decision.receipt.worker);
        (answer, seen.lock().expect("not poisoned").pop())
    };
    let fast: std::collections::BTreeSet<String> = ["fast".to_owned()].into();
    let (_, saw) = ask(&|_| {});
    assert_eq!(saw, Some((vec![rank(1, 0), rank(2, 3), rank(2, 4), rank(3, 0)], None)));
    let (_, saw) = ask(&|c| c.required_taints = fast.clone());
    assert_eq!(saw, Some((vec![rank(1, 0), rank(3, 0)], None)));
    let (_, saw) = ask(&|c| c.pinned = pin(2, None));
    assert_eq!(saw, Some((vec![rank(2, 3), rank(2, 4)], None)));
    let (_, saw) = ask(&|c| c.pinned = pin(2, Some(4)));
    assert_eq!(saw, Some((vec![rank(2, 4)], Some(rank(2, 4)))));
    let (_, saw) = ask(&|c| {
        c.allowed = Some([WorkerId(1), WorkerId(3)].into());
        c.tried = [WorkerId(1)].into();
    });
    assert_eq!(saw, Some((vec![rank(3, 0)], None)));
    // Nobody is left: the policy isn't asked at all.
    type Case<'a> = (&'a dyn Fn(&mut Constraints), &'a str);
    let nobody: [Case<'_>; 4] = [
        (&|c| c.pinned = pin(2, Some(0)), "pinned_worker_unavailable"),
        (
            &|c| {
                c.pinned = pin(1, None);
                c.allowed = Some([WorkerId(3)].into());
            },
            "pinned_worker_not_allowed",
        ),
        (
            &|c| {
                c.pinned = pin(2, None);
                c.required_taints = fast.clone();
            },
            "pinned_worker_unavailable",
        ),
        (&|c| c.required_taints = ["none".to_owned()].into(), "no_endpoints"),
    ];
    for (change, kind) in nobody {
        let (answer, saw) = ask(change);
        assert_eq!(answer.map_err(|error| error.kind()), Err(kind));
        assert_eq!(saw, None);
    }
    router.set_availability(WorkerId(1), Availability::Overloaded).expect("it is there");
    router.set_availability(WorkerId(3), Availability::Unhealthy).expect("it is there");
    let (answer, saw) = ask(&|c| c.required_taints = fast.clone());
    assert_eq!(answer.map_err(|e| e.kind()), Err("all_eligible_workers_overloaded"));
    assert_eq!(saw, None);
    let (answer, _) = ask(&|c| c.pinned = pin(1, None));
    assert_eq!(answer.map_err(|e| e.kind()), Err("pinned_worker_overloaded"));
}

#[test]
fn preferred_taints_weigh_and_dont_exclude() {
    let policy = || {
        native().scorer(
            "s",
            scorer(&[Input::PreferredTaintMultiplier], |_, rows, costs| {
                costs.copy_from_slice(
                    rows.column(Input::PreferredTaintMultiplier).unwrap_or_default(),
                );
                Ok(())
            }),
        )
    };
    let router = router(
        policies(OnFailure::Reject, policy),
        [tainted(1, &["a"]), tainted(2, &["a", "b"]), ranked(3, 0, 2)],
    );
    let mut request = request(1);
    let costs = |request: &RouteRequest| {
        let decision = router.route(request, moment(1), Mode::DryRun).expect("it is routed");
        let rows = decision.receipt.rows.unwrap_or_default();
        rows.iter().filter_map(|row| row.cost).collect::<Vec<_>>()
    };
    assert_eq!(costs(&request), [1.0; 4]);
    request.constraints.preferred_taints = [("a".to_owned(), 0.5), ("b".to_owned(), -1.0)].into();
    let factor = |weights: f64| (-weights.tanh()).exp();
    for (cost, expected) in costs(&request).into_iter().zip([factor(0.5), factor(-0.5), 1.0, 1.0]) {
        assert!((cost - expected).abs() < 1e-12, "{cost} instead of {expected}");
    }
    // Who is pinned has no choice, and so prefers nothing.
    request.constraints.pinned = Some(WorkerTarget { worker_id: WorkerId(1), dp_rank: None });
    assert_eq!(costs(&request), [1.0]);
}

/// Installs policies, all at once.
fn install(router: &Router, policies: Policies) {
    let prepared = router.prepare(policies).expect("they are made");
    router.install(prepared).expect("they are installed");
}

#[test]
fn the_default_policy_keeps_to_the_affinity_target_while_it_is_eligible() {
    let router = router(builtin("default"), [worker(1), ranked(2, 0, 2), worker(3)]);
    let mut bound = request(1_000);
    bound.affinity_target = Some(WorkerTarget { worker_id: WorkerId(2), dp_rank: None });
    let held: Vec<_> = (0..6).map(|n| route(&router, &bound, n).expect("it is routed")).collect();
    assert_eq!(load(&router), [0, 3, 3, 0], "whatever the load, and evenly over its ranks");
    assert!(held.iter().all(|decision| decision.receipt.kept == 2));
    router.set_availability(WorkerId(2), Availability::Unhealthy).expect("it is there");
    let elsewhere = route(&router, &bound, 1).expect("it is routed elsewhere");
    assert_ne!(elsewhere.receipt.worker.worker_id, WorkerId(2));
    assert_eq!(elsewhere.receipt.kept, 2);
}

#[test]
fn a_worker_may_have_4096_ranks() {
    for name in ["default", "round-robin", "least-loaded", "power-of-two", "random"] {
        let router = router(builtin(name), [ranked(1, 7, 4096)]);
        let held: Vec<_> =
            (0..20).map(|n| route(&router, &request(50), n).expect("it is routed")).collect();
        assert_eq!(held[0].receipt.eligible, 4096);
        assert!(held.iter().all(|d| (7..4103).contains(&d.receipt.worker.dp_rank.0)));
        assert_eq!(load(&router).iter().sum::<u64>(), 20, "{name}");
        let ranks: std::collections::BTreeSet<_> = held.iter().map(|d| d.receipt.worker).collect();
        assert!(ranks.len() > 15, "{name}: {ranks:?}");
    }
}

proptest! {
    #[test]
    fn a_decision_can_be_made_again(
        workers in 1..9_u64,
        loads in prop::collection::vec((0..9_usize, 1..5_000_u64), 0..30),
        tokens in 0..20_000_u64,
        seed in any::<u64>(),
        temperature in prop_oneof![Just(0.0), 0.01..3.0_f64],
        name in prop::sample::select(vec!["default", "least-loaded", "random", "power-of-two", "round-robin"]),
    ) {
        let decide = || {
            let router = router(builtin(name), (0..workers).map(worker));
            let ledger = partition(&router).ledger().clone();
            let snapshot = ledger.snapshot();
            let held: Vec<Lease> = loads.iter().filter_map(|&(row, prefill_tokens)| {
                let prompt = crate::ledger::PromptBlocks::own(prefill_tokens / 16);
                let charge = crate::ledger::Charge { prefill_tokens, prompt, ..Default::default() };
                ledger.book(&snapshot, row % workers as usize, charge, 0)
            }).collect();
            let mut request = request(tokens);
            request.router_temperature = Some(temperature);
            let decision = route(&router, &request, seed).expect("it is routed");
            drop(held);
            (decision.receipt.worker, decision.receipt.cost.to_bits(), decision.receipt.kept)
        };
        prop_assert_eq!(decide(), decide());
    }
}

#[test]
fn whether_a_shared_cache_matters_is_known_without_waiting_for_a_decision() {
    let shares = |policy_type: &str, multiplier| {
        let mut settings = RouterSettings::default();
        settings.share(SharedCacheType::Hicache, multiplier);
        Policies { settings: Arc::new(settings), ..builtin(policy_type) }
    };
    let router = router(builtin("default"), [worker(1)]);
    let partition = partition(&router);
    assert!(!partition.reads_shared_cache(), "no cache is shared");
    for (policies, reads) in [
        (shares("default", None), true),
        (shares("default", Some(0.0)), false),
        (shares("default", Some(0.1)), true),
        (shares("least-loaded", None), false),
    ] {
        install(&router, policies);
        let _decides = partition.hold();
        assert_eq!(partition.reads_shared_cache(), reads);
    }
    install(&router, shares("default", None));
    // Made anew for another block size.
    let block_size = std::num::NonZero::new(32).expect("not zero");
    router.upsert_worker(WorkerSpec { block_size, ..worker(1) }).expect("it is taken");
    assert!(partition.reads_shared_cache());
}
