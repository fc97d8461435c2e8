//! What clients send and engines answer. The first byte says which: a chat, a completion, a request of
//! another kind, or an answer on its way. Behind a request's come lines of headers, an empty line, and
//! the body. What must hold, whatever comes:
//!
//! * What is refused is refused with a client's status, in one bounded sentence.
//! * A prompt always has a length; where it is exact, nothing is estimated and no reason is given why
//!   it isn't; and it is the same when it is asked for again, with and without what the cache knows.
//! * Client's token ids are taken as they are.
//! * However an answer is cut into chunks, the same is read in it; and what it says is what a reader of
//!   the whole JSON finds.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use pointsman::openai::{Read, Said, read, said};
use pointsman::tokens::{
    Inexact, Kind, Limits, ModelTokens, PromptTokens, Source, TokenPool, TokenSettings,
};
use pointsman_core::hashing::sequence_hashes;
use pointsman_core::router::{Policies, Router};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::words::sentence;

/// The longest sentence about a request, in bytes: values are quoted, and escaped where they are.
const MOST_WORDS: usize = 1_500;

/// The longest body: what is longer is read on other threads.
const MOST_BODY: usize = 64 << 10;

/// Bytes of text that count as one token where nobody knows better.
const BYTES_PER_TOKEN: u32 = 4;

/// A Sunday.
const NOW: i64 = 1_741_507_626;

/// Takes a request or an answer.
pub(crate) fn run(bytes: &[u8]) {
    let Some((what, rest)) = bytes.split_first() else { return };
    match what & 3 {
        0 => request(Kind::Chat, rest),
        1 => request(Kind::Completion, rest),
        2 if what & 4 == 0 => request(Kind::Embeddings, rest),
        2 => request(Kind::Other, rest),
        _ => answer(rest),
    }
}

/// Headers and the body behind them.
fn parts(mut bytes: &[u8]) -> (HeaderMap, Bytes) {
    let mut headers = HeaderMap::new();
    while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
        let line = &bytes[..end];
        bytes = &bytes[end + 1..];
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { break };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let (name, value) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    (headers, Bytes::copy_from_slice(&bytes[..bytes.len().min(MOST_BODY)]))
}

fn request(kind: Kind, bytes: &[u8]) {
    let (headers, body) = parts(bytes);
    // Without a worker: every model is as it is named.
    let router = Router::new(Policies::default(), 1);
    let read = match read(&router, &headers, &body, kind, 0) {
        Ok(read) => read,
        Err(refusal) => {
            sentence(&refusal.message, MOST_WORDS);
            assert_eq!((refusal.status.as_u16(), refusal.kind), (400, "invalid_request"));
            return;
        }
    };
    let question = read.question();
    assert!(!question.partition.model.is_empty());
    let constraints = &read.request.constraints;
    assert!(constraints.preferred_taints.values().all(|weight| weight.is_finite()));
    assert!(read.request.priority_jump >= 0.0);
    // Escapes only make a text longer than it is, and a number takes a byte or more.
    let length = question.length;
    assert!(length.text_bytes + length.token_ids <= body.len() as u64, "{length:?}");
    assert_eq!(question.body.len(), body.len(), "a copy is as long as the body");
    prompt(&read);
}

/// The sources of tokens that are asked: two models, each with and without a cache, and none.
struct Models {
    runtime: Runtime,
    named: Vec<[Arc<ModelTokens>; 2]>,
    none: Arc<ModelTokens>,
}

fn models() -> &'static Models {
    static MODELS: OnceLock<Models> = OnceLock::new();
    MODELS.get_or_init(|| {
        let pool = Arc::new(TokenPool::new(1, 16, Duration::from_secs(60)));
        let load = |settings| {
            let loaded = ModelTokens::load(settings, pool.clone());
            loaded.unwrap_or_else(|error| panic!("{error}"))
        };
        let folder = folder();
        let named = ["chatml", "parts"].map(|name| {
            [1 << 20, 0].map(|cache_bytes| {
                // All on this thread, where a panic is seen.
                let limits = Limits {
                    inline_bytes: usize::MAX,
                    cache_bytes,
                    template_fuel: 200_000,
                    ..Limits::default()
                };
                let tokenizer = Some(folder.join(name));
                load(TokenSettings { tokenizer, limits, ..TokenSettings::default() })
            })
        });
        let runtime = tokio::runtime::Builder::new_current_thread();
        Models {
            runtime: { runtime }.build().expect("a runtime can be had"),
            named: named.into(),
            none: load(TokenSettings::default()),
        }
    })
}

/// The tokenizers that tests have: beside this folder, or beside the crate's that takes this in.
fn folder() -> std::path::PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seen = ["tokens", "../tokens"].map(|folder| here.join(folder));
    seen.into_iter().find(|folder| folder.is_dir()).expect("the tokenizers are there")
}

fn prompt(read: &Read) {
    let models = models();
    let question = read.question();
    let ask = |tokens: &Arc<ModelTokens>| {
        let (found, why) =
            models.runtime.block_on(tokens.tokens(question.kind, question.body, NOW, None));
        checked(&found, why.as_ref(), question.body);
        let mut chain = Vec::new();
        sequence_hashes(&found.tokens, 16, question.scope, &mut chain);
        assert_eq!(chain.len(), found.tokens.len() / 16);
        (found, why.map(|why| why.label()))
    };
    let without = ask(&models.none);
    for [cached, uncached] in &models.named {
        let first = ask(cached);
        assert_eq!(first, ask(cached), "asked again");
        assert_eq!(first, ask(uncached), "without a cache");
        if without.0.source == Source::Client {
            assert_eq!(first, without, "what the client gives needs no tokenizer");
        }
    }
}

fn checked(found: &PromptTokens, why: Option<&Inexact>, body: &[u8]) {
    assert_eq!(found.exact, why.is_none(), "{found:?}: {why:?}");
    assert!(found.tokens.len() as u64 <= found.count, "{found:?}");
    match (found.source, why) {
        (Source::Text, Some(why)) => {
            assert!(!why.to_string().is_empty());
            // The text of a body is no longer than it, but for characters that stand for halves.
            let most = (body.len() as u64 * 3).div_ceil(u64::from(BYTES_PER_TOKEN));
            assert!(found.count <= most, "{} tokens of {} bytes", found.count, body.len());
        }
        (Source::Client | Source::Tokenizer, None) => assert!(found.prompts > 0),
        other => panic!("nobody else was asked: {other:?}"),
    }
}

/// An answer, behind a byte that says how it is cut.
fn answer(bytes: &[u8]) {
    let Some((&cut, answer)) = bytes.split_first() else { return };
    let whole = said([answer]);
    let even = said(answer.chunks(usize::from(cut) + 1));
    assert_eq!(whole, even, "in pieces of {}", usize::from(cut) + 1);
    // Pieces of all lengths, and none at all.
    let uneven = (1..).map(|length: usize| length * 7 % 11).scan(answer, |rest, length| {
        let (piece, left) = rest.split_at(length.min(rest.len()));
        let more = !rest.is_empty();
        *rest = left;
        more.then_some(piece)
    });
    assert_eq!(whole, said(uneven), "in pieces of all lengths");
    agrees(&whole, answer);
}

/// What a JSON document says of its usage is what was read in it, if it says it once.
fn agrees(said: &Said, answer: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Value>(answer) else { return };
    let once = |key: &[u8]| answer.windows(key.len()).filter(|window| *window == key).count() == 1;
    let usage = &document["usage"];
    let prompt = usage["prompt_tokens"].as_u64();
    if prompt.is_some() && once(b"\"prompt_tokens\"") {
        assert_eq!(said.usage.prompt_tokens, prompt, "{usage}");
    }
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
    if cached.is_some() && once(b"\"cached_tokens\"") {
        assert_eq!(said.usage.cached_tokens, cached, "{usage}");
    }
}
