//! Promises of decisions without the partition's lock.

mod direct;
mod reloads;
mod unread;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::error::RouteError;
use crate::fleet::Availability;
use crate::ids::{Role, WorkerId, WorkerRank, WorkerTarget};
use crate::partition::{Decision, Mode, Partition};
use crate::policy::native::NativePolicy;
use crate::policy::{Input, OnFailure, Properties, StageError};
use crate::router::{Policies, Router};
use crate::testing::{
    builtin, fallible, key, moment, native, picker, policies, rank, ranked, request, router,
    scorer, tainted, worker,
};

fn partition(router: &Router) -> Arc<Partition> {
    router.partition(&key(Role::Aggregated)).expect("workers began it")
}

/// Every row's active requests.
fn load(router: &Router) -> Vec<u64> {
    partition(router).ledger().loads().iter().map(|load| load.active_requests).collect()
}

fn hosted(router: &Router, request: &RouteRequest, at: Moment) -> Option<HostedLease> {
    partition(router).hosted().choose(request, DecisionId(0), at)
}

fn at(now_ms: u64) -> Moment {
    Moment { now_ms, seed: now_ms }
}

/// The same decision under the partition's lock.
fn locked(router: &Router, request: &RouteRequest, at: Moment) -> Result<Decision, RouteError> {
    partition(router).decide(request, &router.settings(), DecisionId(0), at, Mode::Book)
}

fn pinned(id: u64, dp_rank: Option<u32>) -> RouteRequest {
    let mut request = request(1);
    let dp_rank = dp_rank.map(crate::ids::DpRank);
    request.constraints.pinned = Some(WorkerTarget { worker_id: WorkerId(id), dp_rank });
    request
}

fn bound(id: u64) -> RouteRequest {
    let mut request = request(1);
    request.affinity_target = Some(WorkerTarget { worker_id: WorkerId(id), dp_rank: None });
    request
}

/// How far two workers' counts are apart, at most.
fn spread(counts: &BTreeMap<WorkerRank, u64>, rows: usize) -> u64 {
    let fewest = if counts.len() < rows { 0 } else { counts.values().copied().min().unwrap_or(0) };
    counts.values().copied().max().unwrap_or(0) - fewest
}

#[test]
fn a_policy_that_reads_no_more_than_active_requests_is_hosted() {
    let is_hosted = |policies| partition(&router(policies, [worker(1)])).is_hosted();
    for name in crate::policy::builtin::NAMES {
        let kv = ["default", "two-tier", "dynamo-default-cost-fn", "dynamo-two-tier-cost-fn"];
        assert_eq!(is_hosted(builtin(name)), !kv.contains(&name), "{name}");
    }
    let picks = |properties: Properties, inputs: &'static [Input]| {
        let make =
            move || NativePolicy::new(properties).picker("p", picker(inputs, |_, _, _| Ok(0)));
        policies(OnFailure::Reject, make)
    };
    let replicable = Properties { replicable: true, ..Properties::default() };
    assert!(is_hosted(picks(replicable, &[Input::Identity, Input::ActiveRequests])));
    assert!(!is_hosted(picks(Properties::default(), &[Input::Identity])), "one instance alone");
    assert!(!is_hosted(picks(replicable, &[Input::ActivePrefillTokens])), "prefill isn't booked");
    let forgets = Properties { hands_over: true, ..replicable };
    assert!(!is_hosted(picks(forgets, &[])), "several states can't be handed over as one");
    let scores = move || {
        let scorer = scorer(&[], |_, _, costs| {
            costs.fill(0.0);
            Ok(())
        });
        NativePolicy::new(replicable).scorer("s", scorer)
    };
    assert!(!is_hosted(policies(OnFailure::Reject, scores)));
}

#[test]
fn a_seat_is_load_until_it_is_dropped() {
    let router = router(builtin("round-robin"), [worker(1), worker(2)]);
    let first = hosted(&router, &pinned(1, None), at(0)).expect("it is placed");
    assert_eq!(first.worker(), rank(1, 0));
    let second = router.route(&pinned(1, None), at(0), Mode::Book).expect("it is routed");
    assert!(second.lease.is_some() && second.receipt.hosted);
    assert_eq!(load(&router), [2, 0]);
    assert_eq!(router.active_requests_of(WorkerId(1)), 2);
    assert_eq!(partition(&router).ledger().live_leases(), 2);
    drop(second);
    assert_eq!(load(&router), [1, 0]);
    // Another thread may be the one that ends it.
    std::thread::spawn(move || drop(first)).join().expect("it ends");
    assert_eq!(load(&router), [0, 0]);
    assert_eq!(partition(&router).ledger().live_leases(), 0);
}

#[test]
fn requests_one_after_the_other_go_to_one_worker_after_the_other() {
    let router = router(builtin("round-robin"), (0..5).map(worker));
    let ids: Vec<u64> = (0..20)
        .map(|now_ms| {
            let take = || hosted(&router, &request(1), at(now_ms)).expect("it is placed").worker();
            // Whichever thread takes it.
            std::thread::scope(|scope| scope.spawn(take).join().expect("it is taken")).worker_id.0
        })
        .collect();
    let expected: Vec<u64> = (0..20).map(|n| n % 5).collect();
    assert_eq!(ids, expected);
}

#[test]
fn turns_that_many_threads_take_at_once_stay_even() {
    for workers in [1, 2, 3, 7, 64, 100] {
        let router = router(builtin("round-robin"), (0..workers).map(worker));
        let counts = std::thread::scope(|scope| {
            let take = |thread: u64| {
                let (router, mut counts) = (&router, BTreeMap::<WorkerRank, u64>::new());
                for n in 0..1_000 + 37 * thread {
                    // Many in one millisecond, and one now and then.
                    let lease = hosted(router, &request(1), at(n / 50 * (thread + 1)));
                    *counts.entry(lease.expect("it is placed").worker()).or_default() += 1;
                }
                counts
            };
            let threads: Vec<_> = (0..6).map(|t| scope.spawn(move || take(t))).collect();
            threads.into_iter().fold(BTreeMap::new(), |mut all, thread| {
                for (rank, count) in thread.join().expect("it ends") {
                    *all.entry(rank).or_default() += count;
                }
                all
            })
        });
        let spread = spread(&counts, workers as usize);
        assert!(spread <= STRIPES as u64 + 1, "{workers} workers: {spread} apart");
    }
}

#[test]
fn every_rank_of_a_worker_has_its_turn() {
    let router = router(builtin("round-robin"), [ranked(1, 0, 1), ranked(2, 8, 2)]);
    let taken: Vec<_> = (0..8)
        .map(|now_ms| hosted(&router, &request(1), at(now_ms)).expect("it is placed").worker())
        .collect();
    let cycle = [rank(1, 0), rank(2, 8), rank(1, 0), rank(2, 9)];
    assert_eq!(taken, [cycle, cycle].concat());
}

#[test]
fn a_target_bypasses_the_turns() {
    let router = router(builtin("round-robin"), (0..4).map(worker));
    let take = |request: &RouteRequest, now_ms| {
        hosted(&router, request, at(now_ms)).expect("it is placed").worker().worker_id.0
    };
    assert_eq!(take(&request(1), 0), 0);
    assert_eq!([take(&bound(3), 1), take(&pinned(0, Some(0)), 2), take(&bound(2), 3)], [3, 0, 2]);
    assert_eq!([take(&request(1), 4), take(&request(1), 5)], [1, 2], "nobody's turn was taken");
    // An affinity that can't be followed is none.
    assert_eq!(take(&bound(9), 6), 3);
}

#[test]
fn without_the_lock_the_same_is_picked_as_under_it() {
    for name in ["random", "least-loaded", "power-of-two", "device-aware"] {
        let cpu = |id| crate::fleet::WorkerSpec {
            device_kind: Some("CPU".to_owned()),
            ..tainted(id, &["slow"])
        };
        let specs = [worker(0), cpu(1), ranked(2, 4, 3), tainted(3, &["slow"]), cpu(4), worker(5)];
        let router = router(builtin(name), specs);
        router.set_availability(WorkerId(5), Availability::Unhealthy).expect("it is there");
        let mut slow = request(1);
        slow.constraints.required_taints.insert("slow".to_owned());
        let mut held = Vec::new();
        for seed in 0..300 {
            let tried = {
                let mut request = request(1);
                request.constraints.tried.insert(WorkerId(seed % 6));
                request
            };
            for request in [request(1), slow.clone(), tried, bound(2), pinned(2, None)] {
                let at = moment(seed);
                let here = hosted(&router, &request, at).expect("it is placed").worker();
                let there = locked(&router, &request, at).expect("it is routed").receipt.worker;
                assert_eq!(here, there, "{name} {seed} {request:?}");
            }
            // Some stay, by either way.
            if seed % 3 == 0 {
                held.push((None, hosted(&router, &request(1), moment(seed))));
                held.push((locked(&router, &request(1), moment(seed + 1)).ok(), None));
            }
        }
        assert_eq!(load(&router).iter().sum::<u64>(), 200, "{name}");
    }
}

#[test]
fn what_there_is_no_worker_for_is_left_to_the_ordinary_path() {
    let router = router(builtin("random"), [worker(1), worker(2)]);
    let kind = |request: &RouteRequest| {
        assert!(hosted(&router, request, at(0)).is_none());
        router.route(request, at(0), Mode::Book).expect_err("nobody may have it").kind()
    };
    assert_eq!(kind(&pinned(3, None)), "pinned_worker_unavailable");
    assert_eq!(kind(&pinned(1, Some(4))), "pinned_worker_unavailable");
    let mut tainted = request(1);
    tainted.constraints.required_taints.insert("gpu".to_owned());
    assert_eq!(kind(&tainted), "no_endpoints");
    for id in [1, 2] {
        router.set_availability(WorkerId(id), Availability::Overloaded).expect("it is there");
    }
    assert_eq!(kind(&request(1)), "all_eligible_workers_overloaded");
    router.set_availability(WorkerId(2), Availability::Ready).expect("it is there");
    assert!((0..50).all(|n| {
        hosted(&router, &request(1), at(n)).is_some_and(|lease| lease.worker() == rank(2, 0))
    }));
}

#[test]
fn direct_goes_where_the_request_says_and_nowhere_else() {
    let router = router(builtin("direct"), [worker(1), ranked(2, 0, 2)]);
    assert!(hosted(&router, &request(1), at(0)).is_none());
    assert_eq!(
        router.route(&request(1), at(0), Mode::Book).map_err(|error| error.kind()).err(),
        Some("no_target_worker")
    );
    assert_eq!(hosted(&router, &pinned(2, Some(1)), at(0)).map(|l| l.worker()), Some(rank(2, 1)));
    assert!(hosted(&router, &bound(2), at(0)).is_some_and(|l| l.worker().worker_id.0 == 2));
}

#[test]
fn turns_among_some_workers_are_under_the_lock() {
    // A plain cursor would starve a worker that only every other request may have.
    let router = router(builtin("round-robin"), [worker(1), worker(2), tainted(3, &["x"])]);
    let mut some = request(1);
    some.constraints.allowed = Some([WorkerId(1), WorkerId(2)].into());
    assert!(hosted(&router, &some, at(0)).is_none());
    let turns: Vec<u64> = (0..4)
        .map(|n| router.route(&some, at(n), Mode::Book).expect("it is routed").receipt.worker)
        .map(|worker| worker.worker_id.0)
        .collect();
    assert_eq!(turns, [1, 2, 1, 2]);
}

#[test]
fn what_is_recorded_or_only_tried_takes_the_ordinary_path() {
    let router = router(builtin("round-robin"), [worker(1)]);
    for (mode, is_hosted) in [(Mode::Book, true), (Mode::Record, false), (Mode::DryRun, false)] {
        let decision = router.route(&request(1), at(0), mode).expect("it is routed");
        assert_eq!(decision.receipt.hosted, is_hosted);
    }
}

#[test]
fn a_policy_that_is_turned_off_decides_nothing_here_either() {
    let router = router(builtin("round-robin"), [worker(1)]);
    let held = hosted(&router, &request(1), at(0));
    router.disable("mine").expect("it is there");
    assert!(hosted(&router, &request(1), at(0)).is_none());
    assert_eq!(load(&router), [1], "what it has booked goes on");
    router.enable("mine").expect("it is there");
    assert!(hosted(&router, &request(1), at(0)).is_some());
    drop(held);
    assert_eq!(load(&router), [0]);
}

#[test]
fn a_worker_that_leaves_takes_its_load_along_and_leaves_none_to_another() {
    let router = router(builtin("random"), [worker(1), worker(2)]);
    let old: Vec<_> = (0..3).map(|_| hosted(&router, &pinned(1, None), at(0))).collect();
    let other = hosted(&router, &pinned(2, None), at(0));
    router.remove_worker(WorkerId(1)).expect("it is there");
    assert_eq!(load(&router), [1]);
    assert_eq!(partition(&router).ledger().live_leases(), 4, "its streams go on");
    // Another one, and the same id in a new life, begin with nothing.
    router.upsert_worker(worker(3)).expect("it is taken");
    router.upsert_worker(worker(1)).expect("it is taken");
    assert_eq!(load(&router), [0, 1, 0]);
    let new = hosted(&router, &pinned(1, None), at(0)).expect("it is placed");
    assert!(old.iter().flatten().all(|lease| lease.epoch() < new.epoch()));
    drop(old);
    assert_eq!(load(&router), [1, 1, 0]);
    drop((new, other));
    assert_eq!(load(&router), [0, 0, 0]);
    assert_eq!(partition(&router).ledger().live_leases(), 0);
}

#[test]
fn a_vacant_partition_is_kept_while_somebody_is_served() {
    let router = router(builtin("random"), [worker(1)]);
    let held = hosted(&router, &request(1), at(0));
    router.remove_worker(WorkerId(1)).expect("it is there");
    let long = 1 << 40;
    assert!(router.forget_vacant(0).is_empty() && router.forget_vacant(long).is_empty());
    drop(held);
    assert_eq!(router.forget_vacant(2 * long).len(), 1);
}

/// Policies whose instances may decide side by side, as many as told; each picks the row of its own
/// number, and says how often it was asked.
fn replicable(asked: &Arc<AtomicU64>, made: &Arc<AtomicU64>, fails: bool) -> Policies {
    let (asked, made) = (asked.clone(), made.clone());
    fallible(OnFailure::Default, move |_| {
        let (asked, number) = (asked.clone(), made.fetch_add(1, Ordering::Relaxed));
        let pick = picker(&[Input::Identity, Input::ActiveRequests], move |_, rows, _| {
            asked.fetch_add(1, Ordering::Relaxed);
            if fails { Err(StageError::refused("no")) } else { Ok(number as usize % rows.rows()) }
        });
        let properties = Properties { replicable: true, ..Properties::default() };
        Ok(Box::new(NativePolicy::new(properties).picker("p", pick)))
    })
}

#[test]
fn instances_that_may_decide_side_by_side_do_and_a_failure_is_the_ordinary_paths() {
    for fails in [false, true] {
        let (asked, made) = <(Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let router = Router::new(replicable(&asked, &made, fails), 7).for_threads(3);
        (0..8).for_each(|id| router.upsert_worker(worker(id)).expect("it is taken"));
        assert_eq!(made.load(Ordering::Relaxed), 4, "one for the lock, three beside it");
        let decision = router.route(&request(1), at(0), Mode::Book).expect("it is routed");
        assert_eq!(decision.receipt.hosted, !fails);
        if fails {
            assert!(decision.receipt.fallback.is_some(), "its owner wants the default");
            assert_eq!(asked.load(Ordering::Relaxed), 2);
        } else {
            let number = decision.receipt.worker.worker_id.0;
            assert!((1..4).contains(&number), "not the one under the lock");
            assert_eq!(decision.receipt.stages.len(), 1);
        }
    }
}

#[test]
fn instances_that_are_often_slow_hold_nobody_up_for_long() {
    let slow = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_slow = slow.clone();
    let make = move || {
        let is_slow = is_slow.clone();
        let pick = picker(&[], move |_, _, _| {
            let watch = crate::clock::Stopwatch::start();
            while is_slow.load(Ordering::Relaxed) && watch.elapsed().as_micros() < 400 {}
            Ok(0)
        });
        let properties = Properties { replicable: true, ..Properties::default() };
        NativePolicy::new(properties).picker("p", pick)
    };
    let router = router(policies(OnFailure::Reject, make), [worker(1)]);
    let is_hosted = |n| hosted(&router, &request(1), at(n)).is_some();
    assert_eq!((0..50).filter(|&n| is_hosted(n)).count(), 3);
    // Left alone for as long, they are tried again, and stay if they are quick now.
    slow.store(false, Ordering::Relaxed);
    assert!((0..1_000).any(is_hosted));
}

#[test]
fn a_picker_that_panics_costs_no_request() {
    #[derive(Debug)]
    struct Panics;
    impl HostedPicker for Panics {
        fn choose(&self, _ask: &Ask<'_>) -> Option<u32> {
            panic!("a bug")
        }
    }
    let make = || native().picker("p", picker(&[], |_, _, _| Ok(0))).hosted(Panics);
    let router = router(policies(OnFailure::Reject, make), [worker(1)]);
    let decision = router.route(&request(1), at(0), Mode::Book).expect("it is routed");
    assert!(!decision.receipt.hosted);
}

#[test]
fn processors_bear_their_share_and_no_more() {
    let spec = |id, kind: Option<&str>| crate::fleet::WorkerSpec {
        device_kind: kind.map(str::to_owned),
        ..worker(id)
    };
    // Two of each: those on processors get an eighth of what the others carry.
    let specs =
        [spec(0, Some("cuda")), spec(1, None), spec(2, Some("cpu")), spec(3, Some(" Cpu "))];
    let router = router(builtin("device-aware"), specs);
    let mut held = Vec::new();
    for n in 0..90 {
        held.push(hosted(&router, &request(1), at(n)).expect("it is placed"));
    }
    assert_eq!(load(&router), [40, 40, 5, 5]);
}
