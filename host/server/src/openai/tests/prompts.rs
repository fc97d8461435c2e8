//! What becomes of prompts: their tokens, where they are sent again, and what engines say of them.

use std::path::Path;
use std::time::Duration;

use http::Method;
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use serde_json::{Value, json};

use super::rig::*;
use crate::config::Config;
use crate::housekeeping;
use crate::load_client::{Answer, LoadClient};
use crate::mock_engine::Refuse;
use crate::serve::testing::{MODEL, partition};
use crate::telemetry::Record;
use crate::tokens::{Choice, TokenSettings};

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

impl Rig {
    async fn asks(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let answer = self.client.send(Method::POST, path, headers, Some(body)).await.unwrap();
        assert!(answer.is_good(), "{}", answer.text());
        answer
    }

    /// What the latest receipt shows.
    fn latest(&self) -> Value {
        let latest = self.server.app().metrics.receipts().recent(1);
        serde_json::to_value::<&Record>(&latest[0]).unwrap()
    }

    async fn overlap(&self, body: &Value) -> Value {
        let admin = LoadClient::new(self.server.admin_addr());
        let answer = admin.post("/v1/overlap", body).await.unwrap();
        assert!(answer.status.is_success(), "{}", answer.text());
        answer.json()
    }
}

fn text(about: &str) -> String {
    (0..200).map(|n| format!("{about} {n}, ")).collect()
}

fn completion(prompt: impl Into<Value>) -> Value {
    json!({ "model": MODEL, "prompt": prompt.into(), "max_tokens": 2 })
}

fn conversation(turns: &[&str]) -> Value {
    let roles = ["user", "assistant"].into_iter().cycle();
    let messages =
        turns.iter().zip(roles).map(|(text, role)| json!({ "role": role, "content": text }));
    json!({ "model": MODEL, "messages": messages.collect::<Vec<_>>(), "max_tokens": 2 })
}

fn set(config: &mut Config, settings: TokenSettings) {
    config.tokenizers.insert(MODEL.into(), settings);
}

fn cached(answer: &Answer) -> u64 {
    answer.header("x-pointsman-cached-tokens").parse().unwrap()
}

#[tokio::test]
async fn a_text_goes_back_to_the_worker_that_it_was_sent_to() {
    let rig = Rig::new(4).await;
    for about in ["cats", "dogs", "cows", "bees"] {
        let (begun, goes_on) = (text(about), text(about) + "and so on and on and on and on");
        let first = rig.asks(COMPLETIONS, &[], &completion(begun.clone())).await;
        assert_eq!(cached(&first), 0);
        for body in [completion(begun), completion(goes_on)] {
            let again = rig.asks(COMPLETIONS, &[], &body).await;
            assert_eq!(again.worker(), first.worker(), "{about}");
            assert!(cached(&again) > 400, "{}", cached(&again));
        }
        let latest = rig.latest();
        assert_eq!(latest["prompt_source"], "text");
        assert_eq!(latest["prompt_tokens_exact"], false);
    }
    assert!(rig.counted(r#"pointsman_prompts_total{model="m",source="text"} 12"#));
    let reason = r#"pointsman_prompt_estimates_total{model="m",reason="no_tokenizer"} 12"#;
    assert!(rig.counted(reason));
}

#[tokio::test]
async fn a_conversation_stays_where_it_began() {
    let rig = Rig::new(4).await;
    let long = text("the weather");
    let first = rig.asks(CHAT, &[], &conversation(&[&long])).await;
    for turns in [&[&*long, "yes", "and then?"][..], &[&long, "yes", "and then?", "no", "why?"]] {
        let again = rig.asks(CHAT, &[], &conversation(turns)).await;
        assert_eq!(again.worker(), first.worker());
        assert!(cached(&again) > 400);
    }
}

#[tokio::test]
async fn of_token_ids_the_prediction_is_what_the_engine_reports() {
    let rig = Rig::new(3).await;
    let ids: Vec<u32> = (1_000..1_100).collect();
    for (length, expected) in [(100, 0), (100, 96), (97, 96), (96, 80), (15, 0)] {
        let answer = rig.asks(COMPLETIONS, &[], &completion(ids[..length].to_vec())).await;
        assert_eq!(cached(&answer), expected, "{length}");
        let latest = rig.latest();
        assert_eq!(latest["prompt_tokens"], length);
        assert_eq!(latest["prompt_tokens_exact"], true);
        assert_eq!(latest["prompt_source"], "client");
        assert_eq!(latest["predicted_cached_tokens"], expected);
        assert_eq!(latest["reported_cached_tokens"], expected);
        assert_eq!(latest["reported_prompt_tokens"], length);
    }
    let admin = LoadClient::new(rig.server.admin_addr());
    let shown = admin.get("/v1/receipts?limit=2").await.unwrap().json();
    let receipt = &shown["receipts"][1];
    assert_eq!(receipt["predicted_cached_tokens"], 80);
    assert_eq!(receipt["reported_cached_tokens"], 80);
    for line in [
        r#"pointsman_cache_predictions_total{model="m",tokens="exact",verdict="right"} 5"#,
        r#"pointsman_predicted_cached_tokens_total{model="m",tokens="exact"} 272"#,
        r#"pointsman_reported_cached_tokens_total{model="m"} 272"#,
        r#"pointsman_reported_prompt_tokens_total{model="m"} 408"#,
        r#"pointsman_compared_cached_tokens_total{by="engine",model="m",tokens="exact"} 272"#,
        r#"pointsman_compared_cached_tokens_total{by="router",model="m",tokens="exact"} 272"#,
        r#"pointsman_cache_prediction_error_tokens_sum{model="m",tokens="exact"} 0"#,
        r#"pointsman_cache_prediction_error_tokens_count{model="m",tokens="exact"} 5"#,
    ] {
        assert!(rig.counted(line), "{line}\n{}", rig.server.app().metrics.encode());
    }
}

#[tokio::test]
async fn what_an_engine_has_and_nobody_predicted_shows_and_so_does_what_it_lost() {
    let rig = Rig::with(1, |mock, _| mock.total_kv_blocks = 10).await;
    let ids = |from: u32| completion((from..from + 100).collect::<Vec<_>>());
    // Behind the router's back.
    let direct = LoadClient::new(rig.engines[0].addr());
    direct.post(COMPLETIONS, &ids(0)).await.unwrap();
    rig.asks(COMPLETIONS, &[], &ids(0)).await;
    assert_eq!(rig.latest()["reported_cached_tokens"], 96);
    direct.post(COMPLETIONS, &ids(5_000)).await.unwrap();
    direct.post(COMPLETIONS, &ids(6_000)).await.unwrap();
    let answer = rig.asks(COMPLETIONS, &[], &ids(0)).await;
    assert_eq!((cached(&answer), &rig.latest()["reported_cached_tokens"]), (96, &json!(0)));
    for line in [
        r#"pointsman_cache_predictions_total{model="m",tokens="exact",verdict="under"} 1"#,
        r#"pointsman_cache_predictions_total{model="m",tokens="exact",verdict="over"} 1"#,
        r#"pointsman_cache_prediction_error_tokens_sum{model="m",tokens="exact"} 192"#,
    ] {
        assert!(rig.counted(line), "{line}");
    }
}

#[tokio::test]
async fn a_stream_reports_if_it_is_asked_to() {
    let rig = Rig::new(2).await;
    let ids: Vec<u32> = (7_000..7_050).collect();
    let mut body = completion(ids);
    body["stream"] = true.into();
    rig.asks(COMPLETIONS, &[], &body).await;
    assert_eq!(rig.latest()["reported_cached_tokens"], Value::Null);
    assert_eq!(rig.latest()["reported_prompt_tokens"], Value::Null);
    body["stream_options"] = json!({ "include_usage": true });
    rig.asks(COMPLETIONS, &[], &body).await;
    assert_eq!(rig.latest()["reported_cached_tokens"], 48);
    assert_eq!(rig.latest()["predicted_cached_tokens"], 48);
    let line = r#"pointsman_cache_predictions_total{model="m",tokens="exact",verdict="right"} 1"#;
    assert!(rig.counted(line));
}

#[tokio::test]
async fn tenants_share_nothing() {
    let rig = Rig::new(1).await;
    let plain = completion((0..64).collect::<Vec<u32>>());
    let with = |field: &str, value: Value| {
        let mut body = plain.clone();
        body[field] = value;
        body
    };
    let salted = with("cache_salt", "a".into());
    let ours = with("nvext", json!({ "cache_salt": "c" }));
    let lora = with("lora_name", "l".into());
    let tenant = [("x-tenant-id", "t")];
    let cases =
        [(&[][..], &plain), (&tenant[..], &plain), (&[], &salted), (&[], &ours), (&[], &lora)];
    for (headers, body) in cases {
        let first = rig.asks(COMPLETIONS, headers, body).await;
        let again = rig.asks(COMPLETIONS, headers, body).await;
        assert_eq!((cached(&first), cached(&again)), (0, 48), "{headers:?} {body}");
    }
    // One name for it is as good as another.
    let same = with("nvext", json!({ "cache_salt": "a" }));
    assert_eq!(cached(&rig.asks(COMPLETIONS, &[], &same).await), 48);
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

#[tokio::test]
async fn of_several_prompts_the_first_is_looked_up_and_nothing_compared() {
    let rig = Rig::new(1).await;
    let prompts = [(0..40).collect::<Vec<u32>>(), (100..140).collect()];
    for _ in 0..2 {
        rig.asks(COMPLETIONS, &[], &completion(prompts.to_vec())).await;
    }
    let latest = rig.latest();
    assert_eq!(latest["prompt_tokens"], 80);
    assert_eq!(latest["predicted_cached_tokens"], 32);
    assert_eq!(latest["reported_cached_tokens"], 64);
    assert!(!rig.server.app().metrics.encode().contains("pointsman_cache_predictions_total{"));
}

#[tokio::test]
async fn other_paths_and_other_bodies_pass_whatever_they_say() {
    let rig = Rig::new(1).await;
    for body in ["", "no JSON", "[1]", r#"{"model":"m","input":[{"role":"user","content":"x"}]}"#] {
        let sent = rig.client.send_bytes(Method::POST, "/v1/responses", &[], body.into());
        assert_eq!(sent.await.unwrap().status, 404, "the engine has no such path");
    }
    for body in [
        json!({ "model": MODEL, "prompt": [-1] }),
        json!({ "model": MODEL, "messages": "x", "prompt": { "a": [] } }),
        json!({ "model": MODEL }),
        json!({ "model": MODEL, "nvext": { "token_data": "x" } }),
    ] {
        let answer = rig.client.post(COMPLETIONS, &body).await.unwrap();
        assert_eq!(answer.worker(), "1", "the engine refuses it: {}", answer.text());
    }
}

#[tokio::test]
async fn what_overlap_shows_is_what_the_next_decision_begins_with() {
    let rig = Rig::new(2).await;
    let ids: Vec<u32> = (0..100).collect();
    let body = completion(ids.clone());
    let nothing = rig.overlap(&body).await;
    assert_eq!(nothing["rows"].as_array().unwrap().len(), 2);
    let first = rig.asks(COMPLETIONS, &[], &body).await;
    let by_body = rig.overlap(&body).await;
    // It books and predicts nothing.
    assert_eq!(rig.overlap(&body).await, by_body);
    assert_eq!(rig.bookings(), 0);
    let facts = json!({ "model": MODEL, "token_ids": ids });
    assert_eq!(rig.overlap(&facts).await, by_body);
    let admin = LoadClient::new(rig.server.admin_addr());
    let list: Vec<String> = ids.iter().map(u32::to_string).collect();
    let path = format!("/v1/overlap?model={MODEL}&token_ids={}", list.join(","));
    assert_eq!(admin.get(&path).await.unwrap().json(), by_body);
    assert_eq!(by_body["prompt_tokens"], 100);
    assert_eq!(by_body["prompt_tokens_exact"], true);
    assert_eq!(by_body["prompt_source"], "client");
    assert_eq!((&by_body["blocks"], &by_body["block_size"]), (&json!(6), &json!(16)));
    let chosen: u64 = first.worker().parse().unwrap();
    let row = |answer: &Value| {
        let rows = answer["rows"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["worker_id"] == chosen).unwrap()
    };
    let dry = admin.post("/v1/route", &body).await.unwrap().json();
    assert_eq!(row(&by_body)["device_blocks"], 6);
    assert_eq!(row(&by_body)["told"], false);
    assert_eq!(row(&by_body)["cached_tokens"], 96);
    assert_eq!(dry["predicted_cached_tokens"], 96);
    for tier in
        ["device_blocks", "host_blocks", "disk_blocks", "external_blocks", "effective_blocks"]
    {
        assert_eq!(row(&by_body)[tier], row(&dry)["overlap"][tier], "{tier}");
    }
    let again = rig.asks(COMPLETIONS, &[], &body).await;
    assert_eq!(again.worker(), first.worker());
    assert_eq!(rig.latest()["predicted_cached_tokens"], row(&by_body)["cached_tokens"]);
}

#[tokio::test]
async fn overlap_says_what_it_can_not_answer() {
    let rig = Rig::new(1).await;
    let admin = LoadClient::new(rig.server.admin_addr());
    for (path, status, reason) in [
        ("/v1/overlap", 400, "model"),
        ("/v1/overlap?model=m&token_ids=1,x", 400, r#"has \"x\""#),
        ("/v1/overlap?model=m&colour=red", 400, "colour"),
        ("/v1/overlap?model=other&token_ids=1", 404, "no_such_model"),
    ] {
        let answer = admin.get(path).await.unwrap();
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.text().contains(reason), "{path}: {}", answer.text());
    }
    for (body, reason) in [
        (json!({ "model": MODEL, "prompt_tokens": 5 }), "the prompt isn't known"),
        (json!({ "model": MODEL, "prompt_tokens": 5, "token_ids": [1] }), "leave it out"),
        (json!({ "model": MODEL, "token_ids": [-1] }), "entry 0 is -1"),
        (json!({ "messages": [] }), "model"),
    ] {
        let answer = admin.post("/v1/overlap", &body).await.unwrap();
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert!(answer.text().contains(reason), "{body}: {}", answer.text());
    }
    let text = rig.overlap(&completion(text("rain"))).await;
    assert_eq!(text["prompt_source"], "text");
    assert!(text["inexact"].as_str().unwrap().contains("no tokenizer"));
}

#[tokio::test]
async fn an_engine_that_answers_nonsense_is_named_as_the_reason_while_it_rests_too() {
    let rig = Rig::with(1, |_, config| {
        set(config, TokenSettings { source: Choice::Engine, ..TokenSettings::default() });
        if let Some(worker) = config.workers.first_mut() {
            worker.endpoint = "http://127.0.0.1:9".to_owned();
        }
    })
    .await;
    for _ in 0..2 {
        let answer = rig.overlap(&completion(text("rain"))).await;
        let reason = answer["inexact"].as_str().unwrap();
        assert!(reason.contains("/tokenize can't be reached"), "{reason}");
    }
}

#[tokio::test]
async fn a_prediction_lasts_for_its_time_and_no_longer() {
    let rig = Rig::new(1).await;
    let body = completion((0..100).collect::<Vec<u32>>());
    rig.asks(COMPLETIONS, &[], &body).await;
    let app = rig.server.app();
    let row = async || rig.overlap(&body).await["rows"][0]["device_blocks"].clone();
    let ttl = app.dispatcher.router().settings().router_ttl_secs;
    let now_ms = app.dispatcher.clock().now_ms();
    housekeeping::tidy(app, now_ms);
    assert_eq!(row().await, 6);
    housekeeping::tidy(app, now_ms + 1_000 * ttl as u64 + 1_000);
    assert_eq!(row().await, 0);
}
