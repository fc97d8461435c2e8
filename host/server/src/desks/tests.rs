//! Requests at real desks, with classifiers made of closures and a router without a listener.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::classifier::{
    Admission, ClassificationError, ClassifyRequest, LifecycleEvent, Release, Verdict,
};
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank, WorkerTarget};
use pointsman_core::policy::{OnFailure, StageError};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};
use pointsman_core::testing::{MadeClassifier, builtin, classifier_spec, classifying};
use tokio::sync::Notify;

use super::*;
use crate::clock::RouterClock;
use tokio::task::JoinSet;

fn partition() -> PartitionKey {
    PartitionKey { model: "m".into(), routing_group: "default".into(), role: Role::Aggregated }
}

fn request(id: &str) -> RouteRequest {
    RouteRequest::new(id, partition(), 100)
}

fn worker() -> WorkerRank {
    WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) }
}

type Asked = dyn Fn(&ClassifyRequest<'_>) -> Result<Verdict, StageError> + Send + Sync;
type Told = dyn Fn(&LifecycleEvent<'_>) -> Vec<Release> + Send + Sync;

/// Desks of a router with one worker and this classifier, which ticks every ten milliseconds.
fn desks(
    on_failure: OnFailure,
    asked: impl Fn(&ClassifyRequest<'_>) -> Result<Verdict, StageError> + Send + Sync + 'static,
    told: impl Fn(&LifecycleEvent<'_>) -> Vec<Release> + Send + Sync + 'static,
) -> Arc<Desks> {
    let (asked, told): (Arc<Asked>, Arc<Told>) = (Arc::new(asked), Arc::new(told));
    let made = MadeClassifier::new("made", move || {
        let (asked, told) = (asked.clone(), told.clone());
        classifying(100, move |request| asked(request), move |event, _| Ok(told(event))).ticking(10)
    });
    let mut policies = builtin("round-robin");
    policies.catalog.insert_classifier(Arc::new(made)).expect("no built-in is named so");
    let classifier = Some(classifier_spec("made", on_failure));
    let router = Router::new(Policies { classifier, ..policies }, 7);
    router
        .upsert_worker(WorkerSpec::new(WorkerId(1), "http://worker", partition()))
        .expect("it is taken");
    Arc::new(Desks::new(Arc::new(router), Arc::new(RouterClock::start())))
}

fn release(id: &str) -> Release {
    Release { request_id: id.into(), verdict: Verdict::Admit(Admission::default()) }
}

fn admit(_: &ClassifyRequest<'_>) -> Result<Verdict, StageError> {
    Ok(Verdict::Admit(Admission::default()))
}

/// Only `a` is admitted at once.
fn holds_others(request: &ClassifyRequest<'_>) -> Result<Verdict, StageError> {
    if &*request.arrival.request_id == "a" { admit(request) } else { Ok(Verdict::Hold) }
}

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_held_request_waits_as_a_task_until_an_event_lets_it_in() {
    let desks = desks(OnFailure::Default, holds_others, |event| match event {
        LifecycleEvent::Completed("a", Some(5)) => vec![release("b")],
        _ => Vec::new(),
    });
    let first = desks.admit(&mut request("a")).await.expect("let in").expect("classified");
    let mut waits = JoinSet::new();
    waits.spawn({
        let desks = desks.clone();
        async move { desks.admit(&mut request("b")).await.map(|lifecycle| lifecycle.is_some()) }
    });
    let held = || desks.router.partition(&partition()).map(|it| it.desk().counts().held_now);
    tokio::time::timeout(PATIENCE, async {
        while held() != Some(1) {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it is held");
    first.sent(worker());
    first.completed(Some(5));
    let admitted = tokio::time::timeout(PATIENCE, waits.join_next()).await.expect("in time");
    assert_eq!(admitted.expect("it was begun").expect("it runs"), Ok(true));
    desks.stop().await;
}

#[tokio::test]
async fn ticks_come_by_themselves() {
    let desks = desks(OnFailure::Default, holds_others, |event| match event {
        LifecycleEvent::Tick => vec![release("b")],
        _ => Vec::new(),
    });
    let mut held = request("b");
    let admitted = tokio::time::timeout(PATIENCE, desks.admit(&mut held)).await;
    assert!(admitted.expect("in time").expect("let in").is_some());
    desks.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_while_it_is_held_is_gone() {
    let (gone, told) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let (rung, log) = (gone.clone(), told.clone());
    let desks = desks(
        OnFailure::Default,
        |_| Ok(Verdict::Hold),
        move |event| {
            if let LifecycleEvent::Aborted(id, worker) = event {
                log.lock().push(((*id).to_owned(), *worker));
                rung.notify_one();
            }
            Vec::new()
        },
    );
    let mut waits = JoinSet::new();
    waits.spawn({
        let desks = desks.clone();
        async move { desks.admit(&mut request("b")).await.map(drop) }
    });
    let partition = desks.router.partition(&partition()).expect("there is one");
    tokio::time::timeout(PATIENCE, async {
        while partition.desk().counts().held_now == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it is held");
    waits.abort_all();
    tokio::time::timeout(PATIENCE, gone.notified()).await.expect("the classifier hears of it");
    assert_eq!(*told.lock(), [("b".to_owned(), None)]);
    assert_eq!((partition.desk().counts().held_now, partition.desk().live()), (0, 0));
    desks.stop().await;
}

#[tokio::test]
async fn what_the_classifier_says_goes_with_the_request_and_errors_come_back() {
    let target = WorkerTarget { worker_id: WorkerId(1), dp_rank: None };
    let desks = desks(
        OnFailure::Reject,
        move |request| match &*request.arrival.request_id {
            "aimed" => Ok(Verdict::Admit(Admission {
                selection_target: Some(target),
                due_at_ms: Some(900_000),
                scheduling_cost_tokens: Some(7),
                ..Admission::default()
            })),
            "refused" => Ok(Verdict::Reject("no".to_owned())),
            _ => panic!("it can't be read"),
        },
        |_| Vec::new(),
    );
    let mut aimed = request("aimed");
    let lifecycle = desks.admit(&mut aimed).await.expect("let in");
    assert_eq!(aimed.affinity_target, Some(target));
    let terms = &aimed.admission;
    let cost = terms.scheduling_cost_tokens.map(std::num::NonZeroU64::get);
    assert_eq!((terms.due_at_ms, cost, &terms.policy_class), (Some(900_000), Some(7), &None));
    let refused = desks.admit(&mut request("refused")).await.map(drop);
    assert_eq!(refused, Err(ClassificationError::Rejected));
    let twice = desks.admit(&mut request("aimed")).await.map(drop);
    assert_eq!(twice, Err(ClassificationError::Duplicate("aimed".to_owned())));
    let panicked = desks.admit(&mut request("odd")).await.map(drop).expect_err("it panics");
    assert_eq!(panicked.kind(), "request_classifier_panicked");
    drop(lifecycle);
    assert!(desks.admit(&mut request("aimed")).await.is_ok(), "the id is free again");
    desks.stop().await;
}

#[tokio::test]
async fn who_has_no_classifier_is_let_in_and_leaves_no_trace() {
    let router = Router::new(builtin("round-robin"), 7);
    router
        .upsert_worker(WorkerSpec::new(WorkerId(1), "http://worker", partition()))
        .expect("it is taken");
    let desks = Desks::new(Arc::new(router), Arc::new(RouterClock::start()));
    assert!(desks.admit(&mut request("a")).await.expect("let in").is_none());
    let elsewhere = PartitionKey { model: "unknown".into(), ..partition() };
    let mut stranger = RouteRequest::new("b", elsewhere, 1);
    assert!(desks.admit(&mut stranger).await.expect("let in").is_none());
    assert!(desks.counters.lock().is_empty());
    desks.stop().await;
}

#[tokio::test]
async fn a_stopped_router_keeps_nobody_waiting() {
    let desks = desks(OnFailure::Default, |_| Ok(Verdict::Hold), |_| Vec::new());
    let mut waits = JoinSet::new();
    waits.spawn({
        let desks = desks.clone();
        async move { desks.admit(&mut request("b")).await.map(|lifecycle| lifecycle.is_some()) }
    });
    let partition = desks.router.partition(&partition()).expect("there is one");
    tokio::time::timeout(PATIENCE, async {
        while partition.desk().counts().held_now == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it is held");
    desks.stop().await;
    let answer = tokio::time::timeout(PATIENCE, waits.join_next()).await.expect("in time");
    assert_eq!(answer.expect("it was begun").expect("it runs"), Ok(false), "it is let in as it is");
    assert!(desks.admit(&mut request("late")).await.expect("let in").is_none());
}
