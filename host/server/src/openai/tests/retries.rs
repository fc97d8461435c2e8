//! Workers that don't answer, and who gets the request then.

use std::time::Duration;

use http::StatusCode;
use pointsman_core::fleet::Availability;
use pointsman_core::ids::WorkerId;
use serde_json::json;

use super::rig::*;
use crate::mock_engine::{Cut, FaultKind, Refuse, StreamFault};
use crate::serve::testing::MODEL;

fn availability(rig: &Rig, id: u64) -> Availability {
    rig.server.app().dispatcher.router().worker(WorkerId(id)).unwrap().availability
}

#[tokio::test]
async fn a_request_whose_worker_closes_without_an_answer_is_tried_elsewhere() {
    let rig = Rig::new(2).await;
    rig.turn(0, |control| control.cut_before_headers = Some(Cut::default()));
    for _ in 0..20 {
        let answer = rig.chat(&[], true).await;
        assert!(answer.is_good(), "{}", answer.text());
        assert_eq!(answer.worker(), "2");
    }
    rig.comes_to_rest().await;
    assert_eq!(rig.engines[1].stats().completed, 20);
}

#[tokio::test]
async fn an_answer_that_breaks_before_its_first_byte_is_tried_elsewhere() {
    for kind in [FaultKind::Reset, FaultKind::Close, FaultKind::End] {
        let rig = Rig::new(2).await;
        rig.turn(0, |control| control.stream = Some(StreamFault::new(kind, 0)));
        for _ in 0..8 {
            let answer = rig.chat(&[], true).await;
            assert!(answer.is_good(), "{kind:?}: {}", answer.text());
            assert_eq!(answer.worker(), "2");
        }
        rig.comes_to_rest().await;
    }
}

#[tokio::test]
async fn a_worker_that_is_gone_is_tried_once_and_left_alone() {
    let mut rig = Rig::new(2).await;
    rig.engines.swap_remove(0).shutdown().await;
    for _ in 0..20 {
        let answer = rig.chat(&[], true).await;
        assert!(answer.is_good(), "{}", answer.text());
        assert_eq!(answer.worker(), "2");
    }
    assert_eq!(availability(&rig, 1), Availability::Unhealthy);
    assert!(rig.counted(r#"pointsman_upstream_errors_total{kind="connect"} 1"#));
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn with_nobody_else_a_failure_is_a_typed_error() {
    let mut rig = Rig::new(1).await;
    rig.turn(0, |control| control.cut_before_headers = Some(Cut::default()));
    let answer = rig.chat(&[], true).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(kind_of(&answer), "upstream_closed");
    rig.engines.pop().unwrap().shutdown().await;
    let answer = rig.chat(&[("x-request-id", "mine")], true).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(kind_of(&answer), "upstream_unreachable");
    assert_eq!(answer.header("x-request-id"), "mine");
    // By now it is known that nobody is there.
    let answer = rig.chat(&[], true).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(kind_of(&answer), "no_endpoints");
    assert_eq!(answer.header("retry-after"), "1");
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn a_worker_that_has_too_much_to_do_is_left_alone_and_another_asked() {
    let rig = Rig::new(2).await;
    rig.turn(0, |control| {
        control.refuse = Some(Refuse { retry_after: Some(30), ..Refuse::status(529) });
    });
    for _ in 0..20 {
        let answer = rig.chat(&[], true).await;
        assert!(answer.is_good(), "{}", answer.text());
        assert_eq!(answer.worker(), "2");
    }
    assert_eq!(availability(&rig, 1), Availability::Overloaded);
    assert_eq!(rig.engines[0].stats().received, 1);
    rig.turn(0, |control| control.refuse = None);
    // Two seconds, whatever it asked for.
    eventually(|| availability(&rig, 1) == Availability::Ready).await;
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn with_nobody_else_a_refusal_is_passed_on_as_it_is() {
    let rig = Rig::new(1).await;
    rig.turn(0, |control| {
        control.refuse = Some(Refuse { retry_after: Some(7), ..Refuse::status(503) });
    });
    let answer = rig.chat(&[], true).await;
    let busy = StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!((answer.status, answer.header("retry-after")), (busy, "7"));
    assert_eq!(answer.worker(), "1");
    let answer = rig.chat(&[], true).await;
    assert_eq!(answer.status.as_u16(), 529, "the router knows by now");
    assert_eq!(kind_of(&answer), "all_eligible_workers_overloaded");
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn an_error_that_is_the_requests_own_is_not_tried_elsewhere() {
    let rig = Rig::new(2).await;
    for engine in 0..2 {
        rig.turn(engine, |control| control.refuse = Some(Refuse::status(400)));
    }
    assert_eq!(rig.chat(&[], true).await.status, StatusCode::BAD_REQUEST);
    let received: u64 = rig.engines.iter().map(|engine| engine.stats().received).sum();
    assert_eq!(received, 1);
}

#[tokio::test]
async fn a_pinned_request_stays_where_it_is_pinned_to() {
    let rig = Rig::new(2).await;
    rig.turn(0, |control| control.cut_before_headers = Some(Cut::default()));
    let pin = [("x-dynamo-worker-instance-id", "1")];
    let answer = rig.chat(&pin, true).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(rig.engines[1].stats().received, 0);
    rig.turn(0, |control| control.cut_before_headers = None);
    assert_eq!(rig.chat(&pin, true).await.worker(), "1");
    let answer = rig.chat(&[("x-worker-instance-id", "77")], true).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn a_worker_that_is_silent_costs_its_time_and_is_not_asked_twice() {
    let rig =
        Rig::with(2, |_, config| config.proxy.first_byte_timeout = Duration::from_millis(100))
            .await;
    for engine in 0..2 {
        rig.turn(engine, |control| control.frozen = true);
    }
    let answer = rig.chat(&[], true).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(kind_of(&answer), "upstream_timeout");
    rig.comes_to_rest().await;
    // Headers alone are no answer.
    for engine in 0..2 {
        rig.turn(engine, |control| {
            control.frozen = false;
            control.stream = Some(StreamFault::new(FaultKind::Hang, 0));
        });
    }
    assert_eq!(rig.chat(&[], true).await.status, StatusCode::GATEWAY_TIMEOUT);
    rig.comes_to_rest().await;
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_nobodys_failure() {
    let rig = Rig::new(1).await;
    rig.turn(0, |control| control.close_idle = true);
    for _ in 0..50 {
        let answer = rig.chat(&[], false).await;
        assert!(answer.is_good(), "{}", answer.text());
    }
    assert_eq!(availability(&rig, 1), Availability::Ready);
    rig.turn(0, |control| control.close_idle = false);
    let before = rig.engines[0].stats().connections;
    for _ in 0..50 {
        assert!(rig.chat(&[], false).await.is_good());
    }
    assert!(rig.engines[0].stats().connections <= before + 2, "connections are kept");
}

#[tokio::test]
async fn a_prompt_that_no_engine_took_is_not_predicted_to_be_cached() {
    let predicted = |rig: &Rig| -> usize {
        let partitions = rig.server.app().dispatcher.router().partitions();
        partitions.iter().map(|partition| partition.cache().predicted_stats().held).sum()
    };
    let words = "a prompt of several blocks ".repeat(40);
    let ask = async |rig: &Rig| {
        let body = json!({ "model": MODEL, "prompt": words, "max_tokens": 1 });
        rig.client.post("/v1/completions", &body).await.unwrap()
    };
    for status in [400, 429, 500, 503] {
        let rig = Rig::new(1).await;
        rig.turn(0, |control| control.refuse = Some(Refuse::status(status)));
        let answer = ask(&rig).await;
        assert!(!answer.is_good(), "{status}");
        rig.comes_to_rest().await;
        assert_eq!(predicted(&rig), 0, "{status}");
    }
    let mut rig = Rig::new(1).await;
    rig.engines.pop().unwrap().shutdown().await;
    assert_eq!(ask(&rig).await.status, StatusCode::BAD_GATEWAY);
    rig.comes_to_rest().await;
    assert_eq!(predicted(&rig), 0, "nobody was there");

    let rig = Rig::new(1).await;
    assert!(ask(&rig).await.is_good());
    rig.comes_to_rest().await;
    assert!(predicted(&rig) > 10, "what was computed is");
}
