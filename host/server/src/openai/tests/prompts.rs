//! What becomes of prompts: where they are sent again, and what engines say of them.

use http::Method;
use serde_json::{Value, json};

use super::rig::*;
use crate::load_client::{Answer, LoadClient};
use crate::serve::testing::MODEL;
use crate::telemetry::Record;

mod overlap;
mod tokens;

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
