//! Promises of the front door: partitions begin with their workers, and policies change all at once.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::clock::Moment;
use crate::ids::Role;
use crate::partition::Mode;
use crate::policy::native::NativePolicy;
use crate::policy::selection::Recipe;
use crate::policy::{InstantiateError, OnFailure};
use crate::request::RouteRequest;
use crate::testing::{
    Stateful, builtin, fallible, group, key, moment, native, policies, request, router, scorer,
    size, worker,
};

fn costs(cost: f64) -> NativePolicy {
    native().scorer(
        "s",
        scorer(&[], move |_, _, costs| {
            costs.fill(cost);
            Ok(())
        }),
    )
}

fn cost(router: &Router, partition: &PartitionKey) -> f64 {
    let request = RouteRequest::new("r", partition.clone(), 10);
    router.route(&request, moment(1), Mode::Book).expect("it is routed").receipt.cost
}

fn in_group(id: u64, name: &str) -> WorkerSpec {
    WorkerSpec { partition: group(name), ..worker(id) }
}

#[test]
fn a_partition_begins_with_its_first_worker_and_outlives_its_last_for_a_while() {
    let router = router(builtin("default"), []);
    let ask = || router.route(&request(1), moment(1), Mode::Book).map(|d| d.receipt.worker);
    assert_eq!(ask().map_err(|e| e.kind()), Err("no_such_model"));
    router.upsert_worker(worker(1)).expect("it is taken");
    assert!(ask().is_ok());
    router.remove_worker(WorkerId(1)).expect("it is there");
    assert_eq!(ask().map_err(|e| e.kind()), Err("no_endpoints"));
    router.upsert_worker(worker(2)).expect("it is taken");
    assert!(ask().is_ok());
}

/// Longer than a vacant partition is kept, in milliseconds.
const LONG: u64 = Retention::STANDARD.keep.as_millis() as u64;

#[test]
fn a_partition_without_workers_is_forgotten_in_time_as_if_it_had_never_been() {
    let router = router(builtin("round-robin"), [worker(1), worker(2), worker(3)]);
    // Each in a millisecond of its own, so that all take their turns from one sequence.
    let now_ms = AtomicU64::new(0);
    let ask = || {
        let moment = Moment { now_ms: now_ms.fetch_add(1, Ordering::Relaxed), seed: 1 };
        router.route(&request(1), moment, Mode::Book).map(|d| d.receipt.worker)
    };
    let never = router.route(&RouteRequest::new("r", group("never"), 1), moment(1), Mode::Book);
    assert!(ask().is_ok() && ask().is_ok());
    assert!(router.forget_vacant(0).is_empty() && router.forget_vacant(LONG).is_empty());
    let leave = || (1..4).for_each(|id| drop(router.remove_worker(WorkerId(id))));
    let come = || (1..4).for_each(|id| router.upsert_worker(worker(id)).expect("it is taken"));
    // They come back in time: the turn goes on, and so do the counts.
    leave();
    assert!(router.forget_vacant(2 * LONG).is_empty());
    assert!(router.forget_vacant(3 * LONG - 1).is_empty());
    come();
    assert!(router.forget_vacant(4 * LONG).is_empty());
    assert_eq!(ask(), Ok(crate::testing::rank(3, 0)));
    assert_eq!(router.partitions()[0].counts().decisions, 3);
    // They don't.
    leave();
    assert!(router.forget_vacant(5 * LONG).is_empty());
    assert_eq!(ask().map_err(|e| e.kind()), Err("no_endpoints"));
    assert_eq!(router.forget_vacant(6 * LONG), [key(Role::Aggregated)]);
    assert!(router.partitions().is_empty());
    let (forgotten, never) = (ask().expect_err("it is gone"), never.expect_err("it never was"));
    assert_eq!(forgotten.kind(), never.kind());
    assert_eq!(forgotten.to_string().replace("m/default", "m/never"), never.to_string());
    // What comes later begins anew.
    come();
    assert_eq!(ask(), Ok(crate::testing::rank(1, 0)));
    assert_eq!(router.partitions()[0].counts().decisions, 1);
}

#[test]
fn a_partition_is_not_forgotten_while_a_request_of_it_runs() {
    let router = router(builtin("default"), [worker(1)]);
    let held = router.route(&request(1), moment(1), Mode::Book).expect("it is routed");
    router.remove_worker(WorkerId(1)).expect("it is there");
    assert!(router.forget_vacant(0).is_empty() && router.forget_vacant(LONG).is_empty());
    drop(held);
    assert_eq!(router.forget_vacant(LONG + 1).len(), 1);
}

#[test]
fn workers_of_ever_new_partitions_do_not_fill_the_memory_between_two_looks_at_the_clock() {
    let router = router(builtin("default"), [in_group(0, "stays")]);
    for n in 0..1_000 {
        router.upsert_worker(in_group(n + 1, &format!("g{n}"))).expect("it is taken");
        router.remove_worker(WorkerId(n + 1)).expect("it is there");
        assert!(router.partitions().len() <= Retention::STANDARD.most + 2);
    }
    // The last ones are those that are kept.
    assert!(router.partition(&group("g999")).is_some() && router.partition(&group("g0")).is_none());
    assert!(router.partition(&group("stays")).is_some());
    // One worker that moves about is no other case.
    for n in 0..1_000 {
        router.upsert_worker(in_group(1, &format!("h{n}"))).expect("it is taken");
    }
    assert!(router.partitions().len() <= Retention::STANDARD.most + 3);
    let _ = router.forget_vacant(0);
    let _ = router.forget_vacant(LONG);
    assert_eq!(router.partitions().len(), 2);
}

#[test]
fn an_installation_brings_no_forgotten_partition_back_and_reaches_one_that_began_again() {
    let at = |cost| policies(OnFailure::Reject, move || costs(cost));
    let router = router(at(1.0), [in_group(1, "a"), in_group(2, "b"), in_group(3, "c")]);
    let prepared = router.prepare(at(2.0)).expect("they are made");
    let _ = (router.remove_worker(WorkerId(1)), router.remove_worker(WorkerId(2)));
    let _ = router.forget_vacant(0);
    assert_eq!(router.forget_vacant(LONG), [group("a"), group("b")]);
    router.upsert_worker(in_group(2, "b")).expect("it is taken");
    assert_eq!(cost(&router, &group("b")), 1.0);
    assert_eq!(router.install(prepared).expect("they are installed").partitions, 2);
    assert!(router.partition(&group("a")).is_none());
    assert_eq!([cost(&router, &group("b")), cost(&router, &group("c"))], [2.0, 2.0]);
}

#[test]
fn a_refused_worker_leaves_nothing_behind() {
    let router = router(builtin("default"), []);
    let refused = crate::testing::ranked(1, u32::MAX, 1);
    assert!(matches!(router.upsert_worker(refused), Err(RegisterError::Fleet(_))));
    assert!(router.partitions().is_empty() && router.workers().is_empty());
    let broken = fallible(OnFailure::Default, |_| {
        Err(InstantiateError::Refused { policy_type: "made".into(), reason: "no".into() })
    });
    let router = Router::new(broken, 1);
    assert!(matches!(router.upsert_worker(worker(1)), Err(RegisterError::Policy(_))));
    assert!(router.partitions().is_empty() && router.workers().is_empty());
}

#[test]
fn a_worker_that_moves_is_routed_to_in_its_new_partition_only() {
    let router = router(builtin("default"), [worker(1)]);
    router.upsert_worker(in_group(1, "b")).expect("it is taken");
    let old = router.route(&request(1), moment(1), Mode::Book).map(|_| ());
    assert_eq!(old.map_err(|e| e.kind()), Err("no_endpoints"));
    let request = RouteRequest::new("r", group("b"), 10);
    let held = router.route(&request, moment(1), Mode::Book).expect("it is routed");
    assert_eq!(router.active_requests_of(WorkerId(1)), 1);
    drop(held);
    assert_eq!(router.active_requests_of(WorkerId(1)), 0);
    assert_eq!(router.active_requests_of(WorkerId(9)), 0);
}

#[test]
fn instances_are_made_for_the_block_size_of_their_workers() {
    let router = router(
        fallible(OnFailure::Reject, |environment| {
            Ok(Box::new(costs(environment.block_size.into())))
        }),
        [worker(1)],
    );
    let partition = key(Role::Aggregated);
    assert_eq!(cost(&router, &partition), 16.0);
    // The only worker comes back with other blocks.
    router.upsert_worker(WorkerSpec { block_size: size(32), ..worker(1) }).expect("it is taken");
    assert_eq!(cost(&router, &partition), 32.0);
    // All leave, and others come; a reload while there is none keeps the last size.
    router.remove_worker(WorkerId(1)).expect("it is there");
    let prepared = router.prepare(router.policies()).expect("they are made");
    router.upsert_worker(WorkerSpec { block_size: size(64), ..worker(2) }).expect("it is taken");
    assert_eq!(cost(&router, &partition), 64.0);
    // What was prepared for the old size isn't installed for the new one.
    router.install(prepared).expect("they are installed");
    assert_eq!(cost(&router, &partition), 64.0);
    assert_eq!(router.partition(&partition).map(|p| p.block_size()), Some(64));
}

#[test]
fn policies_change_in_all_partitions_or_in_none() {
    let one = || policies(OnFailure::Reject, || costs(1.0));
    let router = router(one(), [in_group(1, "a"), in_group(2, "b")]);
    let both = || [cost(&router, &group("a")), cost(&router, &group("b"))];
    assert_eq!(both(), [1.0, 1.0]);
    // Made for the first partition, refused for the second.
    let halves = fallible(OnFailure::Reject, |environment| {
        if &*environment.partition.routing_group == "b" {
            let reason = "not here".to_owned();
            return Err(InstantiateError::Refused { policy_type: "made".into(), reason });
        }
        Ok(Box::new(costs(2.0)))
    });
    let error = router.prepare(halves).expect_err("b refuses").to_string();
    assert!(error.contains("not here") && error.contains("m/b/aggregated"), "{error}");
    assert_eq!(both(), [1.0, 1.0]);
    let prepared =
        router.prepare(policies(OnFailure::Reject, || costs(3.0))).expect("they are made");
    assert_eq!(both(), [1.0, 1.0], "prepared is not installed");
    let installed = router.install(prepared).expect("they are installed");
    assert_eq!((installed.partitions, installed.handed_over), (2, 0));
    assert_eq!(both(), [3.0, 3.0]);
    // What comes later is decided by what is in place.
    router.upsert_worker(in_group(3, "c")).expect("it is taken");
    assert_eq!(cost(&router, &group("c")), 3.0);
}

#[test]
fn a_partition_that_begins_between_the_phases_gets_the_new_policies() {
    let router = router(policies(OnFailure::Reject, || costs(1.0)), [in_group(1, "a")]);
    let fails = Arc::new(AtomicBool::new(false));
    let next = || {
        let fails = fails.clone();
        fallible(OnFailure::Reject, move |environment| {
            if fails.load(Ordering::Relaxed) && &*environment.partition.routing_group == "b" {
                let reason = "not here".to_owned();
                return Err(InstantiateError::Refused { policy_type: "made".into(), reason });
            }
            Ok(Box::new(costs(2.0)))
        })
    };
    let (refused, taken) = (router.prepare(next()), router.prepare(next()));
    router.upsert_worker(in_group(2, "b")).expect("it is taken");
    let both = || [cost(&router, &group("a")), cost(&router, &group("b"))];
    assert_eq!(both(), [1.0, 1.0]);
    fails.store(true, Ordering::Relaxed);
    assert!(router.install(refused.expect("they are made")).is_err());
    assert_eq!(both(), [1.0, 1.0], "refused in the late one, so in none");
    fails.store(false, Ordering::Relaxed);
    let installed = router.install(taken.expect("they are made")).expect("they are installed");
    assert_eq!(installed.partitions, 2);
    assert_eq!(both(), [2.0, 2.0]);
}

/// A policy whose state is the number of decisions that it has seen, and its cost.
fn counting(takes_state: bool) -> Stateful {
    let seen = Arc::new(AtomicU64::new(0));
    let state = seen.clone();
    let counts = scorer(&[], move |_, _, costs| {
        costs.fill((seen.fetch_add(1, Ordering::Relaxed) + 1) as f64);
        Ok(())
    });
    Stateful::new(native().scorer("s", counts), state, takes_state)
}

#[test]
fn state_goes_over_everywhere_or_the_old_version_goes_on_everywhere() {
    // In which group the state can't be restored.
    let counting = |spoilt: Option<&'static str>| {
        fallible(OnFailure::Reject, move |environment| {
            Ok(Box::new(counting(spoilt != Some(&*environment.partition.routing_group))))
        })
    };
    let router = router(counting(None), [in_group(1, "a"), in_group(2, "b")]);
    let both = || [cost(&router, &group("a")), cost(&router, &group("b"))];
    assert_eq!(both(), [1.0, 1.0]);
    let prepared = router.prepare(counting(None)).expect("they are made");
    assert_eq!(both(), [2.0, 2.0]);
    let installed = router.install(prepared).expect("they are installed");
    assert_eq!((installed.partitions, installed.handed_over), (2, 2));
    assert_eq!(both(), [3.0, 3.0]);
    // The second partition can't take its state: neither changes, and both keep counting.
    let prepared = router.prepare(counting(Some("b"))).expect("they are made");
    let error = router.install(prepared).expect_err("b can't restore").to_string();
    assert!(error.contains("m/b/aggregated") && error.contains("state: discard"), "{error}");
    assert_eq!(both(), [4.0, 4.0]);
    // Unless the owner would rather lose it.
    let mut discarding = counting(Some("b"));
    discarding.selection.instances.iter_mut().for_each(|spec| spec.discard_state = true);
    let installed = router.install(router.prepare(discarding).expect("they are made"));
    assert_eq!(installed.map(|i| i.handed_over).map_err(|e| e.to_string()), Ok(1));
    assert_eq!(both(), [5.0, 1.0]);
}

#[test]
fn a_fallback_is_the_hosts_own_whatever_the_catalogue_holds() {
    // An instance may be of a type that is gone from the catalogue of built-ins.
    let mut made = policies(OnFailure::Default, || costs(f64::NAN));
    made.catalog = {
        let mut only = crate::policy::Catalog::default();
        only.insert(made.catalog.get("made").expect("it is there").clone()).expect("not taken");
        only
    };
    let router = router(made, [worker(1)]);
    let decision = router.route(&request(1), moment(1), Mode::Book).expect("it is routed");
    assert_eq!(&*decision.receipt.policy.name, "default");
}

#[test]
fn every_decision_has_an_id_of_its_own() {
    let router = Arc::new(router(builtin("default"), [worker(1), worker(2)]));
    let ids: std::collections::BTreeSet<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let ask = || router.route(&request(5), moment(1), Mode::Book);
                    (0..50)
                        .map(|_| ask().expect("it is routed").receipt.decision_id)
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ran")).collect()
    });
    assert_eq!(ids.len(), 200);
}

#[test]
fn nothing_waits_for_ever_while_everything_changes() {
    // Registrations, departures, reloads and decisions all at once, for a while.
    let router = Arc::new(router(policies(OnFailure::Default, || costs(1.0)), (0..4).map(worker)));
    let decided = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..2_u64 {
            let (router, decided) = (&router, &decided);
            scope.spawn(move || {
                for n in 0..2_000 {
                    if router.route(&request(n), moment(seed ^ n), Mode::Book).is_ok() {
                        decided.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        scope.spawn(|| {
            for n in 0..300 {
                let id = n % 4;
                let _ = router.remove_worker(WorkerId(id));
                let size = size(if n % 50 == 49 { 32 } else { 16 });
                let _ = router.upsert_worker(WorkerSpec { block_size: size, ..worker(id) });
                let _ = router.upsert_worker(in_group(id + 10, &format!("g{}", n % 3)));
            }
        });
        scope.spawn(|| {
            for n in 0..50 {
                let prepared =
                    router.prepare(policies(OnFailure::LastGood, move || costs(f64::from(n))));
                router.install(prepared.expect("they are made")).expect("they are installed");
            }
        });
        scope.spawn(|| {
            // Whoever is without workers at two looks in a row is forgotten.
            for n in 0..200 {
                let _ = router.forget_vacant(n * LONG);
                std::thread::yield_now();
            }
        });
    });
    assert!(decided.load(Ordering::Relaxed) > 3_000);
    // Every worker that is there has its partition, and can be routed to.
    for worker in router.workers() {
        let request = RouteRequest::new("r", worker.spec.partition.clone(), 1);
        assert!(router.route(&request, moment(1), Mode::Book).is_ok(), "{}", request.partition);
    }
    for partition in router.partitions() {
        assert_eq!(partition.ledger().live_leases(), 0);
        assert!(partition.ledger().loads().iter().all(|load| load.active_requests == 0));
    }
}

#[test]
fn nobody_takes_the_name_of_the_default_instance() {
    let mut taken = policies(OnFailure::Reject, || costs(5.0));
    taken.selection.instances.iter_mut().for_each(|spec| spec.name = "default".into());
    taken.selection.roles = [(Role::Aggregated, "default".into())].into();
    let router = router(taken, [worker(1)]);
    let decision = router.route(&request(160), moment(1), Mode::Book).expect("it is routed");
    assert_eq!(&*decision.receipt.policy.policy_type, "default");
    assert!(matches!(router.policies().selection.instances[0].recipe, Recipe::Whole(_)));
}

#[test]
fn an_installation_that_changes_nothing_for_a_policy_leaves_it_what_it_has_learnt() {
    let round_robin = builtin("round-robin");
    let router = router(round_robin.clone(), [worker(1), worker(2), worker(3)]);
    // Each in a millisecond of its own, so that all take their turns from one sequence.
    let now_ms = AtomicU64::new(0);
    let next = || {
        let moment = Moment { now_ms: now_ms.fetch_add(1, Ordering::Relaxed), seed: 1 };
        let decision = router.route(&request(1), moment, Mode::Book).expect("it is routed");
        decision.receipt.worker.worker_id.0
    };
    let first = next();
    let prepared = router.prepare(round_robin.clone()).expect("it can be made");
    assert_eq!(router.install(prepared).expect("it can be put in place").partitions, 0);
    let settings = RouterSettings { router_temperature: 0.5, ..RouterSettings::default() };
    assert_eq!(next(), first % 3 + 1, "the turn goes on");
    let other = Policies { settings: settings.into(), ..round_robin };
    let prepared = router.prepare(other).expect("it can be made");
    assert_eq!(router.install(prepared).expect("it can be put in place").partitions, 1);
    assert_eq!(next(), first, "another policy begins anew");
}
