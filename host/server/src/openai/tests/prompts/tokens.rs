//! Where prompts' tokens are from: an engine that is asked, or the model's own tokenizer.

use std::path::Path;
use std::time::Duration;

use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use serde_json::json;

use super::*;
use crate::config::Config;
use crate::mock_engine::Refuse;
use crate::serve::testing::partition;
use crate::tokens::{Choice, TokenSettings};

pub(super) fn set(config: &mut Config, settings: TokenSettings) {
    config.tokenizers.insert(MODEL.into(), settings);
}

#[tokio::test]
async fn an_engine_that_is_asked_tells_the_tokens() {
    let rig = Rig::with(2, |_, config| {
        set(config, TokenSettings { source: Choice::Engine, ..TokenSettings::default() });
    })
    .await;
    let long = text("the sea");
    let body = conversation(&[&long]);
    let first = rig.asks(CHAT, &[], &body).await;
    let again = rig.asks(CHAT, &[], &body).await;
    assert_eq!(first.worker(), again.worker());
    let latest = rig.latest();
    assert_eq!(latest["prompt_source"], "engine");
    assert_eq!(latest["prompt_tokens_exact"], true);
    assert_eq!(latest["reported_prompt_tokens"], latest["prompt_tokens"]);
    assert_eq!(latest["reported_cached_tokens"], latest["predicted_cached_tokens"]);
    assert!(cached(&again) > 900);
    // Each in turn, and once a request.
    let asked = |engine: usize| rig.engines[engine].stats().paths.get("/tokenize").copied();
    assert_eq!((asked(0), asked(1)), (Some(1), Some(1)));
}

#[tokio::test]
async fn an_engine_that_fails_to_tell_fails_no_request_and_is_left_alone() {
    let rig = Rig::with(2, |_, config| {
        let limits = crate::tokens::Limits {
            engine_timeout: Duration::from_millis(200),
            ..Default::default()
        };
        set(config, TokenSettings { source: Choice::Engine, limits, ..TokenSettings::default() });
        if let Some(worker) = config.workers.first_mut() {
            worker.endpoint = "http://127.0.0.1:9".to_owned();
        }
    })
    .await;
    for _ in 0..3 {
        let answer = rig.asks(CHAT, &[], &conversation(&[&text("fish")])).await;
        assert_eq!(answer.worker(), "2");
        assert_eq!(rig.latest()["prompt_source"], "text");
    }
    for line in [
        r#"pointsman_prompt_estimates_total{model="m",reason="engine"} 1"#,
        r#"pointsman_prompt_estimates_total{model="m",reason="engine_rests"} 2"#,
    ] {
        assert!(rig.counted(line), "{line}\n{}", rig.server.app().metrics.encode());
    }
}

#[tokio::test]
async fn engines_that_tell_of_their_caches_are_asked_for_tokens_too() {
    let rig = Rig::new(1).await;
    let router = rig.server.app().dispatcher.router();
    let rank = WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) };
    router.partition(&partition()).unwrap().cache().expect_events(rank);
    rig.asks(CHAT, &[], &conversation(&["how are you?"])).await;
    assert_eq!(rig.latest()["prompt_source"], "engine");
}

#[tokio::test]
async fn a_request_that_is_tried_elsewhere_is_tokenised_once() {
    let rig = Rig::with(2, |_, config| {
        set(config, TokenSettings { source: Choice::Engine, ..TokenSettings::default() });
    })
    .await;
    for engine in 0..2 {
        let refuse = Refuse { status: 503, retry_after: None, times: Some(1) };
        rig.turn(engine, |control| control.refuse = (engine == 0).then_some(refuse));
    }
    for _ in 0..4 {
        rig.asks(CHAT, &[], &conversation(&[&text("birds")])).await;
    }
    let asked = |engine: usize| rig.engines[engine].stats().paths["/tokenize"];
    assert_eq!(asked(0) + asked(1), 4);
    let latest = rig.latest();
    assert_eq!(latest["prompt_source"], "engine");
}

#[tokio::test]
async fn a_models_own_tokenizer_is_used_and_one_that_isnt_the_engines_is_noticed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tokens/chatml");
    let rig = Rig::with(1, |_, config| {
        set(config, TokenSettings { tokenizer: Some(folder.clone()), ..TokenSettings::default() });
    })
    .await;
    let body = conversation(&["What is the capital of France?"]);
    for _ in 0..2 {
        rig.asks(CHAT, &[], &body).await;
    }
    let latest = rig.latest();
    assert_eq!(latest["prompt_source"], "tokenizer");
    assert_eq!(latest["prompt_tokens_exact"], true);
    assert_ne!(latest["prompt_tokens"], latest["reported_prompt_tokens"]);
    assert!(rig.counted(r#"pointsman_differing_prompt_tokens_total{model="m"} 2"#));
    // Tokens of the client's win.
    let mut body = body;
    body["nvext"] = json!({ "token_data": (0..40).collect::<Vec<u32>>() });
    rig.asks(CHAT, &[], &body).await;
    assert_eq!(rig.latest()["prompt_tokens"], 40);
    assert_eq!(rig.latest()["prompt_source"], "client");
}
