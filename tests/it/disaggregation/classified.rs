//! What a request classifier says of a request that two workers share, and what it hears of it.

use std::sync::{Arc, Mutex};

use http::StatusCode;
use pointsman_core::classifier::{Admission, ClassifyRequest, LifecycleEvent, Verdict};
use pointsman_core::policy::OnFailure;
use pointsman_core::queue::{ClassSpec, Profile, ProfileSpec, QueueSettings};
use pointsman_core::router::Policies;
use pointsman_core::testing::{MadeClassifier, builtin, classifier_spec, classifying};

use super::*;

/// The words for what a classifier hears.
type Heard = Arc<Mutex<Vec<String>>>;

/// Requests that ask for no class wait for nobody; the classifier puts them all into one whose
/// requests would wait for a prefill worker with anything to do, and may not.
async fn classify(rig: &Rig) -> Result<Heard> {
    let heard = Heard::default();
    let tells = heard.clone();
    let made = MadeClassifier::new("made", move || {
        let says = |_: &ClassifyRequest<'_>| {
            let policy_class = Some("batch".into());
            Ok(Verdict::Admit(Admission { policy_class, ..Admission::default() }))
        };
        let heard = tells.clone();
        classifying(1, says, move |event, _| {
            let words = match event {
                LifecycleEvent::Sent(_, worker) => format!("sent {worker}"),
                LifecycleEvent::Responding(_) => "responding".to_owned(),
                LifecycleEvent::Completed(..) => "completed".to_owned(),
                LifecycleEvent::Aborted(_, worker) => format!("aborted {worker:?}"),
                _ => return Ok(Vec::new()),
            };
            heard.lock().unwrap().push(words);
            Ok(Vec::new())
        })
    });
    let batch = ClassSpec {
        prefill_busy_threshold: Some(0),
        request_queue_limit_per_worker: Some(0),
        ..ClassSpec::new("batch")
    };
    let spec = ProfileSpec {
        default_policy_family: Some("free".into()),
        policy_classes: vec![ClassSpec::new("free"), batch],
        ..ProfileSpec::default()
    };
    let profile = Profile::new(spec).expect("the profile is in good order");
    let queue = QueueSettings { default: Arc::new(profile), ..QueueSettings::default() };
    let mut policies = Policies { queue: Arc::new(queue), ..builtin("default") };
    policies.catalog.insert_classifier(Arc::new(made))?;
    policies.classifier = Some(classifier_spec("made", OnFailure::Reject));
    rig.server.app().dispatcher.install(policies).await?;
    Ok(heard)
}

#[tokio::test]
async fn a_classifiers_class_holds_for_both_workers() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let rig = plan(protocol, &[Prefill, Decode]).start().await?;
        classify(&rig).await?;
        assert!(rig.public.ask(&ask(true)).await?.is_good());
        rig.wait_for_idle().await?;
        let busy = load(&rig, Role::Prefill, 1, 100).await?;
        let answer = rig.public.ask(&ask(true)).await?;
        let kind = &answer.json()["error"]["type"];
        assert_eq!(
            (answer.status, kind),
            (StatusCode::TOO_MANY_REQUESTS, &json!("queue_rejected"))
        );
        drop(busy);
        assert!(rig.public.ask(&ask(true)).await?.is_good());
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_classifier_hears_that_a_request_is_sent_when_its_prefill_is() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let mut plan = plan(protocol, &[Prefill, Decode]);
        plan.engines[0].prefill_ms = Some(600_000.0);
        let rig = plan.start().await?;
        let heard = classify(&rig).await?;
        let running = sent(&rig, ask(true));
        rig.wait_for("the prefill", async || Ok(rig.engines[0].stats().running == 1)).await?;
        rig.wait_for("the classifier", async || Ok(!heard.lock().unwrap().is_empty())).await?;
        assert_eq!(*heard.lock().unwrap(), ["sent 2/0"], "to whom is to answer");
        drop(running);
        rig.wait_for("the end", async || Ok(heard.lock().unwrap().len() == 2)).await?;
        let end = heard.lock().unwrap()[1].clone();
        assert!(end.starts_with("aborted Some"), "{end}");
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_list_of_more_prompts_than_two_workers_share_is_refused_with_the_limit() -> Result<()> {
    let rig = plan(Sglang, &[Prefill, Decode]).start().await?;
    let prompts = |count: usize| json!({ "model": MODEL, "prompt": vec!["x"; count] });
    let path = "/v1/completions";
    let answer = rig.public.send(Method::POST, path, &[], Some(&prompts(1_025))).await?;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text());
    let message = answer.json()["error"]["message"].to_string();
    assert!(message.contains("1025 prompts") && message.contains("at most 1024"), "{message}");
    assert_eq!(rig.engines.iter().map(|engine| engine.stats().received).sum::<u64>(), 0);
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}
