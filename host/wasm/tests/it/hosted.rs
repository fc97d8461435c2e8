//! Components that decide without their partition's lock, several instances of one side by side.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pointsman_core::RouteError;
use pointsman_core::clock::Moment;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{DecisionId, WorkerId};
use pointsman_core::partition::{Mode, Partition};
use pointsman_core::policy::{Catalog, Cause, OnFailure};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};
use pointsman_core::testing;

use crate::rig::{eventually, load, partition};

const WORKERS: u64 = 4;

fn at(n: u64) -> Moment {
    Moment { now_ms: n, seed: n }
}

/// A router of some workers, decided by `picks-alone`, which two threads ask.
fn router() -> Router {
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(load("picks-alone").unwrap())).unwrap();
    let selection = testing::selection("picks-alone", OnFailure::Reject);
    let policies = Policies { catalog, selection, ..Policies::default() };
    let router = Router::new(policies, 7).for_threads(2);
    for id in 0..WORKERS {
        let spec = WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", partition());
        router.upsert_worker(spec).unwrap();
    }
    router
}

fn served(router: &Router) -> Arc<Partition> {
    router.partition(&partition()).unwrap()
}

/// Every row's active requests.
fn loads(router: &Router) -> Vec<u64> {
    served(router).ledger().loads().iter().map(|load| load.active_requests).collect()
}

#[test]
fn a_picker_alone_decides_without_the_lock_by_the_loads_of_that_moment() {
    let router = router();
    let served = served(&router);
    assert!(served.is_hosted());
    let request = RouteRequest::new("r", partition(), 41);
    let leases: Vec<_> = (0..3 * WORKERS)
        .map(|n| served.hosted().choose(&request, DecisionId(n), at(n)).expect("it is hosted"))
        .collect();
    assert_eq!(loads(&router), [3; WORKERS as usize]);
    drop(leases);
    assert_eq!(loads(&router), [0; WORKERS as usize]);
}

#[test]
fn what_traps_past_the_lock_is_decided_under_it_where_its_failure_counts() {
    let router = router();
    let served = served(&router);
    let bad = RouteRequest::new("r", partition(), 40);
    // Each instance loses its life once, and none is left in a state that anyone sees.
    for n in 0..6 {
        assert!(served.hosted().choose(&bad, DecisionId(n), at(n)).is_none());
        assert_eq!(loads(&router), [0; WORKERS as usize]);
    }
    let failure = router.route(&bad, at(7), Mode::Book).unwrap_err();
    assert!(
        matches!(&failure, RouteError::Policy(failure) if failure.cause == Cause::Trap),
        "{failure:?}"
    );
    let good = RouteRequest::new("r", partition(), 41);
    // Until its replacement is there.
    let mut later = 8..;
    let decision =
        eventually("a replacement", || router.route(&good, at(later.next()?), Mode::Book).ok());
    assert_eq!(loads(&router).iter().sum::<u64>(), 1);
    drop(decision);
    assert_eq!(loads(&router), [0; WORKERS as usize]);
}

#[test]
fn two_threads_decide_side_by_side_and_every_booking_ends() {
    let router = router();
    let hosted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (router, hosted) = (&router, &hosted);
            scope.spawn(move || {
                let served = served(router);
                for n in 0..2_000 {
                    // One of a hundred traps its instance.
                    let tokens = if n % 100 == 7 { 40 } else { 41 };
                    let request = RouteRequest::new("r", partition(), tokens);
                    let id = DecisionId(2 * n + thread);
                    match served.hosted().choose(&request, id, at(n)) {
                        Some(_) => _ = hosted.fetch_add(1, Ordering::Relaxed),
                        None => drop(router.route(&request, at(n), Mode::Book)),
                    }
                }
            });
        }
    });
    assert_eq!(loads(&router), [0; WORKERS as usize]);
    assert!(hosted.into_inner() > 0, "an instance that is made anew serves again");
}
