//! What policies that learn are told of a request's way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use pointsman_core::outcome::{DecisionOutcome, Ending, OutcomeEvent};
use pointsman_core::policy::native::Observer;
use pointsman_core::policy::{OnFailure, StageError};
use pointsman_core::testing;

use super::liars::before;
use super::rig::*;
use crate::load_client::LoadClient;
use crate::mock_engine::{Control, Cut, FaultKind, Refuse, StreamFault};
use crate::openai::upstream::Failure;
use crate::serve::Server;
use crate::serve::testing::config;

/// What a policy has heard.
#[derive(Clone, Debug, Default)]
struct Heard(Arc<Mutex<Vec<DecisionOutcome>>>);

impl Observer for Heard {
    fn observe(&mut self, outcomes: &[DecisionOutcome]) -> Result<(), StageError> {
        self.0.lock().extend_from_slice(outcomes);
        Ok(())
    }
}

impl Heard {
    /// Has a policy decide that takes the first worker, and hears of all.
    async fn decides(&self, rig: &Rig) {
        let heard = self.clone();
        let policies = testing::policies(OnFailure::Reject, move || {
            testing::native()
                .picker("first", testing::picker(&[], |_, _, _| Ok(0)))
                .observer(heard.clone())
        });
        rig.server.app().dispatcher.install(policies).await.unwrap();
    }

    /// The events since the last time, once there are so many ends.
    async fn until(&self, ends: usize) -> Vec<DecisionOutcome> {
        let seen = || {
            self.0.lock().iter().filter(|one| matches!(one.event, OutcomeEvent::Ended(_))).count()
        };
        eventually(|| seen() >= ends).await;
        std::mem::take(&mut *self.0.lock())
    }
}

fn words(outcomes: &[DecisionOutcome]) -> Vec<String> {
    let word = |one: &DecisionOutcome| match &one.event {
        OutcomeEvent::Dispatched => "dispatched".to_owned(),
        OutcomeEvent::FirstToken => "first token".to_owned(),
        OutcomeEvent::Ended(Ending::Completed { output_tokens }) => {
            format!("completed {output_tokens}")
        }
        OutcomeEvent::Ended(Ending::Failed { reason }) => format!("failed {reason}"),
        OutcomeEvent::Ended(Ending::Cancelled) => "cancelled".to_owned(),
    };
    outcomes.iter().map(word).collect()
}

#[tokio::test]
async fn an_answer_that_ends_well_is_told_from_its_dispatch_to_its_tokens() {
    let rig = Rig::new(1).await;
    let heard = Heard::default();
    heard.decides(&rig).await;
    assert!(rig.chat(&[], false).await.is_good());
    let told = heard.until(1).await;
    assert_eq!(words(&told), ["dispatched", "first token", "completed 8"]);
    assert!(told.is_sorted_by_key(|one| one.at_ms), "{told:?}");
    let router = rig.server.app().dispatcher.router();
    let receipt = rig.server.app().metrics.receipts().recent(1).remove(0);
    assert!(told.iter().all(|one| one.decision_id == receipt.receipt().decision_id));
    // A stream counts its tokens only where the client asks for that.
    assert!(rig.chat(&[], true).await.is_good());
    assert_eq!(words(&heard.until(1).await), ["dispatched", "first token", "completed 0"]);
    // It is counted once all were told.
    eventually(|| router.partitions()[0].counts().outcomes_told >= 6).await;
    let counts = router.partitions()[0].counts();
    assert_eq!((counts.outcomes_told, counts.outcomes_lost), (6, 0));
    let told = r#"pointsman_outcome_batches_total{outcome="good",policy="mine"}"#;
    assert!(rig.server.app().metrics.encode().contains(told));
}

#[tokio::test]
async fn each_try_that_fails_is_told_with_its_reason() {
    let rig = Rig::new(2).await;
    let heard = Heard::default();
    heard.decides(&rig).await;
    for (status, told) in [
        (400, vec!["dispatched", "failed status 400"]),
        (500, vec!["dispatched", "failed status 500"]),
        // Tried elsewhere.
        (503, vec!["dispatched", "failed status 503", "dispatched", "first token", "completed 8"]),
    ] {
        let refuse = Refuse { times: Some(1), ..Refuse::status(status) };
        rig.turn(0, |control| control.refuse = Some(refuse));
        rig.chat(&[], false).await;
        let ends = if status == 503 { 2 } else { 1 };
        let outcomes = heard.until(ends).await;
        assert_eq!(words(&outcomes), told, "{status}");
        // Elsewhere it is another decision.
        let of = |one: &DecisionOutcome| (one.decision_id, one.worker);
        let (first, last) = (of(&outcomes[0]), of(&outcomes[told.len() - 1]));
        assert_eq!((first.0 != last.0, first.1 != last.1), (ends == 2, ends == 2), "{outcomes:?}");
        rig.turn(0, |control| *control = Default::default());
    }
}

#[tokio::test]
async fn what_there_is_no_answer_of_is_told_in_the_words_of_the_contract() {
    let page = include_str!("../../../../../wit/README.md");
    let (_, after) = page.split_once("The reason of `failed` is").unwrap();
    let (listed, _) = after.split_once("\n- ").unwrap();
    let short = Duration::from_millis(80);
    let begun = |kind| Some(StreamFault::new(kind, 3));
    type Switch = Box<dyn FnOnce(&mut Control)>;
    let faults: [(&str, Switch); 5] = [
        ("closed", Box::new(|on| on.cut_before_headers = Some(Cut::default()))),
        ("timed_out", Box::new(|on| on.hang_before_headers = true)),
        ("timed_out", Box::new(move |on| on.stream = begun(FaultKind::Hang))),
        ("truncated", Box::new(move |on| on.stream = begun(FaultKind::Reset))),
        ("worker_error", Box::new(move |on| on.stream = begun(FaultKind::ErrorEvent))),
    ];
    let check = async |rig: &Rig, reason: &str| {
        let heard = Heard::default();
        heard.decides(rig).await;
        rig.chat(&[], true).await;
        let told = words(&heard.until(1).await);
        assert_eq!(told.last(), Some(&format!("failed {reason}")), "{told:?}");
        assert!(listed.contains(&format!("`{reason}`")), "{reason} isn't on the page");
    };
    for (reason, switch) in faults {
        let rig = Rig::with(1, |_, config| {
            config.proxy.first_byte_timeout = short;
            config.proxy.idle_timeout = short;
        })
        .await;
        rig.turn(0, switch);
        check(&rig, reason).await;
    }
    let (rig, _worker) = before(&[b"not HTTP at all\r\n\r\n"]).await;
    check(&rig, "garbled").await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start(config(&[format!("http://{nobody}")]), None).await.unwrap();
    let client = LoadClient::new(server.public_addr());
    check(&Rig { engines: Vec::new(), server, client }, "connect").await;
    // What no rig brings about.
    let ours = io::Error::from(io::ErrorKind::OutOfMemory);
    let rare = [Failure::Endpoint, Failure::Exhausted(ours), Failure::Unusable("")];
    for (failure, reason) in rare.iter().zip(["endpoint", "exhausted", "unusable"]) {
        assert_eq!(failure.kind(), reason);
        assert!(listed.contains(&format!("`{reason}`")), "{reason} isn't on the page");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_and_a_client_that_goes_are_told_apart() {
    let rig = Rig::new(1).await;
    let heard = Heard::default();
    heard.decides(&rig).await;
    rig.turn(0, |control| {
        control.stream = Some(StreamFault::new(FaultKind::Close, 2));
    });
    let broken = rig.chat(&[], true).await;
    assert_eq!(broken.status, StatusCode::OK);
    assert_eq!(words(&heard.until(1).await), ["dispatched", "first token", "failed truncated"]);
    rig.turn(0, |control| {
        *control = Default::default();
        control.hang_before_headers = true;
    });
    let received = rig.engines[0].stats().received;
    let client = RawClient::post(&rig, "/v1/chat/completions", &chat(true)).await;
    eventually(|| rig.engines[0].stats().received > received).await;
    drop(client);
    assert_eq!(words(&heard.until(1).await), ["dispatched", "cancelled"]);
    rig.comes_to_rest().await;
}
