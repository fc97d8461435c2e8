//! The tokens of prompts, before a worker is chosen: what the cache index is asked with.
//!
//! Owns how a request's body becomes the token ids that the engine will make of it. One
//! [`ModelTokens`] serves one model; it is asked once for each request, and its answer says how
//! far it can be trusted:
//!
//! | source | exact | good for |
//! |---|---|---|
//! | client: `prompt: [ids]`, `nvext.token_data` | yes | everything |
//! | tokenizer: the model's `tokenizer.json` and chat template | yes | everything |
//! | engine: its `/tokenize` | yes | everything |
//! | text: chunks of the prompt's text | no | predictions from decisions, never engines' events |
//!
//! What the engine does between a request and its tokens is done here as vLLM does it: `conversation`
//! for messages, `template` for their text, `encode` for its tokens. Some
//! prompts only the engine knows: media, templates that aren't Jinja (harmony, mistral-common,
//! encoders in Python), `/v1/responses`. Those are estimates, and say why.
//!
//! It knows neither workers nor blocks, and sends nothing: whoever asks hands in a way to reach an
//! engine.

mod conversation;
mod encode;
mod model;
mod pool;
mod prompt;
mod remote;
mod settings;
mod source;
mod template;
mod text;

use std::sync::Arc;

pub use encode::PieceStats;
pub use model::ModelError;
pub use pool::{PoolError, TokenPool};
pub use prompt::Kind;
pub use remote::{Answer, PATH as TOKENIZE_PATH, RemoteError, Tokenize, most_answer_bytes};
pub use settings::{Choice, Limits, TokenSettings};
pub use source::{Inexact, ModelTokens};
pub use template::ContentFormat;

/// Where tokens are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The client gave them.
    Client,
    /// The model's tokenizer.
    Tokenizer,
    /// An engine's `/tokenize`.
    Engine,
    /// Chunks of the prompt's text, which aren't tokens.
    Text,
}

impl Source {
    /// A word for it in metrics and receipts.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Tokenizer => "tokenizer",
            Self::Engine => "engine",
            Self::Text => "text",
        }
    }
}

/// A request's prompt in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptTokens {
    /// The tokens, or what stands for them ([`Source::Text`]): of the first prompt, if the request
    /// has several. The first stands for all when caches are looked at.
    pub tokens: Arc<[u32]>,
    /// Tokens of all prompts; of text an estimate, rounded up.
    pub count: u64,
    /// How many prompts the request has.
    pub prompts: usize,
    /// Whether all of that is what the engine will make of it.
    pub exact: bool,
    /// Where it is from.
    pub source: Source,
}

impl PromptTokens {
    fn exact(prompts: Vec<Vec<u32>>, source: Source) -> Self {
        let count = prompts.iter().map(|prompt| prompt.len() as u64).sum();
        let number = prompts.len();
        let first = prompts.into_iter().next().unwrap_or_default();
        Self { tokens: first.into(), count, prompts: number, exact: true, source }
    }

    fn of_first(tokens: Arc<[u32]>, prompts: usize, source: Source) -> Self {
        let count = tokens.len() as u64;
        Self { tokens, count, prompts, exact: true, source }
    }
}

#[cfg(test)]
mod tests;
