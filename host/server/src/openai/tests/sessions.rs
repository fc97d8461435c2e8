//! Sessions and the workers that they are bound to.

use http::{Method, StatusCode};
use pointsman_core::affinity::{AffinityCounts, AffinityMode, Bound, SessionState};
use pointsman_core::fleet::Availability;
use pointsman_core::ids::WorkerId;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::rig::*;
use crate::load_client::{Answer, LoadClient};
use crate::mock_engine::{Cut, FaultKind, MockConfig, Refuse, StreamFault};
use crate::serve::testing::{MODEL, partition};

const SESSION: (&str, &str) = ("x-dynamo-session-id", "s");

/// The same with sessions that are bound for a minute.
async fn rig(engines: usize, mode: AffinityMode) -> Rig {
    rig_of(engines, mode, |_| {}).await
}

async fn rig_of(engines: usize, mode: AffinityMode, change: fn(&mut MockConfig)) -> Rig {
    Rig::with(engines, move |mock, config| {
        change(mock);
        let settings = std::sync::Arc::make_mut(&mut config.settings);
        settings.router_session_affinity_ttl_secs = Some(60);
        settings.router_session_affinity_mode = mode;
    })
    .await
}

async fn ask(rig: &Rig, headers: &[(&str, &str)]) -> Answer {
    rig.chat(headers, true).await
}

/// What the partition's one session is bound to.
fn bound(rig: &Rig) -> Option<u64> {
    let (sessions, _) = affinity(rig).list(0, 9, 0);
    assert!(sessions.len() <= 1, "{sessions:?}");
    match sessions.first()?.state {
        SessionState::Bound { bound: Bound { worker, .. } } => Some(worker.worker_id.0),
        SessionState::Initializing { .. } => None,
    }
}

fn affinity(rig: &Rig) -> std::sync::Arc<pointsman_core::affinity::Affinity> {
    let found = rig.server.app().dispatcher.router().partition(&partition());
    found.unwrap().affinity().clone()
}

fn counts(rig: &Rig) -> AffinityCounts {
    affinity(rig).counts()
}

fn worker(answer: &Answer) -> u64 {
    assert!(answer.is_good(), "{} {}", answer.status, answer.text());
    answer.worker().parse().unwrap()
}

/// The engine of a worker does something else from now on.
fn turn(rig: &Rig, worker: u64, switch: impl FnOnce(&mut crate::mock_engine::Control)) {
    rig.turn(usize::try_from(worker).unwrap() - 1, switch);
}

/// No request of any session is left, and no booking.
async fn comes_to_rest(rig: &Rig) {
    rig.comes_to_rest().await;
    let at_rest = || {
        let (sessions, _) = affinity(rig).list(0, 1_000, 0);
        sessions.iter().all(|session| session.active_requests == 0)
    };
    eventually(at_rest).await;
}

#[tokio::test]
async fn a_session_stays_with_the_worker_that_answered_it_first() {
    for mode in [AffinityMode::Hard, AffinityMode::Soft] {
        let rig = rig(4, mode).await;
        let first = worker(&ask(&rig, &[SESSION]).await);
        assert_eq!(bound(&rig), Some(first));
        for _ in 0..8 {
            // Others would be less busy, and without a session they are asked.
            assert_eq!(worker(&ask(&rig, &[SESSION]).await), first);
            worker(&ask(&rig, &[]).await);
        }
        let counts = counts(&rig);
        assert_eq!((counts.bound, counts.hits, counts.rebound), (1, 8, 0));
        comes_to_rest(&rig).await;
    }
}

#[tokio::test]
async fn a_first_request_that_fails_before_its_answer_leaves_no_binding() {
    let rig = rig(1, AffinityMode::Hard).await;
    rig.turn(0, |control| control.cut_before_headers = Some(Cut::default()));
    assert_eq!(ask(&rig, &[SESSION]).await.status, StatusCode::BAD_GATEWAY);
    assert_eq!(affinity(&rig).len(), 0);
    rig.turn(0, |control| {
        control.cut_before_headers = None;
        control.refuse = Some(Refuse::status(400));
    });
    // An answer to another question is none.
    assert_eq!(ask(&rig, &[SESSION]).await.status, StatusCode::BAD_REQUEST);
    comes_to_rest(&rig).await;
    assert_eq!(affinity(&rig).len(), 0);
    rig.turn(0, |control| {
        control.refuse = None;
        control.stream = Some(StreamFault::new(FaultKind::Close, 0));
    });
    assert!(!ask(&rig, &[SESSION]).await.is_good());
    assert_eq!((affinity(&rig).len(), counts(&rig).given_up), (0, 3));
    comes_to_rest(&rig).await;
}

#[tokio::test]
async fn a_request_that_is_tried_elsewhere_takes_its_session_along() {
    for mode in [AffinityMode::Hard, AffinityMode::Soft] {
        let rig = rig(2, mode).await;
        rig.turn(0, |control| control.cut_before_headers = Some(Cut::default()));
        let mut asked = 0;
        // Until one of them came to the broken worker first.
        while rig.engines[0].stats().received == 0 {
            assert!(asked < 200, "the first engine is never asked");
            assert_eq!(worker(&ask(&rig, &[SESSION]).await), 2);
            assert_eq!(bound(&rig), Some(2));
            assert_eq!(affinity(&rig).end("s"), 1);
            asked += 1;
        }
        comes_to_rest(&rig).await;
    }
}

#[tokio::test]
async fn a_soft_binding_moves_off_an_overloaded_worker_once_another_has_begun_to_answer() {
    let rig = rig(2, AffinityMode::Soft).await;
    let first = worker(&ask(&rig, &[SESSION]).await);
    let other = 3 - first;
    // The other can't answer either: the session stays where it was.
    for id in [first, other] {
        turn(&rig, id, |control| control.refuse = Some(Refuse::status(503)));
    }
    assert_eq!(ask(&rig, &[SESSION]).await.status, StatusCode::SERVICE_UNAVAILABLE);
    comes_to_rest(&rig).await;
    assert_eq!(bound(&rig), Some(first));
    turn(&rig, other, |control| control.refuse = None);
    let router = rig.server.app().dispatcher.router();
    eventually(|| router.worker(WorkerId(other)).unwrap().availability == Availability::Ready)
        .await;
    assert_eq!(worker(&ask(&rig, &[SESSION]).await), other);
    assert_eq!(bound(&rig), Some(other));
    turn(&rig, first, |control| control.refuse = None);
    eventually(|| router.worker(WorkerId(first)).unwrap().availability == Availability::Ready)
        .await;
    assert_eq!(worker(&ask(&rig, &[SESSION]).await), other, "it stays where it went");
    assert_eq!(counts(&rig).rebound, 1);
    comes_to_rest(&rig).await;
}

#[tokio::test]
async fn a_hard_binding_holds_while_its_worker_only_has_too_much_to_do() {
    let rig = rig(2, AffinityMode::Hard).await;
    let first = worker(&ask(&rig, &[SESSION]).await);
    turn(&rig, first, |control| control.refuse = Some(Refuse::status(503)));
    let answer = ask(&rig, &[SESSION]).await;
    assert_eq!(
        (answer.status, answer.worker()),
        (StatusCode::SERVICE_UNAVAILABLE, &*first.to_string())
    );
    let answer = ask(&rig, &[SESSION]).await;
    assert_eq!(answer.status.as_u16(), 529, "the router knows by now");
    assert_eq!(kind_of(&answer), "pinned_worker_overloaded");
    assert_eq!(bound(&rig), Some(first));
    turn(&rig, first, |control| control.refuse = None);
    let router = rig.server.app().dispatcher.router();
    eventually(|| router.worker(WorkerId(first)).unwrap().availability == Availability::Ready)
        .await;
    assert_eq!(worker(&ask(&rig, &[SESSION]).await), first);
    comes_to_rest(&rig).await;
}

#[tokio::test]
async fn a_hard_binding_to_a_worker_that_is_gone_is_lost_once_and_made_anew() {
    let mut rig = rig(3, AffinityMode::Hard).await;
    let first = worker(&ask(&rig, &[SESSION]).await);
    rig.engines.remove(usize::try_from(first).unwrap() - 1).shutdown().await;
    // Nobody knows until a request finds nobody there.
    let second = worker(&ask(&rig, &[SESSION]).await);
    assert_ne!(second, first);
    assert_eq!(worker(&ask(&rig, &[SESSION]).await), second);
    let after = counts(&rig);
    assert_eq!((after.invalidated, after.rebound, after.bound), (1, 1, 1));
    // One that is let go is lost to the next request, whatever it may still be at.
    let admin = LoadClient::new(rig.server.admin_addr());
    let path = format!("/v1/workers/{second}");
    assert!(admin.send(Method::DELETE, &path, &[], None).await.unwrap().status.is_success());
    let third = worker(&ask(&rig, &[SESSION]).await);
    assert!(third != first && third != second);
    assert_eq!(bound(&rig), Some(third));
    assert_eq!(counts(&rig).invalidated, 2);
    comes_to_rest(&rig).await;
}

#[tokio::test]
async fn a_worker_that_begins_anew_has_lost_its_sessions() {
    for mode in [AffinityMode::Hard, AffinityMode::Soft] {
        let rig = rig(1, mode).await;
        assert_eq!(worker(&ask(&rig, &[SESSION]).await), 1);
        let admin = LoadClient::new(rig.server.admin_addr());
        let described = json!({ "worker_id": 1, "endpoint": rig.engines[0].url(), "model": MODEL,
            "block_size": 32 });
        assert!(admin.post("/v1/workers", &described).await.unwrap().status.is_success());
        assert_eq!(worker(&ask(&rig, &[SESSION]).await), 1);
        let after = counts(&rig);
        assert_eq!((after.invalidated, after.rebound, after.hits), (1, 1, 0), "{mode:?}");
        comes_to_rest(&rig).await;
    }
}

#[tokio::test]
async fn a_pin_wins_over_a_soft_binding_and_is_refused_by_a_hard_one() {
    let pin = |id: u64| ("x-dynamo-worker-instance-id", if id == 1 { "1" } else { "2" });
    let soft = rig(2, AffinityMode::Soft).await;
    let first = worker(&ask(&soft, &[SESSION]).await);
    assert_eq!(worker(&ask(&soft, &[SESSION, pin(3 - first)]).await), 3 - first);
    assert_eq!(bound(&soft), Some(3 - first), "it follows");
    comes_to_rest(&soft).await;

    let hard = rig(2, AffinityMode::Hard).await;
    let first = worker(&ask(&hard, &[SESSION, pin(2)]).await);
    assert_eq!((first, bound(&hard)), (2, Some(2)), "a pin makes a binding as any request");
    let answer = ask(&hard, &[SESSION, pin(1)]).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    let error = error_of(&answer);
    assert_eq!(error["type"], "session_affinity_conflict");
    assert_eq!(error["param"], "x-dynamo-worker-instance-id");
    assert_eq!(worker(&ask(&hard, &[SESSION, pin(2)]).await), 2);
    assert_eq!(counts(&hard).conflicts, 1);
    comes_to_rest(&hard).await;
}

#[tokio::test]
async fn requests_of_a_session_that_come_together_wait_for_the_first_and_follow_it() {
    for mode in [AffinityMode::Hard, AffinityMode::Soft] {
        let rig = rig_of(4, mode, |mock| mock.prefill_ms = Some(50.0)).await;
        let mut together = JoinSet::new();
        for _ in 0..12 {
            let client = rig.client.clone();
            let send = async move {
                let path = "/v1/chat/completions";
                client.send(Method::POST, path, &[SESSION], Some(&chat(true))).await.unwrap()
            };
            together.spawn(send);
        }
        let workers: std::collections::BTreeSet<u64> =
            together.join_all().await.iter().map(worker).collect();
        assert_eq!(workers.len(), 1, "{mode:?}: {workers:?}");
        let after = counts(&rig);
        assert_eq!((after.bound, after.hits), (1, 11));
        comes_to_rest(&rig).await;
    }
}

#[tokio::test]
async fn who_waits_for_a_session_gives_up_when_its_time_is_over_and_goes_on_when_the_first_is_gone()
{
    let rig = Rig::with(1, |_, config| {
        config.proxy.total_timeout = std::time::Duration::from_secs(1);
        let settings = std::sync::Arc::make_mut(&mut config.settings);
        settings.router_session_affinity_ttl_secs = Some(60);
    })
    .await;
    rig.turn(0, |control| control.hang_before_headers = true);
    let mut headed = chat(true);
    headed["session_id"] = json!("s");
    let mut leads = RawClient::post(&rig, "/v1/chat/completions", &headed).await;
    eventually(|| rig.engines[0].stats().received == 1).await;
    let mut waits = RawClient::post(&rig, "/v1/chat/completions", &headed).await;
    eventually(|| counts(&rig).waited == 1).await;
    leads.reads("upstream_timeout").await;
    waits.reads("504").await;
    comes_to_rest(&rig).await;
    assert_eq!(affinity(&rig).len(), 0);
}

#[tokio::test]
async fn subagents_of_one_session_go_together_and_its_last_request_ends_it() {
    let rig = rig(4, AffinityMode::Hard).await;
    let parent = ("x-dynamo-parent-session-id", "p");
    let child = |id: &'static str| [("x-dynamo-session-id", id), parent];
    let first = worker(&ask(&rig, &child("a")).await);
    for id in ["b", "c", "d", "e"] {
        assert_eq!(worker(&ask(&rig, &child(id)).await), first);
    }
    assert_eq!(affinity(&rig).len(), 1);
    worker(&ask(&rig, &[SESSION]).await);
    assert_eq!(affinity(&rig).len(), 2);
    worker(&ask(&rig, &[SESSION, ("x-dynamo-session-final", "true")]).await);
    comes_to_rest(&rig).await;
    assert_eq!((affinity(&rig).len(), counts(&rig).ended), (1, 1));
}

#[tokio::test]
async fn without_a_time_to_live_no_session_is_bound() {
    let rig = Rig::new(2).await;
    for _ in 0..4 {
        worker(&ask(&rig, &[SESSION]).await);
    }
    assert_eq!((affinity(&rig).len(), counts(&rig)), (0, AffinityCounts::default()));
}

#[tokio::test]
async fn operators_see_sessions_a_page_at_a_time_and_end_them() {
    let rig = rig(2, AffinityMode::Soft).await;
    let admin = LoadClient::new(rig.server.admin_addr());
    let get = async |path: &str| admin.get(path).await.unwrap().json();
    for id in ["a", "b", "c"] {
        worker(&ask(&rig, &[("x-session-id", id)]).await);
    }
    comes_to_rest(&rig).await;
    let shown = get("/v1/sessions?limit=2").await;
    assert_eq!(shown["router_session_affinity_ttl_secs"], 60);
    assert_eq!(shown["router_session_affinity_mode"], "soft");
    let here = &shown["partitions"][0];
    assert_eq!((&here["model"], &here["bindings"]), (&json!(MODEL), &json!(3)));
    assert_eq!(here["counts"]["bound"], 3);
    assert_eq!(here["sessions"].as_array().map(Vec::len), Some(2));
    let path = format!("/v1/sessions?limit=2&from={}&model={MODEL}", here["next"]);
    let rest = get(&path).await["partitions"][0].take();
    assert_eq!((&rest["sessions"][0]["id"], &rest["next"]), (&json!("c"), &Value::Null));
    assert_eq!(rest["sessions"][0]["state"], "bound");
    assert_eq!(get("/v1/sessions?model=other").await["partitions"], json!([]));
    // The dry run goes by what the session is bound to, and changes nothing.
    let target = rest["sessions"][0]["worker_id"].clone();
    let facts = json!({ "model": MODEL, "prompt_tokens": 10, "session_id": "c" });
    for _ in 0..8 {
        let tried = admin.post("/v1/route", &facts).await.unwrap().json();
        assert_eq!(tried["worker_id"], target, "{tried}");
    }
    let ended = admin.send(Method::DELETE, "/v1/sessions/a", &[], None).await.unwrap();
    assert_eq!(ended.json(), json!({ "id": "a", "ended": 1 }));
    let gone = admin.send(Method::DELETE, "/v1/sessions/a", &[], None).await.unwrap();
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    assert_eq!(admin.get("/v1/sessions?from=x").await.unwrap().status, StatusCode::BAD_REQUEST);
    let metrics = admin.get("/metrics").await.unwrap().text();
    let line =
        r#"pointsman_session_bindings{model="m",role="aggregated",routing_group="default"} 2"#;
    assert!(metrics.lines().any(|l| l == line), "{metrics}");
    assert!(metrics.contains(r#"pointsman_session_affinity_total{event="bound","#));
}

#[tokio::test]
async fn who_waits_for_a_binding_is_told_when_its_time_is_over() {
    for mode in [AffinityMode::Hard, AffinityMode::Soft] {
        let rig = rig(2, mode).await;
        (0..2).for_each(|engine| rig.turn(engine, |control| control.frozen = true));
        let (client, mut leads) = (rig.client.clone(), JoinSet::new());
        leads.spawn(async move {
            let body = chat(true);
            client.send(Method::POST, "/v1/chat/completions", &[SESSION], Some(&body)).await
        });
        eventually(|| rig.bookings() == 1).await;
        let late = ask(&rig, &[SESSION, ("x-pointsman-due-ms", "20")]).await;
        assert_eq!(late.status, StatusCode::GATEWAY_TIMEOUT, "{}", late.text());
        assert_eq!(kind_of(&late), "deadline_exceeded");
        (0..2).for_each(|engine| rig.turn(engine, |control| control.frozen = false));
        assert!(leads.join_next().await.unwrap().unwrap().unwrap().is_good());
        comes_to_rest(&rig).await;
    }
}
