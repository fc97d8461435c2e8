//! The keeper with a real router and real probes. The rules themselves are tested without tasks,
//! beside [`Standing`].

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use pointsman_core::partition::{Decision, Mode};
use pointsman_core::policy::Catalog;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};
use serde_json::json;

use super::*;
use crate::clock::RouterClock;
use crate::mock_engine::{Health, MockConfig, MockEngine};

const ONE: WorkerId = WorkerId(1);

/// Nothing listens there.
const NOBODY: &str = "http://127.0.0.1:9";

struct Fixture {
    keeper: WorkerKeeper,
    dispatcher: Arc<Dispatcher>,
}

impl Fixture {
    fn new(change: impl FnOnce(&mut KeeperConfig)) -> Self {
        let policies = Policies { catalog: Catalog::builtin(), ..Policies::default() };
        let router = Arc::new(Router::new(policies, 1));
        let dispatcher = Arc::new(Dispatcher::new(router, Arc::new(RouterClock::with_seed(1))));
        let mut config = KeeperConfig {
            // No probes but the first: what they find is another test's business.
            health: HealthConfig {
                interval: Duration::from_secs(3_600),
                ..HealthConfig::default()
            },
            load_reports: None,
            drain_timeout: Duration::from_secs(10),
            worker_token: None,
        };
        change(&mut config);
        Self { keeper: WorkerKeeper::new(dispatcher.clone(), config), dispatcher }
    }

    async fn register(&self, description: serde_json::Value) -> Registered {
        let registration = Registration::read(&description).unwrap();
        self.keeper.register(registration, Origin::Api).await.unwrap()
    }

    async fn book(&self) -> Decision {
        let worker = self.dispatcher.router().worker(ONE).unwrap();
        let request = RouteRequest::new("r", worker.spec.partition.clone(), 100);
        self.dispatcher.decide(Arc::new(request), Mode::Book).await.unwrap()
    }

    fn availability(&self) -> Option<Availability> {
        self.dispatcher.router().worker(ONE).map(|worker| worker.availability)
    }

    async fn wait_for(&self, wanted: Option<Availability>) {
        let wait = async {
            while self.availability() != wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
        assert!(waited.is_ok(), "{:?} instead of {wanted:?}", self.availability());
    }
}

fn worker(endpoint: &str) -> serde_json::Value {
    json!({ "worker_id": 1, "endpoint": endpoint })
}

#[tokio::test]
async fn a_newcomer_is_created_ready_and_a_second_registration_changes_it() {
    let fixture = Fixture::new(|_| {});
    let first = fixture.register(worker(NOBODY)).await;
    assert!(first.created);
    assert_eq!(first.worker.availability, Availability::Ready);
    let mut description = worker(NOBODY);
    description["labels"] = json!({ "zone": "a" });
    let second = fixture.register(description).await;
    assert!(!second.created);
    assert_eq!(second.worker.epoch, first.worker.epoch, "the same engine");
    let moved = fixture.register(worker("http://127.0.0.1:10")).await;
    assert!(moved.worker.epoch > first.worker.epoch, "another engine");
}

#[tokio::test]
async fn a_worker_without_requests_leaves_at_once_and_one_with_requests_when_they_end() {
    let fixture = Fixture::new(|_| {});
    fixture.register(worker(NOBODY)).await;
    assert!(matches!(fixture.keeper.remove(ONE, false).await, Ok(Removal::Gone)));
    assert!(matches!(fixture.keeper.remove(ONE, false).await, Err(KeeperError::Unknown(ONE))));

    fixture.register(worker(NOBODY)).await;
    let decision = fixture.book().await;
    let Ok(Removal::Draining(view)) = fixture.keeper.remove(ONE, false).await else {
        panic!("it carries a request")
    };
    assert_eq!((view.availability, view.active_requests), (Availability::Draining, 1));
    drop(decision);
    fixture.wait_for(None).await;
}

#[tokio::test]
async fn a_worker_whose_drain_time_is_over_leaves_with_its_requests() {
    let fixture = Fixture::new(|config| config.drain_timeout = Duration::from_millis(30));
    fixture.register(worker(NOBODY)).await;
    let decision = fixture.book().await;
    assert!(matches!(fixture.keeper.remove(ONE, false).await, Ok(Removal::Draining(_))));
    fixture.wait_for(None).await;
    drop(decision);
}

#[tokio::test]
async fn a_forced_removal_does_not_wait() {
    let fixture = Fixture::new(|_| {});
    fixture.register(worker(NOBODY)).await;
    let decision = fixture.book().await;
    assert!(matches!(fixture.keeper.remove(ONE, true).await, Ok(Removal::Gone)));
    assert_eq!(fixture.availability(), None);
    drop(decision);
}

#[tokio::test]
async fn registering_a_draining_worker_again_brings_it_back() {
    let fixture = Fixture::new(|_| {});
    fixture.register(worker(NOBODY)).await;
    let decision = fixture.book().await;
    fixture.keeper.remove(ONE, false).await.unwrap();
    fixture.register(worker(NOBODY)).await;
    assert_eq!(fixture.availability(), Some(Availability::Ready));
    drop(decision);
    // Long enough for a look at a drain that wasn't taken back.
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(fixture.availability(), Some(Availability::Ready));
}

#[tokio::test]
async fn a_lease_without_heartbeat_ends_and_only_leases_are_renewed() {
    let fixture = Fixture::new(|_| {});
    fixture.register(worker(NOBODY)).await;
    assert!(matches!(fixture.keeper.heartbeat(ONE), Err(KeeperError::NoLease(ONE))));
    let mut description = worker(NOBODY);
    description["lease"] = json!("100ms");
    fixture.register(description).await;
    assert_eq!(fixture.keeper.heartbeat(ONE).unwrap().lease_ms, Some(100));
    fixture.wait_for(None).await;
    assert!(matches!(fixture.keeper.heartbeat(ONE), Err(KeeperError::Unknown(ONE))));
}

#[tokio::test]
async fn reports_about_an_earlier_life_are_ignored() {
    let fixture = Fixture::new(|_| {});
    let first = fixture.register(worker(NOBODY)).await.worker.epoch;
    fixture.register(worker("http://127.0.0.1:10")).await;
    fixture.keeper.unreachable(ONE, first, "reset");
    fixture.keeper.overloaded(ONE, first, Duration::from_secs(1));
    assert_eq!(fixture.availability(), Some(Availability::Ready));
}

#[tokio::test]
async fn an_overloaded_worker_comes_back_by_itself() {
    let fixture = Fixture::new(|_| {});
    let epoch = fixture.register(worker(NOBODY)).await.worker.epoch;
    fixture.keeper.overloaded(ONE, epoch, Duration::from_millis(40));
    assert_eq!(fixture.availability(), Some(Availability::Overloaded));
    assert!(fixture.keeper.worker(ONE).unwrap().overloaded_for_ms.unwrap() <= 40);
    fixture.wait_for(Some(Availability::Ready)).await;
}

#[tokio::test]
async fn an_unreachable_worker_is_out_at_once_and_back_after_a_good_probe() {
    let engine = MockEngine::start(MockConfig::default()).unwrap();
    let fixture = Fixture::new(|_| {});
    let epoch = fixture.register(worker(&engine.url())).await.worker.epoch;
    fixture.keeper.unreachable(ONE, epoch, "connection reset");
    assert_eq!(fixture.availability(), Some(Availability::Unhealthy));
    assert_eq!(fixture.keeper.worker(ONE).unwrap().reason.as_deref(), Some("connection reset"));
    fixture.wait_for(Some(Availability::Ready)).await;
    fixture.keeper.stop().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn where_nobody_probes_a_worker_is_healthy_until_its_requests_fail() {
    let fixture = Fixture::new(|config| {
        config.health.probes = false;
        config.health.interval = Duration::from_millis(1);
        config.health.eject_after = 2;
    });
    let epoch = fixture.register(worker(NOBODY)).await.worker.epoch;
    // Others, so that one may be left out.
    for id in 2..4 {
        let other = json!({ "worker_id": id, "endpoint": NOBODY });
        fixture.register(other).await;
    }
    fixture.keeper.unreachable(ONE, epoch, "reset");
    assert_eq!(fixture.availability(), Some(Availability::Ready));
    fixture.keeper.unreachable(ONE, epoch, "reset");
    assert_eq!(fixture.availability(), Some(Availability::Overloaded));
    // It is back after its pause, though nobody has probed it.
    fixture.wait_for(Some(Availability::Ready)).await;
    assert!(fixture.keeper.worker(ONE).unwrap().last_probe.is_none());
    fixture.keeper.stop().await;
}

#[tokio::test]
async fn probes_find_a_sick_engine_and_its_recovery_and_leave_its_load_alone() {
    let engine = MockEngine::start(MockConfig::default()).unwrap();
    let fixture = Fixture::new(|config| config.health.interval = Duration::from_millis(10));
    fixture.register(worker(&engine.url())).await;
    let decision = fixture.book().await;
    engine.control().update(|control| control.health = Health::Unhealthy).unwrap();
    fixture.wait_for(Some(Availability::Unhealthy)).await;
    let view = fixture.keeper.worker(ONE).unwrap();
    assert_eq!(view.active_requests, 1);
    assert!(view.reason.unwrap().contains("503"));
    engine.control().update(|control| control.health = Health::default()).unwrap();
    fixture.wait_for(Some(Availability::Ready)).await;
    assert_eq!(fixture.keeper.worker(ONE).unwrap().active_requests, 1);
    drop(decision);
    assert_eq!(fixture.keeper.worker(ONE).unwrap().active_requests, 0);
    fixture.keeper.stop().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_changed_file_registers_changes_and_lets_go_but_leaves_the_apis_workers_alone() {
    let fixture = Fixture::new(|_| {});
    let spec = |id: u64, port: u16| {
        let description =
            json!({ "worker_id": id, "endpoint": format!("http://127.0.0.1:{port}") });
        Registration::read(&description).unwrap().spec
    };
    let before = [spec(1, 9), spec(2, 9), spec(3, 9)];
    fixture.keeper.register_file(&before).await.unwrap();
    // Taken over by the API: no longer the file's to let go.
    let mut taken = worker(NOBODY);
    taken["worker_id"] = json!(3);
    fixture.register(taken).await;
    let after = [spec(1, 10), spec(4, 9)];
    let changes = fixture.keeper.change_file(&before, &after).await;
    assert_eq!(changes.registered, [WorkerId(1), WorkerId(4)]);
    assert_eq!(changes.leaving, [WorkerId(2)]);
    assert!(changes.refused.is_empty(), "{:?}", changes.refused);
    let ids: Vec<_> =
        fixture.dispatcher.router().workers().iter().map(|w| w.spec.worker_id.0).collect();
    assert_eq!(ids, [1, 3, 4]);
}

#[tokio::test]
async fn of_two_changes_at_once_neither_is_lost() {
    let fixture = Fixture::new(|_| {});
    fixture.register(worker(NOBODY)).await;
    let (one, other) = tokio::join!(
        fixture.keeper.change(ONE, json!({ "labels": { "zone": "a" } })),
        fixture.keeper.change(ONE, json!({ "taints": ["fast"] })),
    );
    one.unwrap().unwrap();
    other.unwrap().unwrap();
    let spec = fixture.dispatcher.router().worker(ONE).unwrap().spec;
    assert_eq!((spec.labels.len(), spec.taints.len()), (1, 1));
}

#[tokio::test]
async fn every_task_ends_with_the_keeper() {
    let fixture = Fixture::new(|_| {});
    for id in 1..=20 {
        let mut description = worker(NOBODY);
        description["worker_id"] = json!(id);
        fixture.register(description).await;
    }
    let roster = Arc::downgrade(&fixture.keeper.roster);
    let tasks = fixture.keeper.roster.tasks.clone();
    drop(fixture);
    tasks.close();
    assert!(tokio::time::timeout(Duration::from_secs(5), tasks.wait()).await.is_ok());
    assert!(roster.upgrade().is_none());
}
