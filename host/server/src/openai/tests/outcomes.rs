//! What policies that learn are told of a request's way.

use std::sync::Arc;

use http::StatusCode;
use parking_lot::Mutex;
use pointsman_core::outcome::{DecisionOutcome, Ending, OutcomeEvent};
use pointsman_core::policy::native::Observer;
use pointsman_core::policy::{OnFailure, StageError};
use pointsman_core::testing;

use super::rig::*;
use crate::mock_engine::{FaultKind, Refuse, StreamFault};

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
        assert_eq!(words(&heard.until(ends).await), told, "{status}");
        rig.turn(0, |control| *control = Default::default());
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
