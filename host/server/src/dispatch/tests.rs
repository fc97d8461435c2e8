//! Gates: one a partition, for as long as it has one, and slow for as long as it is.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod waiting;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64};

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::WorkerId;
use pointsman_core::policy::native::NativePolicy;
use pointsman_core::policy::{OnFailure, Properties, StageError};
use pointsman_core::router::Retention;
use pointsman_core::testing;

use super::gate::SLOW_MICROS;
use super::*;
use crate::serve::testing::partition;

fn dispatcher(policies: Policies) -> Dispatcher {
    let router = Router::new(policies, 1);
    router.upsert_worker(spec()).unwrap();
    Dispatcher::new(Arc::new(router), Arc::new(RouterClock::with_seed(1)))
}

fn spec() -> WorkerSpec {
    WorkerSpec::new(WorkerId(1), "http://127.0.0.1:9", partition())
}

impl Dispatcher {
    async fn ask(&self) -> Result<Decision, DispatchError> {
        self.decide(RouteRequest::new("r", partition(), 1).into(), Mode::Book).await
    }

    /// Lets the worker go, and the time of its partition pass.
    async fn empties(&self) {
        self.router.remove_worker(WorkerId(1)).unwrap();
        assert!(self.forget_vacant(Duration::ZERO).await.is_empty());
        assert_eq!(self.forget_vacant(Retention::STANDARD.keep).await, [partition()]);
    }
}

#[tokio::test]
async fn a_gate_goes_with_its_partition_but_not_while_somebody_stands_at_it() {
    let dispatcher = dispatcher(testing::builtin("round-robin"));
    assert!(dispatcher.ask().await.is_ok());
    let stands = dispatcher.gate(&partition());
    dispatcher.empties().await;
    assert_eq!(dispatcher.ask().await.unwrap_err().to_string(), {
        let never = RouteError::NoPartition(partition());
        DispatchError::Route(never).to_string()
    });
    // The partition begins again: who comes now stands in the same line.
    dispatcher.upsert_worker(spec()).await.unwrap();
    assert!(Arc::ptr_eq(&stands, &dispatcher.gate(&partition())));
    dispatcher.empties().await;
    drop(stands);
    dispatcher.forget_vacant(Duration::ZERO).await;
    assert!(dispatcher.gates.lock().is_empty());
    // Strangers' names leave nothing.
    assert!(dispatcher.ask().await.is_err());
    assert!(dispatcher.gates.lock().is_empty());
}

#[tokio::test]
async fn a_policy_that_fails_slowly_is_decided_on_the_pool_as_one_that_decides_slowly() {
    for fails in [false, true] {
        let slow = testing::policies(OnFailure::Reject, move || {
            let picker = testing::picker(&[], move |_, _, _| {
                let watch = Stopwatch::start();
                while watch.elapsed().as_micros() < 2 * SLOW_MICROS as u128 {
                    std::hint::spin_loop();
                }
                if fails { Err(StageError::refused("no")) } else { Ok(0) }
            });
            NativePolicy::new(Properties::default()).picker("slow", picker)
        });
        let dispatcher = dispatcher(slow);
        assert!(!dispatcher.gate(&partition()).is_slow());
        for _ in 0..3 {
            assert_eq!(dispatcher.ask().await.is_err(), fails);
        }
        assert!(dispatcher.gate(&partition()).is_slow(), "fails: {fails}");
    }
}

/// A policy that decides only when it is let, and says how many decide at the moment.
fn held_up(lets: Arc<AtomicBool>, begun: Arc<AtomicU64>) -> Policies {
    testing::policies(OnFailure::Reject, move || {
        let (lets, begun) = (lets.clone(), begun.clone());
        let picker = testing::picker(&[], move |_, _, _| {
            begun.fetch_add(1, Ordering::SeqCst);
            while !lets.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(0)
        });
        NativePolicy::new(Properties::default()).picker("held up", picker)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_hang_up_leave_one_thread_that_decides_and_no_booking() {
    let (lets, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let dispatcher = Arc::new(dispatcher(held_up(lets.clone(), begun.clone())));
    let gate = dispatcher.gate(&partition());
    gate.slowness.store(Gate::MOST, Ordering::Relaxed);
    let threads = dispatcher.pool.available_permits();
    for _ in 0..200 {
        let waiting = dispatcher.clone();
        let mut waits = JoinSet::new();
        waits.spawn(async move { waiting.ask().await.map(drop) });
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        waits.shutdown().await;
    }
    assert_eq!(begun.load(Ordering::SeqCst), 1, "one has the partition, nobody stands behind it");
    assert_eq!(
        (gate.turn.available_permits(), dispatcher.pool.available_permits()),
        (0, threads - 1)
    );
    // Other models' workers come meanwhile.
    let mut other = partition();
    other.model = "other".into();
    let other = WorkerSpec::new(WorkerId(2), "http://127.0.0.1:9", other);
    let registered = tokio::time::timeout(Duration::from_secs(5), dispatcher.upsert_worker(other));
    assert!(matches!(registered.await, Ok(Ok(()))));
    lets.store(true, Ordering::SeqCst);
    assert!(dispatcher.ask().await.is_ok());
    while (gate.turn.available_permits(), dispatcher.pool.available_permits()) != (1, threads) {
        tokio::task::yield_now().await;
    }
    let booked = dispatcher.router.partition(&partition()).unwrap().ledger().live_leases();
    assert_eq!(booked, 0, "what nobody waits for is given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_put_in_place_before_those_who_stand_in_a_slow_line() {
    let (lets, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let dispatcher = Arc::new(dispatcher(held_up(lets.clone(), begun.clone())));
    let gate = dispatcher.gate(&partition());
    gate.slowness.store(Gate::MOST, Ordering::Relaxed);
    let mut waits = JoinSet::new();
    for _ in 0..50 {
        let waiting = dispatcher.clone();
        waits.spawn(async move { waiting.ask().await.unwrap().receipt.policy.policy_type });
    }
    while begun.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let installing = dispatcher.clone();
    let mut installs = JoinSet::new();
    installs.spawn(async move {
        installing
            .install(testing::builtin("round-robin"))
            .await
            .map(|installed| installed.partitions)
    });
    while !*gate.paused.borrow() {
        tokio::task::yield_now().await;
    }
    lets.store(true, Ordering::SeqCst);
    assert_eq!(installs.join_next().await.unwrap().unwrap().unwrap(), 1);
    let mut by_old = 0;
    while let Some(policy) = waits.join_next().await {
        by_old += usize::from(&*policy.unwrap() == "made");
    }
    assert_eq!(by_old, 1, "all but the one that was being made are made by the new one");
    assert!(!*gate.paused.borrow());
}

#[tokio::test]
async fn what_is_done_with_a_decision_is_done_though_nobody_waits_for_it() {
    let (lets, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let dispatcher = Arc::new(dispatcher(held_up(lets.clone(), begun.clone())));
    dispatcher.gate(&partition()).slowness.store(Gate::MOST, Ordering::Relaxed);
    let seen = Arc::new(AtomicU64::new(0));
    let (waiting, sees) = (dispatcher.clone(), seen.clone());
    let mut waits = JoinSet::new();
    waits.spawn(async move {
        let request = RouteRequest::new("r", partition(), 1).into();
        let then = move |_, _| sees.fetch_add(1, Ordering::SeqCst);
        waiting.decide_then(request, Mode::Book, then).await.map(drop)
    });
    while begun.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    waits.shutdown().await;
    lets.store(true, Ordering::SeqCst);
    assert!(dispatcher.ask().await.is_ok());
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    assert_eq!(dispatcher.router.partition(&partition()).unwrap().ledger().live_leases(), 0);
}

#[tokio::test]
async fn a_request_whose_time_is_over_is_decided_by_no_policy() {
    for policy in ["round-robin", "least-loaded", "default"] {
        let dispatcher = dispatcher(testing::builtin(policy));
        let mut late = RouteRequest::new("r", partition(), 1);
        late.admission.due_at_ms = Some(0);
        let error = dispatcher.decide(late.into(), Mode::Book).await.unwrap_err();
        let DispatchError::Route(error) = error else { panic!("{policy}: {error}") };
        assert_eq!(error.kind(), "deadline_exceeded", "{policy}");
        assert!(dispatcher.ask().await.is_ok());
    }
}
