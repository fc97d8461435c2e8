//! Workers that pass their probes and fail their requests.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::iter;
use http::StatusCode;
use pointsman_core::fleet::Availability;
use pointsman_core::ids::WorkerId;

use super::rig::*;
use crate::discovery::WorkerView;
use crate::load_client::LoadClient;
use crate::mock_engine::{Cut, FaultKind, Refuse, StreamFault};

/// Engines that take their time, and a router that asks the one with the least to do.
async fn least_loaded(engines: usize) -> Rig {
    Rig::with(engines, |mock, config| {
        mock.prefill_ms = Some(4.0);
        by(config, "least-loaded");
    })
    .await
}

fn view(rig: &Rig, id: u64) -> WorkerView {
    rig.server.app().workers.worker(WorkerId(id)).unwrap()
}

fn ejections(rig: &Rig) -> u64 {
    rig.server.app().workers.workers().iter().map(|worker| worker.ejections).sum()
}

/// Sends so many requests, eight at a time. Returns how many got a good answer.
async fn load(rig: &Rig, requests: usize) -> usize {
    let sent = iter(0..requests).map(|_| rig.chat(&[], true)).buffer_unordered(8);
    sent.filter(|answer| std::future::ready(answer.is_good())).count().await
}

#[tokio::test]
async fn a_worker_that_fails_at_once_gets_a_small_share_and_comes_back_when_it_works() {
    let rig = least_loaded(4).await;
    rig.turn(0, |control| control.refuse = Some(Refuse::status(500)));
    let good = load(&rig, 400).await;
    let got = rig.engines[0].stats().received;
    assert!(got >= 5, "it was tried: {got}");
    assert!(got < 40 && good > 360, "{got} to the black hole, {good} good");
    let now = view(&rig, 1);
    assert!(now.ejections >= 1);
    let admin = LoadClient::new(rig.server.admin_addr());
    let metrics = admin.get("/metrics").await.unwrap().text();
    let counted = |id: u64, ejections: u64| {
        format!(
            "pointsman_worker_ejections_total{{model=\"m\",role=\"aggregated\",\
             routing_group=\"default\",worker_id=\"{id}\"}} {ejections}"
        )
    };
    // It may have been tried and left out once more between the two looks.
    let counts = [now.ejections, view(&rig, 1).ejections];
    assert!(counts.iter().any(|&count| metrics.contains(&counted(1, count))), "{metrics}");
    assert!(metrics.contains(&counted(2, 0)), "{metrics}");

    rig.turn(0, |control| control.refuse = None);
    let working = async {
        let before = rig.engines[0].stats().completed;
        while rig.engines[0].stats().completed == before {
            assert!(load(&rig, 8).await > 0);
        }
    };
    tokio::time::timeout(PATIENCE, working).await.unwrap();
    rig.comes_to_rest().await;
    let now = view(&rig, 1);
    assert_eq!((now.availability, now.failures_in_a_row), (Availability::Ready, 0));
    assert_eq!(now.reason, None);
    assert_eq!(load(&rig, 40).await, 40);
}

#[tokio::test]
async fn every_way_to_fail_counts_and_says_why() {
    type Switch = fn(&mut crate::mock_engine::Control);
    let ways: [(Switch, &str); 8] = [
        (|control| control.refuse = Some(Refuse::status(500)), "answered 500"),
        (|control| control.refuse = Some(Refuse::status(504)), "answered 504"),
        (
            |control| control.cut_before_headers = Some(Cut::default()),
            "closed the connection without an answer",
        ),
        (
            |control| control.stream = Some(StreamFault::new(FaultKind::Reset, 2)),
            "closed the connection in the middle of an answer",
        ),
        (
            |control| control.stream = Some(StreamFault::new(FaultKind::End, 2)),
            "ended its stream without the terminator",
        ),
        (
            |control| control.stream = Some(StreamFault::new(FaultKind::MalformedChunk, 2)),
            "closed the connection in the middle of an answer",
        ),
        (
            |control| control.stream = Some(StreamFault::new(FaultKind::ErrorEvent, 2)),
            "reported an error within its stream",
        ),
        (
            |control| control.stream = Some(StreamFault::new(FaultKind::End, 0)),
            "ended its stream without an event",
        ),
    ];
    for (switch, why) in ways {
        let rig = Rig::with(2, |_, config| config.proxy.retries = 0).await;
        rig.turn(0, switch);
        let pin = [("x-worker-instance-id", "1")];
        for nth in 1..=5 {
            assert_eq!(view(&rig, 1).availability, Availability::Ready, "{why}: {nth}");
            rig.chat(&pin, true).await;
            rig.comes_to_rest().await;
        }
        let now = view(&rig, 1);
        assert_eq!(now.availability, Availability::Overloaded, "{why}");
        let reason = now.reason.unwrap();
        assert!(reason.starts_with("5 failures in a row") && reason.contains(why), "{reason}");
        assert!(now.overloaded_for_ms.unwrap() <= 1_000);
        let answer = rig.chat(&pin, true).await;
        assert_eq!(kind_of(&answer), "pinned_worker_overloaded");
        let answer = rig.chat(&[], true).await;
        assert!(answer.is_good() && answer.worker() == "2", "{}", answer.text());
    }
}

#[tokio::test]
async fn a_worker_that_is_silent_for_too_long_counts_as_failing() {
    let short = Duration::from_millis(60);
    let rig = Rig::with(2, |_, config| {
        config.proxy.first_byte_timeout = short;
        config.proxy.idle_timeout = short;
        config.health.eject_after = 2;
    })
    .await;
    let pin = [("x-worker-instance-id", "1")];
    rig.turn(0, |control| control.stream = Some(StreamFault::new(FaultKind::Hang, 0)));
    assert_eq!(rig.chat(&pin, true).await.status, StatusCode::GATEWAY_TIMEOUT);
    rig.turn(0, |control| control.stream = Some(StreamFault::new(FaultKind::Hang, 3)));
    assert_eq!(rig.chat(&pin, true).await.status, StatusCode::OK);
    rig.comes_to_rest().await;
    let reason = view(&rig, 1).reason.unwrap();
    assert!(reason.contains("fell silent in an answer"), "{reason}");
}

#[tokio::test]
async fn what_the_request_or_the_load_is_to_blame_for_does_not_count() {
    for status in [400, 404, 422, 501, 508, 529] {
        let rig = Rig::with(2, |_, config| config.proxy.overload_backoff = Duration::ZERO).await;
        for engine in 0..2 {
            rig.turn(engine, |control| control.refuse = Some(Refuse::status(status)));
        }
        for _ in 0..20 {
            rig.chat(&[], true).await;
        }
        rig.comes_to_rest().await;
        assert_eq!(ejections(&rig), 0, "{status}");
    }
}

#[tokio::test]
async fn clients_that_go_away_say_nothing_of_their_worker() {
    let rig = Rig::with(2, |mock, _| mock.decode_ms = Some(1_000.0)).await;
    for _ in 0..20 {
        let mut client = RawClient::post(&rig, "/v1/chat/completions", &chat(true)).await;
        client.reads("data: ").await;
    }
    rig.comes_to_rest().await;
    assert_eq!(ejections(&rig), 0);
    assert!((1..=2).all(|id| view(&rig, id).failures_in_a_row == 0));
}

#[tokio::test]
async fn when_all_fail_nobody_is_left_out() {
    let rig = Rig::with(4, |_, config| by(config, "round-robin")).await;
    for engine in 0..4 {
        rig.turn(engine, |control| control.refuse = Some(Refuse::status(500)));
    }
    for _ in 0..80 {
        let answer = rig.chat(&[], true).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{}", answer.text());
        assert!(!answer.worker().is_empty(), "it comes from a worker");
    }
    assert_eq!(ejections(&rig), 0);
    assert!((1..=4).all(|id| view(&rig, id).availability == Availability::Ready));
}

#[tokio::test]
async fn those_that_were_left_out_first_come_back_when_most_fail() {
    let rig = least_loaded(4).await;
    for engine in 0..4 {
        rig.turn(engine, |control| control.refuse = Some(Refuse::status(500)));
    }
    // One after the other, as if the trouble spread: half of them go, then all are back.
    let mut most = 0;
    for id in 1..=4 {
        for _ in 0..5 {
            let pin = [("x-worker-instance-id", id)].map(|(name, id)| (name, id.to_string()));
            let pin = [(pin[0].0, pin[0].1.as_str())];
            rig.chat(&pin, true).await;
        }
        let out = (1..=4).filter(|&id| view(&rig, id).availability != Availability::Ready).count();
        most = most.max(out);
    }
    assert_eq!(most, 2, "never more than half");
    assert!((1..=4).all(|id| view(&rig, id).availability == Availability::Ready));
    assert_eq!(rig.chat(&[], true).await.status, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn the_only_worker_is_never_left_out() {
    let rig = Rig::new(1).await;
    rig.turn(0, |control| control.refuse = Some(Refuse::status(500)));
    for _ in 0..20 {
        assert_eq!(rig.chat(&[], true).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    }
    assert_eq!(ejections(&rig), 0);
}

#[tokio::test]
async fn who_was_left_out_is_wanted_when_nobody_else_is_there() {
    let mut rig = Rig::new(2).await;
    rig.turn(0, |control| control.refuse = Some(Refuse { times: Some(5), ..Refuse::status(500) }));
    for _ in 0..5 {
        rig.chat(&[("x-worker-instance-id", "1")], true).await;
    }
    assert_eq!(view(&rig, 1).availability, Availability::Overloaded);
    rig.engines.pop().unwrap().shutdown().await;
    // The first finds the other gone, and is tried where it was not to go.
    let answer = rig.chat(&[], true).await;
    assert!(answer.is_good() && answer.worker() == "1", "{}", answer.text());
    assert_eq!(view(&rig, 2).availability, Availability::Unhealthy);
}

#[tokio::test]
async fn one_request_blames_one_worker_however_often_it_is_tried() {
    let rig = Rig::with(4, |_, config| {
        config.proxy.retries = 3;
        config.proxy.overload_backoff = Duration::ZERO;
        config.health.eject_after = 2;
        by(config, "round-robin");
    })
    .await;
    for engine in 0..4 {
        rig.turn(engine, |control| control.refuse = Some(Refuse::status(503)));
    }
    rig.chat(&[], true).await;
    let received: u64 = rig.engines.iter().map(|engine| engine.stats().received).sum();
    assert_eq!(received, 4, "each was asked");
    let failures: u32 = (1..=4).map(|id| view(&rig, id).failures_in_a_row).sum();
    assert_eq!(failures, 1);
}

#[tokio::test]
async fn nobody_is_left_out_when_the_rule_is_off() {
    let rig = Rig::with(2, |_, config| config.health.eject_after = 0).await;
    rig.turn(0, |control| control.refuse = Some(Refuse::status(500)));
    for _ in 0..20 {
        rig.chat(&[("x-worker-instance-id", "1")], true).await;
    }
    assert_eq!(view(&rig, 1).availability, Availability::Ready);
}
