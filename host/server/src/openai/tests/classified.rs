//! What a request classifier says of requests, and what becomes of it on their way.

use std::sync::Arc;

use pointsman_core::affinity::AffinityMode;
use pointsman_core::classifier::{Admission, Verdict};
use pointsman_core::ids::{WorkerId, WorkerTarget};
use pointsman_core::policy::OnFailure;
use pointsman_core::router::Policies;
use pointsman_core::testing::{MadeClassifier, builtin, classifier_spec, classifying};

use super::rig::*;

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
    let router = rig.server.app().dispatcher.router();
    let mut policies = Policies { settings: router.settings(), ..builtin("default") };
    policies.catalog.insert_classifier(Arc::new(made)).unwrap();
    policies.classifier = Some(classifier_spec("aims", OnFailure::Reject));
    rig.server.app().dispatcher.install(policies).await.unwrap();
    rig
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
