//! The text that is generated, and the bytes that carry it: SSE events and whole bodies, field for field as recorded.
//!
//! An event for the same word of the same choice is always the same bytes. So each is put together once a stream, and every
//! further token costs no formatting and no copy.

use std::fmt::Write;

use bytes::Bytes;

use super::engine::{Engine, unix_seconds};
use super::request::{Job, Kind};

/// The vocabulary of the answers: choice `c` counts on from its `c`-th word, so that tests see at once what is missing.
const WORDS: [&str; 8] = [" one", " two", " three", " four", " five", " six", " seven", " eight"];

/// The last event of a good stream.
pub(super) const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// An event whose JSON breaks off.
pub(super) const BROKEN: Bytes =
    Bytes::from_static(b"data: {\"id\":\"chatcmpl-broken\",\"choices\":[{\"index\":0,\"del\n\n");

/// What a vLLM streams when generation fails half-way.
pub(super) const ERROR: Bytes = Bytes::from_static(
    b"data: {\"error\":{\"message\":\"EngineCore encountered an issue.\",\"type\":\"InternalServerError\",\"param\":null,\"code\":500}}\n\n",
);

fn word(choice: usize, step: u32) -> usize {
    (choice + step as usize) % WORDS.len()
}

/// The events of one answer.
#[derive(Debug)]
pub(super) struct Chunks {
    /// From `data: ` up to the list of choices.
    head: String,
    kind: Kind,
    finish: &'static str,
    include_usage: bool,
    /// `,"system_fingerprint":"…"`.
    fingerprint: String,
    /// Token events put together up to now, by choice and word.
    made: Vec<Option<Bytes>>,
}

impl Chunks {
    pub(super) fn new(engine: &Engine, job: &Job, id: &str) -> Self {
        let object = match job.kind {
            Kind::Chat => "chat.completion.chunk",
            Kind::Completion => "text_completion",
        };
        let head = format!(
            "data: {{\"id\":{},\"object\":\"{object}\",\"created\":{},\"model\":{},\"choices\":[",
            quoted(id),
            unix_seconds(),
            quoted(&job.model)
        );
        Self {
            head,
            kind: job.kind,
            finish: job.finish.as_str(),
            include_usage: job.include_usage,
            fingerprint: format!(",\"system_fingerprint\":{}", quoted(&engine.fingerprint)),
            made: vec![None; job.choices * WORDS.len()],
        }
    }

    /// The event that opens a choice of a chat, with its role.
    pub(super) fn role(&self, choice: usize) -> Bytes {
        let head = &self.head;
        Bytes::from(format!(
            "{head}{{\"index\":{choice},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,\
             \"finish_reason\":null}}],\"prompt_token_ids\":null,\"prompt_text\":null}}\n\n"
        ))
    }

    /// The event of one token.
    pub(super) fn token(&mut self, choice: usize, step: u32) -> Bytes {
        let word = word(choice, step);
        let slot = choice * WORDS.len() + word;
        if let Some(Some(made)) = self.made.get(slot) {
            return made.clone();
        }
        let (head, text) = (&self.head, WORDS[word]);
        let event = Bytes::from(match self.kind {
            Kind::Chat => format!(
                "{head}{{\"index\":{choice},\"delta\":{{\"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":null,\
                 \"token_ids\":null}}]}}\n\n"
            ),
            Kind::Completion => format!(
                "{head}{{\"index\":{choice},\"text\":\"{text}\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null,\
                 \"prompt_token_ids\":null,\"token_ids\":null}}]}}\n\n"
            ),
        });
        if let Some(made) = self.made.get_mut(slot) {
            *made = Some(event.clone());
        }
        event
    }

    /// The event of a choice's last token. It carries the fingerprint when no usage event follows.
    pub(super) fn last_token(&self, choice: usize, step: u32) -> Bytes {
        let (head, text, finish) = (&self.head, WORDS[word(choice, step)], self.finish);
        let fingerprint = if self.include_usage { "" } else { &self.fingerprint };
        Bytes::from(match self.kind {
            Kind::Chat => format!(
                "{head}{{\"index\":{choice},\"delta\":{{\"content\":\"{text}\"}},\"logprobs\":null,\
                 \"finish_reason\":\"{finish}\",\"stop_reason\":null,\"token_ids\":null}}]{fingerprint}}}\n\n"
            ),
            Kind::Completion => format!(
                "{head}{{\"index\":{choice},\"text\":\"{text}\",\"logprobs\":null,\"finish_reason\":\"{finish}\",\
                 \"stop_reason\":null,\"prompt_token_ids\":null,\"token_ids\":null}}]{fingerprint}}}\n\n"
            ),
        })
    }

    /// The event with the token counts.
    pub(super) fn usage(&self, usage: Usage) -> Bytes {
        let Usage { prompt, completion, cached } = usage;
        let created = if self.kind == Kind::Chat { ",\"created_cache_tokens\":0" } else { "" };
        Bytes::from(format!(
            "{}],\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":{},\"completion_tokens\":{completion},\
             \"prompt_tokens_details\":{{\"cached_tokens\":{cached}{created}}}}}{}}}\n\n",
            self.head,
            prompt + completion,
            self.fingerprint
        ))
    }
}

/// The token counts of one answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    pub(super) prompt: u64,
    pub(super) completion: u64,
    /// Prompt tokens found in the prefix cache.
    pub(super) cached: u64,
}

impl Usage {
    pub(super) fn of(job: &Job, cached: u64) -> Self {
        Self {
            prompt: job.prompt_tokens() as u64,
            completion: job.choices as u64 * u64::from(job.tokens),
            cached,
        }
    }
}

/// The body of an answer that isn't streamed.
/// `kept` is what it says of a prompt that is kept for another engine, as JSON.
pub(super) fn whole(
    engine: &Engine,
    job: &Job,
    cached: u64,
    id: &str,
    kept: Option<&str>,
) -> Bytes {
    let Usage { prompt, completion, cached } = Usage::of(job, cached);
    let (object, created_cache, tail) = match job.kind {
        Kind::Chat => (
            "chat.completion",
            "0",
            "\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"prompt_text\":null,",
        ),
        Kind::Completion => ("text_completion", "null", ""),
    };
    let mut choices = String::new();
    for choice in 0..job.choices {
        push_choice(&mut choices, job, choice);
    }
    Bytes::from(format!(
        "{{\"id\":{},\"object\":\"{object}\",\"created\":{},\"model\":{},\"choices\":[{choices}],\"service_tier\":null,\
         \"system_fingerprint\":{},\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":{},\
         \"completion_tokens\":{completion},\"prompt_tokens_details\":{{\"cached_tokens\":{cached},\
         \"created_cache_tokens\":{created_cache},\"multimodal_tokens\":null}},\"completion_tokens_details\":null}},{tail}\
         \"kv_transfer_params\":{},\"ec_transfer_params\":null,\"metrics\":null}}",
        quoted(id),
        unix_seconds(),
        quoted(&job.model),
        quoted(&engine.fingerprint),
        prompt + completion,
        kept.unwrap_or("null"),
    ))
}

fn push_choice(out: &mut String, job: &Job, choice: usize) {
    let text: String = (0..job.tokens).map(|step| WORDS[word(choice, step)]).collect();
    let comma = if choice == 0 { "" } else { "," };
    let finish = job.finish.as_str();
    // Writing into a String can't fail.
    let _ = match job.kind {
        Kind::Chat => write!(
            out,
            "{comma}{{\"index\":{choice},\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\",\"refusal\":null,\
             \"annotations\":null,\"audio\":null,\"function_call\":null,\"reasoning\":null}},\"logprobs\":null,\
             \"finish_reason\":\"{finish}\",\"stop_reason\":null,\"token_ids\":null,\"routed_experts\":null}}"
        ),
        Kind::Completion => write!(
            out,
            "{comma}{{\"index\":{choice},\"text\":\"{text}\",\"logprobs\":null,\"finish_reason\":\"{finish}\",\
             \"stop_reason\":null,\"token_ids\":null,\"prompt_logprobs\":null,\"prompt_token_ids\":null,\
             \"routed_experts\":null}}"
        ),
    };
}

/// The identity of one answer: what the client asked for in `x-request-id`, else sixteen random digits.
pub(super) fn answer_id(prefix: &str, asked: Option<&str>) -> String {
    match asked {
        Some(asked) => format!("{prefix}-{asked}"),
        None => format!("{prefix}-{:016x}", uuid::Uuid::new_v4().as_u64_pair().0),
    }
}

/// A string as JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
