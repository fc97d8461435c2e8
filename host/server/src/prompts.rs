//! Prompts: from a client's body to what routing needs of it, a length and a chain of hashes.
//!
//! Owns which of a model's sources of tokens is asked and what becomes of its answer: the blocks'
//! sequence hashes under the request's [`Scope`], of the partition's block size. Both listeners ask
//! it, once for a request, before its first decision; tries elsewhere take the same chain.
//!
//! It never fails a request. Where nobody knows the tokens, the prompt's length is estimated and
//! chunks of its text stand for tokens: good for finding the worker that a like prompt was sent to,
//! and never taken for what an engine has ([`crate::tokens`] says why).
//!
//! # Engines that are asked
//!
//! A model whose settings say so has its prompts tokenised by one of its engines, which costs a
//! round trip. So has one that nothing is set for, as soon as its engines tell of their caches:
//! what they tell can't be matched without tokens. An engine that fails is left alone for a second,
//! then longer, up to half a minute; meanwhile the text stands in.
//!
//! It doesn't know HTTP's requests, policies, or what the hashes are looked up in.

mod engine;
mod mood;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use pointsman_core::cache::shared_beyond;
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ids::PartitionKey;
use pointsman_core::partition::Partition;
use pointsman_core::request::RouteRequest;
use thiserror::Error;

use crate::config::{Config, ProxyConfig, TokenizerPool};
use crate::dispatch::Dispatcher;
use crate::shared_cache::SharedHits;
use crate::telemetry::Metrics;
use crate::tokens::{
    Choice, Inexact, Kind, ModelError, ModelTokens, PromptTokens, Source, TokenPool, TokenSettings,
    Tokenize,
};
use engine::Engines;
use mood::Moods;

/// Why there are no tokens where an engine is to be asked, and none can be.
const NOBODY_TO_ASK: &str =
    "no worker of the model is ready to be asked for tokens; see GET /v1/workers";

/// How long a prompt is, as far as that shows without its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Length {
    /// Bytes of text, escapes resolved.
    pub text_bytes: u64,
    /// Token ids.
    pub token_ids: u64,
}

impl Length {
    /// In tokens, if so many bytes of text make one.
    #[must_use]
    pub fn tokens(&self, bytes_per_token: u32) -> u64 {
        self.token_ids + self.text_bytes.div_ceil(u64::from(bytes_per_token.max(1)))
    }

    /// Whether nothing of it is an estimate.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.text_bytes == 0 && self.token_ids > 0
    }
}

/// What is known of a request's prompt.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    /// Its length in tokens, over all prompts of the request.
    pub tokens: u64,
    /// Whether that is what the engine will count.
    pub exact: bool,
    /// Sequence hashes of the first prompt's whole blocks.
    pub chain: Arc<[u64]>,
    /// Tokens in one of these blocks.
    pub block_size: u32,
    /// Where its tokens are from; none if nobody looked for them.
    pub source: Option<Source>,
    /// Prompts in the request.
    pub prompts: usize,
    /// Why it isn't exact, in words.
    pub inexact: Option<String>,
    /// What the cache that all workers share holds of it; none if it wasn't asked, or didn't answer.
    pub shared_hits: Option<SharedHits>,
}

impl Prompt {
    /// One that nobody has looked into.
    #[must_use]
    pub fn unread(length: Length) -> Self {
        let tokens = length.tokens(TokenSettings::default().bytes_per_token);
        Self { tokens, exact: length.is_exact(), prompts: 1, ..Self::default() }
    }

    /// The same as if nobody had looked for its tokens.
    #[must_use]
    pub(crate) fn not_looked_for(&self) -> Self {
        Self { source: None, shared_hits: None, ..self.clone() }
    }

    /// Tells the request.
    pub fn describe(&self, request: &mut RouteRequest) {
        request.prompt_tokens = self.tokens;
        request.prompt_tokens_exact = self.exact;
        request.chain = self.chain.clone();
        request.shared_hits = self.shared_hits.clone().unwrap_or_default();
    }

    /// How many blocks the shared cache holds beyond so many on a worker's device.
    #[must_use]
    pub fn shared_beyond(&self, device_blocks: u64) -> Option<u64> {
        self.shared_hits.as_ref().map(|hits| beyond(hits, device_blocks))
    }

    fn of(tokens: &PromptTokens, block_size: u32, scope: Scope) -> Self {
        let mut chain = Vec::new();
        sequence_hashes(&tokens.tokens, block_size, scope, &mut chain);
        Self {
            tokens: tokens.count,
            exact: tokens.exact,
            chain: chain.into(),
            block_size,
            source: Some(tokens.source),
            prompts: tokens.prompts,
            inexact: None,
            shared_hits: None,
        }
    }
}

/// A client's request, as far as it concerns the prompt.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Where it belongs.
    pub partition: &'a PartitionKey,
    /// What it is.
    pub kind: Kind,
    /// Its body: one JSON object.
    pub body: &'a Bytes,
    /// What its blocks are cached under.
    pub scope: Scope,
    /// How long its prompt is.
    pub length: Length,
}

/// A model's files can't be used.
#[derive(Debug, Error)]
#[error("model {model:?}: {source}")]
pub struct LoadError {
    /// The model.
    pub model: Arc<str>,
    /// Why.
    pub source: ModelError,
}

/// The sources of one model's tokens.
#[derive(Clone, Debug)]
struct Model {
    tokens: Arc<ModelTokens>,
    /// The same with its engines asked, for a model that has no tokenizer and leaves the choice.
    asking: Option<Arc<ModelTokens>>,
    asks: bool,
    asks_always: bool,
    bytes_per_token: u32,
}

/// The sources of all models' tokens: files that have been read.
#[derive(Debug)]
pub struct Models {
    named: BTreeMap<Arc<str>, Model>,
    other: Model,
}

impl Models {
    /// Reads the files that the settings name. Takes a while, so call it where waiting is allowed.
    ///
    /// # Errors
    ///
    /// All models whose files can't be used; at least one.
    pub fn load(config: &Config) -> Result<Self, Vec<LoadError>> {
        let TokenizerPool { threads, queue, timeout } = config.tokenizer_pool;
        let pool = Arc::new(TokenPool::new(threads, queue, timeout));
        let (mut named, mut problems) = (BTreeMap::new(), Vec::new());
        let mut load = |model: &Arc<str>, settings: &TokenSettings| {
            let loaded = Model::load(settings, &pool);
            loaded.map_err(|source| problems.push(LoadError { model: model.clone(), source })).ok()
        };
        for (model, settings) in &config.tokenizers {
            if let Some(loaded) = load(model, settings) {
                named.insert(model.clone(), loaded);
            }
        }
        match load(&Arc::from(""), &TokenSettings::default()) {
            Some(other) if problems.is_empty() => Ok(Self { named, other }),
            _ => Err(problems),
        }
    }

    fn of(&self, model: &str) -> &Model {
        self.named.get(model).unwrap_or(&self.other)
    }
}

impl Model {
    fn load(settings: &TokenSettings, pool: &Arc<TokenPool>) -> Result<Self, ModelError> {
        let undecided = settings.source == Choice::Auto && settings.tokenizer.is_none();
        let load =
            |source| ModelTokens::load(TokenSettings { source, ..settings.clone() }, pool.clone());
        Ok(Self {
            tokens: load(settings.source)?,
            asking: undecided.then(|| load(Choice::Engine)).transpose()?,
            asks: matches!(settings.source, Choice::Auto | Choice::Engine),
            asks_always: settings.source == Choice::Engine,
            bytes_per_token: settings.bytes_per_token,
        })
    }
}

/// Finds out about prompts.
#[derive(Debug)]
pub struct Prompter {
    models: Models,
    dispatcher: Arc<Dispatcher>,
    metrics: Arc<Metrics>,
    engines: Engines,
    moods: Moods,
}

impl Prompter {
    /// One for the models that the dispatcher's workers serve.
    #[must_use]
    pub fn new(
        models: Models,
        dispatcher: Arc<Dispatcher>,
        metrics: Arc<Metrics>,
        config: &ProxyConfig,
    ) -> Self {
        let engines = Engines::new(config.connect_timeout, config.worker_token.as_ref());
        Self { models, dispatcher, metrics, engines, moods: Moods::default() }
    }

    /// What there is to know of a client's prompt.
    pub async fn prompt(&self, question: Question<'_>) -> Prompt {
        let Question { partition: key, kind, body, scope, length } = question;
        // A stranger's name gets no work done: the request will be refused.
        let Some(partition) = self.dispatcher.router().partition(key) else {
            return Prompt::unread(length);
        };
        let model = self.models.of(&key.model);
        let now_ms = self.dispatcher.clock().now_ms();
        let tells = || self.tells(&partition);
        let mood = self.moods.of(&key.model, now_ms, model.asking.is_some(), tells);
        let tokens = match &model.asking {
            Some(asking) if mood.tells => asking,
            _ => &model.tokens,
        };
        let engine = (model.asks && !mood.rests).then(|| self.engines.of(&partition)).flatten();
        let engine = engine.as_ref().map(|engine| -> &dyn Tokenize { engine });
        let (tokens, why) = tokens.tokens(kind, body, unix_seconds(), engine).await;
        let rests = mood.rests && (model.asks_always || mood.tells);
        self.note(&key.model, rests, tokens.source, why.as_ref());
        let mut prompt = Prompt::of(&tokens, partition.block_size(), scope);
        if tokens.source == Source::Text {
            // Of a picture the text has every byte, and the length none.
            prompt.tokens = length.tokens(model.bytes_per_token);
        }
        let asks = model.asks_always || (model.asking.is_some() && mood.tells);
        prompt.inexact = why.map(|why| match why {
            Inexact::NoTokenizer if rests => self.moods.why_rests(&key.model),
            Inexact::NoTokenizer if asks => NOBODY_TO_ASK.to_owned(),
            why => why.to_string(),
        });
        prompt
    }

    /// What there is to know of a prompt that nobody reads: its length, by the model's settings.
    #[must_use]
    pub fn unread(&self, model: &str, length: Length) -> Prompt {
        let tokens = length.tokens(self.models.of(model).bytes_per_token);
        Prompt { tokens, ..Prompt::unread(length) }
    }

    /// What there is to know of a prompt whose tokens are given.
    #[must_use]
    pub fn of_ids(&self, partition: &PartitionKey, ids: &[u32], scope: Scope) -> Prompt {
        let found = self.dispatcher.router().partition(partition);
        let tokens = PromptTokens {
            tokens: ids.into(),
            count: ids.len() as u64,
            prompts: 1,
            exact: true,
            source: Source::Client,
        };
        Prompt::of(&tokens, found.map_or(0, |partition| partition.block_size()), scope)
    }

    /// Forgets what was noted of models that aren't served any more.
    pub fn keep_models(&self, served: impl Fn(&str) -> bool) {
        self.moods.keep(served);
    }

    /// Whether an engine's word on its cache is there to be matched.
    fn tells(&self, partition: &Partition) -> bool {
        let rows = &partition.ledger().snapshot().rows;
        self.dispatcher.router().settings().use_kv_events
            && rows.iter().any(|&rank| partition.cache().tells(rank))
    }

    /// Counts where the tokens are from, and tells the log why they aren't better.
    fn note(&self, model: &Arc<str>, rests: bool, source: Source, why: Option<&Inexact>) {
        self.metrics.predictions().prompted(model, source.label());
        let now_ms = self.dispatcher.clock().now_ms();
        match why {
            None if source == Source::Engine => self.moods.engine_answered(model),
            None => {}
            Some(why) => {
                let reason = match why {
                    Inexact::NoTokenizer if rests => "engine_rests",
                    why => why.label(),
                };
                self.metrics.predictions().estimated(model, reason);
                if let Inexact::Remote(error) = why
                    && engine::is_its_fault(error)
                {
                    self.moods.engine_failed(model, now_ms, error.to_string());
                }
                if is_ordinary(why) {
                    tracing::debug!(%model, reason, %why, "a prompt's tokens are estimated");
                } else if let Some(more) = self.moods.complain(model, reason, now_ms) {
                    tracing::warn!(
                        %model,
                        reason,
                        %why,
                        since_the_last_line = more,
                        "a prompt's tokens are estimated; more of this is logged in a minute at the earliest"
                    );
                }
            }
        }
    }
}

/// Whether nothing is wrong with the router or its settings.
fn is_ordinary(why: &Inexact) -> bool {
    matches!(
        why,
        Inexact::NoTokenizer
            | Inexact::OwnTemplate
            | Inexact::Prompt(_)
            | Inexact::Conversation(_)
            | Inexact::TooLong { .. }
    ) || matches!(why.label(), "bad_prompt")
}

/// How many blocks there are beyond so many on a worker's device, of those that a shared cache holds.
pub(crate) fn beyond(hits: &SharedHits, device_blocks: u64) -> u64 {
    shared_beyond(hits, u32::try_from(device_blocks).unwrap_or(u32::MAX))
}

fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or_default()
}
