//! Prompts that make no difference to a decision are measured only; all else that a request says is
//! read as ever, and whoever goes by prompts has them read.

use std::sync::Arc;

use http::{Method, StatusCode};
use parking_lot::Mutex;
use pointsman_core::affinity::AffinityMode;
use pointsman_core::classifier::{Admission, ClassifyRequest, Verdict};
use pointsman_core::ids::{PartitionKey, Role};
use pointsman_core::policy::OnFailure;
use pointsman_core::policy::selection::{CanarySpec, InstanceSpec, Rollout, ShadowSpec};
use pointsman_core::queue::{Profile, QueuePolicy, QueueSettings};
use pointsman_core::router::Policies;
use pointsman_core::testing::{MadeClassifier, classifier_spec, classifying};
use serde_json::{Value, json};

use super::rig::*;
use crate::config::Config;
use crate::load_client::Answer;
use crate::serve::testing::MODEL;
use crate::telemetry::Record;

/// A router that takes turns.
async fn rig(engines: usize, change: impl Fn(&mut Config)) -> Rig {
    Rig::with(engines, |_, config| {
        by(config, "round-robin");
        change(config);
    })
    .await
}

fn completion(prompt: impl Into<Value>) -> Value {
    json!({ "model": MODEL, "prompt": prompt.into(), "max_tokens": 2 })
}

async fn ask(rig: &Rig, headers: &[(&str, &str)], body: &Value) -> Answer {
    rig.client.send(Method::POST, "/v1/completions", headers, Some(body)).await.unwrap()
}

/// The prompts that were looked into.
fn read(rig: &Rig) -> bool {
    rig.server.app().metrics.encode().contains("pointsman_prompts_total{")
}

fn latest(rig: &Rig) -> Value {
    let latest = rig.server.app().metrics.receipts().recent(1);
    serde_json::to_value::<&Record>(&latest[0]).unwrap()
}

#[tokio::test]
async fn a_prompt_that_nobody_goes_by_is_measured_and_not_looked_into() {
    let rig = rig(2, |_| {}).await;
    for (prompt, tokens, exact) in [
        (json!("x".repeat(400)), 100, false),
        (json!((0..50).collect::<Vec<u32>>()), 50, true),
        (json!([vec![1; 20], vec![2; 30]]), 50, true),
    ] {
        let answer = ask(&rig, &[], &completion(prompt)).await;
        assert!(answer.is_good(), "{}", answer.text());
        let latest = latest(&rig);
        assert_eq!((&latest["prompt_tokens"], &latest["hosted"]), (&json!(tokens), &json!(true)));
        assert_eq!(latest["prompt_tokens_exact"], exact);
        assert_eq!(latest["prompt_source"], Value::Null);
        // What the engine says of it is told as ever, and compared with nothing.
        assert!(latest["reported_prompt_tokens"].is_u64(), "{latest}");
        assert!(!answer.headers.contains_key("x-pointsman-cached-tokens"));
    }
    let metrics = rig.server.app().metrics.encode();
    assert!(metrics.contains("pointsman_reported_prompt_tokens_total{"));
    assert!(!read(&rig) && !metrics.contains("pointsman_cache_predictions_total{"), "{metrics}");
}

#[tokio::test]
async fn its_length_goes_by_its_models_settings() {
    let rig = rig(1, |config| {
        let settings = config.tokenizers.entry(MODEL.into()).or_default();
        settings.bytes_per_token = 8;
    })
    .await;
    ask(&rig, &[], &completion("x".repeat(400))).await;
    assert_eq!(latest(&rig)["prompt_tokens"], 50);
}

#[tokio::test]
async fn what_is_recorded_is_complete() {
    let rig = rig(1, |config| config.recording.share = 1.0).await;
    for cached in [0, 48] {
        ask(&rig, &[], &completion((0..50).collect::<Vec<u32>>())).await;
        let latest = latest(&rig);
        assert_eq!(latest["prompt_source"], "client");
        assert_eq!(latest["predicted_cached_tokens"], cached, "{latest}");
    }
    assert!(read(&rig));
    eventually(|| rig.server.app().recorder.kept() == 2).await;
}

async fn install(rig: &Rig, change: impl FnOnce(&mut Policies)) {
    let dispatcher = &rig.server.app().dispatcher;
    let mut policies = dispatcher.router().policies();
    change(&mut policies);
    dispatcher.install(policies).await.unwrap();
}

#[tokio::test]
async fn whoever_goes_by_prompts_has_them_read_from_then_on() {
    let roll = |policies: &mut Policies, rollout: Rollout| {
        let other =
            InstanceSpec { name: "other".into(), ..policies.selection.instances[0].clone() };
        policies.selection.instances[0].rollout = rollout;
        policies.selection.instances.push(other);
    };
    let shadow = |policies: &mut Policies| {
        let shadows = vec![ShadowSpec::of("other".into())];
        roll(policies, Rollout { shadows, canary: None });
    };
    let canary = |policies: &mut Policies| {
        let canary = Some(CanarySpec::of("other".into(), 0.01));
        roll(policies, Rollout { shadows: vec![], canary });
    };
    let queue = |policies: &mut Policies| {
        let default = Profile::of_threshold(Some(100.0), QueuePolicy::default());
        policies.queue =
            QueueSettings { default: default.into(), ..QueueSettings::default() }.into();
    };
    let busy = |policies: &mut Policies| {
        let settings = Arc::make_mut(&mut policies.settings);
        settings.busy.active_prefill_tokens_threshold = Some(1_000_000);
    };
    let default = |policies: &mut Policies| {
        let mut other = Config::default();
        by(&mut other, "default");
        policies.selection = other.selection;
    };
    type Change<'a> = &'a dyn Fn(&mut Policies);
    let changes: [(&str, Change<'_>); 5] = [
        ("shadow", &shadow),
        ("canary", &canary),
        ("queue", &queue),
        ("busy", &busy),
        ("default", &default),
    ];
    for (name, change) in changes {
        let rig = rig(2, |_| {}).await;
        assert!(ask(&rig, &[], &completion("x".repeat(400))).await.is_good());
        assert!(!read(&rig), "{name}");
        install(&rig, change).await;
        assert!(ask(&rig, &[], &completion("x".repeat(400))).await.is_good());
        assert!(read(&rig), "{name}");
        assert_eq!(latest(&rig)["prompt_source"], "text", "{name}");
        rig.comes_to_rest().await;
    }
}

#[tokio::test]
async fn a_classifier_is_told_of_a_prompt_what_can_be_known() {
    let rig = rig(1, |_| {}).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let made = MadeClassifier::new("looks", move || {
        let seen = sees.clone();
        let classify = move |request: &ClassifyRequest<'_>| {
            seen.lock().push(request.arrival.input_tokens);
            Ok(Verdict::Admit(Admission::default()))
        };
        classifying(1, classify, |_, _| Ok(Vec::new()))
    });
    install(&rig, |policies| {
        policies.catalog.insert_classifier(Arc::new(made)).unwrap();
        policies.classifier = Some(classifier_spec("looks", OnFailure::Reject));
    })
    .await;
    // The length of a text shows without reading it; tokens that are given beside it don't.
    let tokens: Vec<u32> = (0..70).collect();
    let body = json!({
        "model": MODEL,
        "messages": [{ "role": "user", "content": "x" }],
        "nvext": { "token_data": tokens },
        "max_tokens": 2,
    });
    let answer =
        rig.client.send(Method::POST, "/v1/chat/completions", &[], Some(&body)).await.unwrap();
    assert!(answer.is_good(), "{}", answer.text());
    assert!(read(&rig));
    assert_eq!(*seen.lock(), [70]);
}

#[tokio::test]
async fn prompts_that_two_workers_share_are_read() {
    let rig = Rig::with(2, |_, config| {
        by(config, "round-robin");
        for (worker, role) in config.workers.iter_mut().zip([Role::Prefill, Role::Decode]) {
            worker.partition = PartitionKey { role, ..worker.partition.clone() };
        }
    })
    .await;
    ask(&rig, &[], &completion((0..50).collect::<Vec<u32>>())).await;
    assert!(read(&rig));
}

#[tokio::test]
async fn what_else_a_request_says_is_read_where_its_prompt_is_not() {
    let rig = Rig::with(3, |mock, config| {
        by(config, "round-robin");
        mock.models = vec![MODEL.to_owned(), "sql".to_owned()];
        if let Some(worker) = config.workers.get_mut(1) {
            worker.lora_adapters.insert("sql".to_owned());
        }
        let settings = Arc::make_mut(&mut config.settings);
        settings.router_session_affinity_ttl_secs = Some(60);
        settings.router_session_affinity_mode = AffinityMode::Hard;
    })
    .await;
    let with = |change: Value| {
        let mut body = completion("x".repeat(400));
        body.as_object_mut().unwrap().extend(change.as_object().cloned().unwrap());
        body
    };
    // Six in a row would be given out in turn.
    for _ in 0..6 {
        for (headers, body, expected) in [
            (&[][..], with(json!({ "nvext": { "decode_worker_id": 3 } })), "3"),
            (&[("x-dynamo-worker-instance-id", "3")], with(json!({})), "3"),
            (&[], with(json!({ "model": "sql" })), "2"),
            (&[], with(json!({ "lora_name": "sql" })), "2"),
        ] {
            let answer = ask(&rig, headers, &body).await;
            assert!(answer.is_good(), "{body}: {}", answer.text());
            assert_eq!(answer.worker(), expected, "{body}");
        }
    }
    let bound = ask(&rig, &[], &with(json!({ "session_id": "s" }))).await.worker().to_owned();
    for _ in 0..6 {
        for body in [
            json!({ "session_id": "s" }),
            json!({ "nvext": { "session_context": { "session_id": "s" } } }),
        ] {
            assert_eq!(ask(&rig, &[], &with(body.clone())).await.worker(), bound, "{body}");
        }
    }
    for (headers, body, status, kind) in [
        (
            &[][..],
            with(json!({ "nvext": { "due_ms": 0 } })),
            StatusCode::GATEWAY_TIMEOUT,
            "deadline_exceeded",
        ),
        (
            &[("x-pointsman-due-ms", "0")],
            with(json!({})),
            StatusCode::GATEWAY_TIMEOUT,
            "deadline_exceeded",
        ),
        (&[], with(json!({ "model": "other" })), StatusCode::NOT_FOUND, "no_such_model"),
        (
            &[("x-pointsman-routing-group", "other")],
            with(json!({})),
            StatusCode::NOT_FOUND,
            "no_such_model",
        ),
        (
            &[("x-pointsman-required-taints", "none has it")],
            with(json!({})),
            StatusCode::SERVICE_UNAVAILABLE,
            "no_endpoints",
        ),
    ] {
        let answer = ask(&rig, headers, &body).await;
        assert_eq!((answer.status, &*kind_of(&answer)), (status, kind), "{headers:?} {body}");
    }
    // What isn't what it should be is refused.
    for (headers, body) in [
        (&[][..], json!({ "nvext": { "agent_hints": { "priority": 3e9 } } })),
        (&[], json!({ "nvext": { "do_not_queue": "perhaps" } })),
        (&[], json!({ "nvext": { "cache_salt": 5 } })),
        (&[("x-dynamo-request-priority", "high")], json!({})),
        (&[("x-pointsman-policy-class", "a b")], json!({})),
        (&[("x-dynamo-dp-rank", "1")], json!({})),
    ] {
        let answer = ask(&rig, headers, &with(body.clone())).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{headers:?} {body}");
    }
    assert!(!read(&rig));
    rig.comes_to_rest().await;
}
