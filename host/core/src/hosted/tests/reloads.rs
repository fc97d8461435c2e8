//! Whatever decides, however it changes: the load is that of the live requests.

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;
use crate::partition::Decision;

/// What happens to a router.
#[derive(Clone, Debug)]
enum Step {
    /// A request, of any worker, or of one.
    Route(Option<u64>),
    /// The `n`th that is live is over.
    End(usize),
    Install(&'static str),
    Leave(u64),
    Come(u64),
    Availability(u64, Availability),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = 0..4_u64;
    let availability = prop_oneof![Just(Availability::Ready), Just(Availability::Unhealthy)];
    let names = vec!["round-robin", "least-loaded", "default", "power-of-two", "device-aware"];
    let step = prop_oneof![
        6 => proptest::option::weighted(0.3, id.clone()).prop_map(Step::Route),
        4 => any::<prop::sample::Index>().prop_map(|n| Step::End(n.index(64))),
        2 => prop::sample::select(names).prop_map(Step::Install),
        1 => id.clone().prop_map(Step::Leave),
        1 => id.clone().prop_map(Step::Come),
        1 => (id, availability).prop_map(|(id, how)| Step::Availability(id, how)),
    ];
    proptest::collection::vec(step, 1..120)
}

fn install(router: &Router, name: &str) {
    let prepared = router.prepare(builtin(name)).expect("it is made");
    router.install(prepared).expect("it is installed");
}

proptest! {
    #[test]
    fn the_load_is_that_of_the_live_requests_whatever_decides(steps in steps()) {
        let router = router(builtin("round-robin"), (0..4).map(worker));
        let mut live: Vec<Decision> = Vec::new();
        for (n, step) in steps.into_iter().enumerate() {
            let at = moment(n as u64);
            match step {
                Step::Route(to) => {
                    let request = to.map_or_else(|| request(1), |id| pinned(id, None));
                    live.extend(router.route(&request, at, Mode::Book));
                }
                Step::End(at) if at < live.len() => drop(live.swap_remove(at)),
                Step::End(_) => {}
                Step::Install(name) => install(&router, name),
                Step::Leave(id) => drop(router.remove_worker(WorkerId(id))),
                Step::Come(id) => router.upsert_worker(worker(id)).expect("it is taken"),
                Step::Availability(id, how) => drop(router.set_availability(WorkerId(id), how)),
            }
            let partition = partition(&router);
            let snapshot = partition.ledger().snapshot();
            for load in partition.ledger().loads() {
                let epoch = snapshot.worker_by_id(load.worker.worker_id).map(|w| w.epoch);
                let its = live.iter().filter(|decision| {
                    let receipt = &decision.receipt;
                    receipt.worker == load.worker && Some(receipt.epoch) == epoch
                });
                prop_assert_eq!(load.active_requests, its.count() as u64);
            }
            prop_assert_eq!(partition.ledger().live_leases(), live.len() as u64);
            // Policies are shown the same.
            let before: Vec<_> = partition.ledger().loads();
            if let Ok(shown) = router.route(&request(1), at, Mode::Record) {
                let recording = &shown.sample.as_ref().expect("it is recorded").recording;
                for (row, rank) in recording.rows.iter().enumerate() {
                    let requests = recording.columns.value(Input::ActiveRequests, row);
                    let load = before.iter().find(|load| load.worker == *rank);
                    prop_assert_eq!(load.map(|load| load.active_requests as f64), requests);
                }
            }
        }
        live.clear();
        prop_assert!(load(&router).into_iter().all(|requests| requests == 0));
        prop_assert_eq!(partition(&router).ledger().live_leases(), 0);
    }
}

#[test]
fn threads_that_decide_end_reload_and_change_the_fleet_lose_and_double_nothing() {
    let router = router(builtin("round-robin"), (0..4).map(worker));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (router, stop) = (&router, &stop);
        let deciders: Vec<_> = (0..3_u64)
            .map(|thread| {
                scope.spawn(move || {
                    let mut live = std::collections::VecDeque::new();
                    for n in 0..6_000 {
                        let at = Moment { now_ms: n / 20, seed: n * 7 + thread };
                        live.extend(router.route(&request(1), at, Mode::Book).ok());
                        if live.len() > 16 {
                            live.pop_front();
                        }
                    }
                    live
                })
            })
            .collect();
        let changes = scope.spawn(move || {
            let names = ["default", "least-loaded", "round-robin", "power-of-two"];
            for n in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                install(router, names[n as usize % names.len()]);
                drop(router.remove_worker(WorkerId(n % 4)));
                router.upsert_worker(worker(n % 4)).expect("it is taken");
                // Never more than there can be: nothing has gone below zero.
                assert!(load(router).into_iter().all(|requests| requests <= 3 * 18));
            }
        });
        let live: Vec<_> = deciders.into_iter().map(|d| d.join().expect("it ends")).collect();
        stop.store(true, Ordering::Relaxed);
        changes.join().expect("it ends");
        let held: Vec<&Decision> = live.iter().flatten().collect();
        let partition = partition(router);
        assert_eq!(partition.ledger().live_leases(), held.len() as u64);
        let snapshot = partition.ledger().snapshot();
        for load in partition.ledger().loads() {
            let epoch = snapshot.worker_by_id(load.worker.worker_id).map(|w| w.epoch);
            let its =
                |d: &&&Decision| d.receipt.worker == load.worker && Some(d.receipt.epoch) == epoch;
            assert_eq!(load.active_requests, held.iter().filter(its).count() as u64);
        }
    });
    assert_eq!(load(&router), [0; 4]);
    assert_eq!(partition(&router).ledger().live_leases(), 0);
}
