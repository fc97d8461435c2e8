use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::tokens::Limits;
use crate::tokens::remote::Answer;
use crate::tokens::tests::{load, settings};

/// An engine that says one thing, and keeps what it was asked.
#[derive(Debug)]
struct Engine {
    says: Option<&'static str>,
    asked: Mutex<Vec<String>>,
}

impl Engine {
    fn says(says: &'static str) -> Self {
        Self { says: Some(says), asked: Mutex::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("nobody panicked").drain(..).collect()
    }
}

impl Tokenize for Engine {
    fn tokenize(&self, body: Vec<u8>) -> Answer<'_> {
        let body = String::from_utf8(body).expect("it is JSON");
        self.asked.lock().expect("nobody panicked").push(body);
        Box::pin(async {
            match self.says {
                Some("404") => Err(RemoteError::Status(404)),
                Some(answer) => Ok(answer.as_bytes().to_vec()),
                None => std::future::pending().await,
            }
        })
    }
}

const ANSWER: &str = r#"{"count":3,"max_model_len":9,"tokens":[7,8,9]}"#;
const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"Hello, you there!"}]}"#;

async fn ask(
    settings: TokenSettings,
    kind: Kind,
    body: &str,
    engine: Option<&Engine>,
) -> (PromptTokens, Option<&'static str>) {
    let tokens = load(settings);
    let body = Bytes::from(body.to_owned());
    let engine = engine.map(|engine| engine as &dyn Tokenize);
    let (prompt, problem) = tokens.tokens(kind, &body, 0, engine).await;
    (prompt, problem.map(|problem| problem.label()))
}

#[tokio::test]
async fn ids_from_the_client_win_and_need_no_tokenizer() {
    for (kind, body, tokens, count) in [
        (Kind::Completion, r#"{"prompt":[1,2,3]}"#, &[1, 2, 3][..], 3),
        (Kind::Completion, r#"{"prompt": [ [1,2], [3,4,5] ]}"#, &[1, 2], 5),
        (Kind::Embeddings, r#"{"input":[4]}"#, &[4], 1),
        (Kind::Chat, r#"{"messages":[],"nvext":{"token_data":[5,6]}}"#, &[5, 6], 2),
        (Kind::Completion, r#"{"prompt":"x","nvext":{"token_data":[7]}}"#, &[7], 1),
        (Kind::Other, r#"{"input":[{"x":1}],"nvext":{"token_data":[8]}}"#, &[8], 1),
    ] {
        for settings in [TokenSettings::default(), settings("qwen")] {
            let (prompt, problem) = ask(settings, kind, body, None).await;
            assert_eq!((&prompt.tokens[..], prompt.count, problem), (tokens, count, None));
            assert_eq!((prompt.source, prompt.exact), (Source::Client, true), "{body}");
        }
    }
}

#[tokio::test]
async fn of_several_prompts_the_first_stands_for_all_and_all_are_counted() {
    let body = r#"{"prompt":["The quick brown fox","jumps"]}"#;
    let (both, _) = ask(settings("qwen"), Kind::Completion, body, None).await;
    let first = r#"{"prompt":"The quick brown fox"}"#;
    let (first, _) = ask(settings("qwen"), Kind::Completion, first, None).await;
    assert_eq!((&both.tokens, both.prompts, both.exact), (&first.tokens, 2, true));
    assert!(both.count > first.count);
}

#[tokio::test]
async fn what_nobody_knows_is_an_estimate_that_says_why() {
    let own = r#"{"messages":[{"role":"user","content":"Hello"}],"chat_template":"x"}"#;
    let media = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"Look:"},
        {"type":"image_url","image_url":{"url":"data:"}}]}]}"#;
    for (settings, kind, body, label) in [
        (TokenSettings::default(), Kind::Chat, CHAT, "no_tokenizer"),
        (settings("qwen"), Kind::Chat, media, "media"),
        (settings("qwen"), Kind::Chat, own, "own_template"),
        (settings("qwen"), Kind::Chat, "{", "bad_prompt"),
        (settings("qwen"), Kind::Chat, "{}", "bad_prompt"),
        (settings("qwen"), Kind::Chat, r#"{"messages":[]}"#, "bad_prompt"),
        (settings("qwen"), Kind::Chat, r#"{"messages":[7]}"#, "bad_prompt"),
        (settings("qwen"), Kind::Chat, r#"{"messages":7}"#, "bad_prompt"),
        (settings("qwen"), Kind::Completion, r#"{"prompt":[]}"#, "bad_prompt"),
        (settings("qwen"), Kind::Completion, r#"{"prompt":[1,"a"]}"#, "bad_prompt"),
        (settings("qwen"), Kind::Completion, r#"{"prompt":[-1]}"#, "bad_prompt"),
        (settings("qwen"), Kind::Completion, r#"{"prompt":{"a":1}}"#, "bad_prompt"),
        (
            settings("qwen"),
            Kind::Completion,
            r#"{"prompt":"a b c","truncate_prompt_tokens":-1}"#,
            "cut",
        ),
        (settings("qwen"), Kind::Other, r#"{"input":"Hello"}"#, "unknown_kind"),
        (
            settings("gemma"),
            Kind::Chat,
            r#"{"messages":[{"role":"system","content":"x"}]}"#,
            "bad_prompt",
        ),
    ] {
        let (prompt, problem) = ask(settings, kind, body, None).await;
        assert_eq!(problem, Some(label), "{body}");
        assert_eq!((prompt.source, prompt.exact), (Source::Text, false), "{body}");
        assert!(prompt.tokens.len() as u64 <= prompt.count, "{body}");
    }
    let (prompt, _) = ask(TokenSettings::default(), Kind::Chat, CHAT, None).await;
    assert_eq!((prompt.tokens.len(), prompt.count), (5, 6));
}

#[tokio::test]
async fn limits_hold() {
    let limits = Limits { text_bytes: 1_000, ..Limits::default() };
    let small = TokenSettings { limits, ..settings("qwen") };
    let long = format!(r#"{{"prompt":"{}"}}"#, "x ".repeat(600));
    let (prompt, problem) = ask(small.clone(), Kind::Completion, &long, None).await;
    assert_eq!((problem, prompt.count), (Some("too_long"), 250));
    let long = format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "x ".repeat(600));
    assert_eq!(ask(small, Kind::Chat, &long, None).await.1, Some("too_long"));
    let limits = Limits { template_fuel: 10, ..Limits::default() };
    let little = TokenSettings { limits, ..settings("qwen") };
    assert_eq!(ask(little, Kind::Chat, CHAT, None).await.1, Some("template_failed"));
}

#[tokio::test]
async fn long_prompts_have_the_same_tokens_as_short_ones_have_inline() {
    let words = "The quick brown fox jumps over the lazy dog. ".repeat(4_000);
    let body = format!(r#"{{"messages":[{{"role":"user","content":"{words}"}}]}}"#);
    assert!(body.len() > INLINE_BODY);
    let (pooled, problem) = ask(settings("qwen"), Kind::Chat, &body, None).await;
    assert_eq!(problem, None);
    let limits = Limits { inline_bytes: usize::MAX, cache_bytes: 0, ..Limits::default() };
    let inline = TokenSettings { limits, ..settings("qwen") };
    assert_eq!(ask(inline, Kind::Chat, &body, None).await.0, pooled);
}

#[tokio::test]
async fn an_engine_is_asked_only_where_it_may_know_better() {
    let source = |source| TokenSettings { source, ..settings("qwen") };
    let own = r#"{"messages":[{"role":"user","content":"Hello"}],"chat_template":"x"}"#;
    let media = r#"{"messages":[{"role":"user","content":[{"type":"image"}]}]}"#;
    for (settings, body, asked) in [
        (source(Choice::Engine), CHAT, true),
        (source(Choice::Auto), CHAT, false),
        (source(Choice::Auto), own, true),
        (source(Choice::Auto), media, false),
        (source(Choice::Tokenizer), own, false),
        (source(Choice::Text), CHAT, false),
        (TokenSettings::default(), CHAT, false),
    ] {
        let engine = Engine::says(ANSWER);
        let (prompt, problem) = ask(settings, Kind::Chat, body, Some(&engine)).await;
        assert_eq!(engine.asked().len(), usize::from(asked), "{body}");
        if asked {
            assert_eq!((&prompt.tokens[..], prompt.count, problem), (&[7, 8, 9][..], 3, None));
            assert_eq!((prompt.source, prompt.exact), (Source::Engine, true));
        }
    }
}

#[tokio::test]
async fn an_engine_that_gives_no_tokens_leaves_an_estimate() {
    // One of them never answers.
    let limits = Limits { engine_timeout: Duration::from_millis(5), ..Limits::default() };
    let asking = || TokenSettings { source: Choice::Engine, limits, ..TokenSettings::default() };
    for engine in [
        Engine::says("404"),
        Engine::says("{}"),
        Engine::says(r#"{"count":1,"tokens":[1,2]}"#),
        Engine { says: None, asked: Mutex::default() },
    ] {
        let (prompt, problem) = ask(asking(), Kind::Chat, CHAT, Some(&engine)).await;
        assert_eq!((prompt.source, problem), (Source::Text, Some("engine")));
    }
    // The client's own tokens need no question.
    let engine = Engine::says(ANSWER);
    let ids = r#"{"prompt":[1,2]}"#;
    let (prompt, _) = ask(asking(), Kind::Completion, ids, Some(&engine)).await;
    assert_eq!((prompt.source, engine.asked().len()), (Source::Client, 0));
    // Of several prompts only the first is asked for.
    let body = r#"{"prompt":["a longer text than three","tokens have, by far"]}"#;
    let (prompt, _) = ask(asking(), Kind::Completion, body, Some(&engine)).await;
    assert_eq!((prompt.exact, prompt.prompts, prompt.tokens.len()), (false, 2, 3));
    assert!(prompt.count > 6);
}
