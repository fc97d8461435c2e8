//! Equal to the engine, id for id: golden answers of vLLM's own code, in `tests/tokens`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;

/// 2025-03-09 08:07:06, when the golden answers were given.
const NOW: i64 = 1_741_507_626;

/// A folder of fixtures.
pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tokens")
}

pub(super) fn settings(model: &str) -> TokenSettings {
    TokenSettings { tokenizer: Some(fixtures().join(model)), ..TokenSettings::default() }
}

pub(super) fn load(settings: TokenSettings) -> Arc<ModelTokens> {
    ModelTokens::load(settings, Arc::new(TokenPool::new(2, 64, std::time::Duration::from_secs(60))))
        .expect("the model is whole")
}

#[derive(Deserialize)]
struct Golden {
    chats: Vec<Chat>,
    texts: Vec<Text>,
}

#[derive(Deserialize)]
struct Chat {
    case: String,
    text: Option<String>,
    ids: Option<Vec<u32>>,
    refused: Option<String>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    with: Vec<u32>,
    without: Vec<u32>,
    #[serde(rename = "cut-None")]
    cut: Vec<u32>,
    #[serde(rename = "cut-left")]
    cut_left: Vec<u32>,
    #[serde(rename = "cut-right")]
    cut_right: Vec<u32>,
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).expect("the fixture is there");
    serde_json::from_str(&text).expect("the fixture is whole")
}

pub(super) const MODELS: [&str; 8] =
    ["chatml", "deepseek", "gemma", "llama", "mistral", "named", "parts", "qwen"];

#[tokio::test]
async fn conversations_have_the_tokens_that_the_engine_makes_of_them() {
    // As it stands in the file, so that fields keep their order.
    let text = std::fs::read_to_string(fixtures().join("chats.json")).expect("it is there");
    let bodies: std::collections::BTreeMap<String, &RawValue> =
        serde_json::from_str(&text).expect("it is whole");
    let mut wrong = Vec::new();
    for model in MODELS {
        let tokens = load(settings(model));
        let golden: Golden = read(&fixtures().join(model).join("golden.json"));
        assert_eq!(golden.chats.len(), bodies.len());
        for chat in &golden.chats {
            let body = Bytes::from(bodies[&chat.case].get().to_owned());
            let text = tokens.text(&body, NOW);
            if text.as_ref().ok() != chat.text.as_ref() {
                wrong.push(format!("{model}: {}:\n  {text:?}\n  {:?}", chat.case, chat.text));
                continue;
            }
            // The second time, all of it comes from the cache.
            for _ in 0..2 {
                let (prompt, problem) = tokens.tokens(Kind::Chat, &body, NOW, None).await;
                let place = format!("{model}: {}: {problem:?}", chat.case);
                match &chat.ids {
                    Some(ids) => {
                        assert_eq!(prompt.tokens[..], ids[..], "{place}");
                        assert_eq!(prompt.count, ids.len() as u64, "{place}");
                        assert!(prompt.exact && prompt.source == Source::Tokenizer, "{place}");
                    }
                    None => {
                        assert!(chat.refused.is_some());
                        assert_eq!(prompt.source, Source::Text, "{place}");
                        let label = problem.as_ref().map(Inexact::label);
                        assert_eq!(label, Some("bad_prompt"), "{place}");
                    }
                }
            }
        }
        assert_eq!(wrong, Vec::<String>::new(), "\n{}", wrong.join("\n"));
        let stats = tokens.cache();
        assert!(stats.hits > stats.misses, "{model}: {stats:?}");
    }
}

#[tokio::test]
async fn texts_have_the_tokens_that_the_engine_makes_of_them() {
    for model in MODELS {
        let tokens = load(settings(model));
        let golden: Golden = read(&fixtures().join(model).join("golden.json"));
        for text in &golden.texts {
            let mut whole = serde_json::json!({"prompt": text.text});
            for (more, ids) in [
                (serde_json::json!({}), &text.with),
                (serde_json::json!({"add_special_tokens": false}), &text.without),
                (serde_json::json!({"truncate_prompt_tokens": 5}), &text.cut),
                (
                    serde_json::json!({"truncate_prompt_tokens": 5, "truncation_side": "left"}),
                    &text.cut_left,
                ),
                (
                    serde_json::json!({"truncate_prompt_tokens": 5, "truncation_side": "right"}),
                    &text.cut_right,
                ),
            ] {
                let fields = whole.as_object_mut().expect("it is one");
                fields.retain(|name, _| name == "prompt");
                fields.extend(more.as_object().cloned().unwrap_or_default());
                let body = Bytes::from(whole.to_string());
                let (prompt, problem) = tokens.tokens(Kind::Completion, &body, NOW, None).await;
                let place = format!("{model}: {whole}: {problem:?}");
                assert_eq!(prompt.tokens[..], ids[..], "{place}");
                assert!(prompt.exact, "{place}");
            }
        }
    }
}

#[tokio::test]
async fn recorded_prompts_have_the_tokens_that_the_engine_counted() {
    #[derive(Deserialize)]
    struct Row<'a> {
        file: String,
        path: String,
        #[serde(borrow)]
        body: Option<&'a RawValue>,
        prompt_token_ids: Option<serde_json::Value>,
    }
    // Made from these recordings, so what is tested is the way from a body to a text, the pieces,
    // and the recordings' own agreement.
    let tokens = load(settings("recorded"));
    let mut prompts = 0;
    for folder in [
        "A-fresh/http",
        "A-fresh/http-after-reset",
        "A-fresh/http-conc",
        "B-evict/http-evict",
        "E-lora/http-lora",
        "H-vllm0.20.2-array/http-reset",
    ] {
        let rows = fixtures().join("../recordings").join(folder).join("index.jsonl");
        for line in std::fs::read_to_string(rows).expect("it is there").lines() {
            let row: Row<'_> = serde_json::from_str(line).expect("it is whole");
            let kind = match row.path.as_str() {
                "/v1/chat/completions" => Kind::Chat,
                "/v1/completions" => Kind::Completion,
                _ => continue,
            };
            let ids = row.prompt_token_ids.map(serde_json::from_value::<Vec<u32>>);
            let (Some(Ok(ids)), Some(body)) = (ids, row.body) else { continue };
            let body = Bytes::from(body.get().to_owned());
            let (prompt, problem) = tokens.tokens(kind, &body, NOW, None).await;
            assert_eq!(prompt.tokens[..], ids[..], "{folder}: {}: {problem:?}", row.file);
            assert!(prompt.exact);
            prompts += 1;
        }
    }
    assert!(prompts > 60, "{prompts}");
}
