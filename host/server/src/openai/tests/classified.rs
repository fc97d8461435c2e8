//! What a request classifier says of requests, and what becomes of it on their way.

use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_core::affinity::AffinityMode;
use pointsman_core::classifier::{Admission, LifecycleEvent, Verdict};
use pointsman_core::ids::{WorkerId, WorkerTarget};
use pointsman_core::policy::OnFailure;
use pointsman_core::router::Policies;
use pointsman_core::testing::{self, MadeClassifier, builtin, classifier_spec, classifying};

use super::rig::*;
use crate::mock_engine::Refuse;

/// A router whose classifier aims the requests of session `aimed` at a worker, and no others.
async fn rig(engines: usize, at: u64, mode: Option<AffinityMode>) -> Rig {
    let rig = Rig::with(engines, move |_, config| {
        let settings = Arc::make_mut(&mut config.settings);
        settings.router_session_affinity_ttl_secs = mode.map(|_| 60);
        settings.router_session_affinity_mode = mode.unwrap_or_default();
    })
    .await;
    let target = WorkerTarget { worker_id: WorkerId(at), dp_rank: None };
    let made = MadeClassifier::new("aims", move || {
        let classify = move |request: &pointsman_core::classifier::ClassifyRequest<'_>| {
            let session = request.arrival.session.as_ref();
            let aimed = session.is_some_and(|session| &*session.id == "aimed");
            let selection_target = aimed.then_some(target);
            Ok(Verdict::Admit(Admission { selection_target, ..Admission::default() }))
        };
        classifying(1, classify, |_, _| Ok(Vec::new()))
    });
    install(&rig, builtin("default"), "aims", made).await;
    rig
}

/// Has a classifier stand before these policies.
async fn install(rig: &Rig, mut policies: Policies, name: &str, made: MadeClassifier) {
    let dispatcher = &rig.server.app().dispatcher;
    policies.settings = dispatcher.router().settings();
    policies.catalog.insert_classifier(Arc::new(made)).unwrap();
    policies.classifier = Some(classifier_spec(name, OnFailure::Reject));
    dispatcher.install(policies).await.unwrap();
}

#[tokio::test]
async fn a_classifiers_target_reaches_the_policy_whatever_the_session_is_bound_to() {
    for mode in [None, Some(AffinityMode::Soft)] {
        for at in 1..=3 {
            let rig = rig(3, at, mode).await;
            for _ in 0..4 {
                let answer = rig.chat(&[("x-dynamo-session-id", "aimed")], true).await;
                assert!(answer.is_good(), "{} {}", answer.status, answer.text());
                assert_eq!(answer.worker(), at.to_string(), "{mode:?}");
                // Others are none of its, and keep the workers even.
                assert!(rig.chat(&[("x-dynamo-session-id", "other")], true).await.is_good());
            }
            rig.comes_to_rest().await;
        }
    }
}

#[tokio::test]
async fn a_hard_binding_and_a_clients_pin_go_before_a_classifiers_target() {
    let hard = rig(3, 2, Some(AffinityMode::Hard)).await;
    let pin = ("x-worker-instance-id", "3");
    let pinned = hard.chat(&[("x-dynamo-session-id", "aimed"), pin], true).await;
    assert_eq!(pinned.worker(), "3", "{}", pinned.text());
    let bound = hard.chat(&[("x-dynamo-session-id", "aimed")], true).await;
    assert_eq!(bound.worker(), "3", "{}", bound.text());
    hard.comes_to_rest().await;
    let unbound = rig(3, 2, None).await;
    let pinned = unbound.chat(&[("x-dynamo-session-id", "aimed"), pin], true).await;
    assert_eq!(pinned.worker(), "3", "{}", pinned.text());
    unbound.comes_to_rest().await;
}

/// What a classifier hears of requests' ends, in words.
async fn hears(rig: &Rig) -> Arc<Mutex<Vec<String>>> {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = heard.clone();
    let made = MadeClassifier::new("hears", move || {
        let told = told.clone();
        let on_event = move |event: &LifecycleEvent<'_>, _| {
            let words = match event {
                LifecycleEvent::Sent(_, worker) => format!("sent {}", worker.worker_id),
                LifecycleEvent::Responding(_) => "responding".to_owned(),
                LifecycleEvent::Completed(_, tokens) => format!("completed {tokens:?}"),
                LifecycleEvent::Aborted(_, worker) => {
                    format!("aborted {:?}", worker.map(|worker| worker.worker_id.0))
                }
                _ => return Ok(Vec::new()),
            };
            told.lock().push(words);
            Ok(Vec::new())
        };
        classifying(0, |_| Ok(Verdict::Admit(Admission::default())), on_event)
    });
    let policies = testing::policies(OnFailure::Reject, || {
        testing::native().picker("first", testing::picker(&[], |_, _, _| Ok(0)))
    });
    install(rig, policies, "hears", made).await;
    heard
}

#[tokio::test]
async fn a_classifier_hears_of_each_try_and_of_the_tokens_that_the_engine_counted() {
    let rig = Rig::new(2).await;
    let heard = hears(&rig).await;
    let ends = |words: &[String]| {
        words.iter().any(|word| word.starts_with("completed") || word.starts_with("aborted"))
    };
    let until_end = async || {
        eventually(|| ends(&heard.lock())).await;
        std::mem::take(&mut *heard.lock())
    };
    let answer = rig.chat(&[], false).await;
    let usage = &answer.json()["usage"];
    let tokens = usage["total_tokens"].as_u64().unwrap();
    let completed = format!("completed Some({tokens})");
    assert_eq!(until_end().await, ["sent 1", "responding", &completed]);
    // A stream counts its tokens only where the client asks for that.
    assert!(rig.chat(&[], true).await.is_good());
    assert_eq!(until_end().await, ["sent 1", "responding", "completed None"]);
    for (status, told) in [
        // A status that isn't a success is no end that went well, whoever is to blame.
        (400, ["sent 1", "aborted Some(1)"].as_slice()),
        (500, &["sent 1", "aborted Some(1)"]),
        (503, &["sent 1", "sent 2", "responding", &completed]),
    ] {
        let refuse = Refuse { times: Some(1), ..Refuse::status(status) };
        rig.turn(0, |control| control.refuse = Some(refuse));
        rig.chat(&[], false).await;
        assert_eq!(until_end().await, told, "{status}");
        rig.turn(0, |control| *control = Default::default());
    }
    rig.comes_to_rest().await;
}
