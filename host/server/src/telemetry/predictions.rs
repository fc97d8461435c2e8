//! What was predicted of caches, and what engines said of them afterwards.
//!
//! Owns the metrics that show whether the router knows what its workers hold: where prompts' tokens
//! are from, how many of them it expected to be cached, how many the engines say were, and how far
//! the two are apart. Also the one warning for a model whose exact counts aren't its engine's.
//!
//! What an engine doesn't report is not observed, and counts nowhere: some versions write nothing
//! where nothing was cached, so that zeros are missing from what is compared.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_core::receipt::Receipt;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use super::metrics::{keep_models, registered};
use super::names;
use super::receipts::{Record, Usage};
use crate::tokens::Source;

/// Upper bounds in tokens for how far a prediction is off: one block to a long prompt.
const ERROR_BOUNDS: &[f64] =
    &[0.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0, 16_384.0, 65_536.0];

/// The families.
#[derive(Debug)]
pub struct Predictions {
    prompts: IntCounterVec,
    estimates: IntCounterVec,
    predicted: IntCounterVec,
    selected_raw: IntCounterVec,
    most_raw: IntCounterVec,
    reported_prompt: IntCounterVec,
    reported_cached: IntCounterVec,
    verdicts: IntCounterVec,
    compared: IntCounterVec,
    error: HistogramVec,
    differing: IntCounterVec,
    /// Models that the log was warned of.
    warned: Mutex<BTreeSet<Arc<str>>>,
}

impl Predictions {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let by_tokens = [names::MODEL, "tokens"];
        Self {
            prompts: counter(
                names::PROMPTS,
                "Prompts, by where their tokens are from",
                &[names::MODEL, "source"],
            ),
            estimates: counter(
                names::PROMPT_ESTIMATES,
                "Prompts whose tokens aren't exact, by why",
                &[names::MODEL, "reason"],
            ),
            predicted: counter(
                names::PREDICTED_CACHED_TOKENS,
                "Prompt tokens that chosen workers were expected to have cached",
                &by_tokens,
            ),
            selected_raw: counter(
                names::SELECTED_RAW_CACHED_TOKENS,
                "Prompt tokens that chosen workers were thought to hold in any tier",
                &[names::MODEL],
            ),
            most_raw: counter(
                names::MAX_RAW_CACHED_TOKENS,
                "Prompt tokens that the workers were thought to hold which held most and could have been chosen",
                &[names::MODEL],
            ),
            reported_prompt: counter(
                names::REPORTED_PROMPT_TOKENS,
                "Prompt tokens that engines counted",
                &[names::MODEL],
            ),
            reported_cached: counter(
                names::REPORTED_CACHED_TOKENS,
                "Prompt tokens that engines took from their caches",
                &[names::MODEL],
            ),
            verdicts: counter(
                names::CACHE_PREDICTIONS,
                "Predictions that an engine's report could be compared with, by what it showed",
                &[names::MODEL, "tokens", "verdict"],
            ),
            compared: counter(
                names::COMPARED_CACHED_TOKENS,
                "Cached prompt tokens of the answers that could be compared, by who says so",
                &[names::MODEL, "tokens", "by"],
            ),
            error: registered(
                registry,
                HistogramVec::new(
                    HistogramOpts::new(
                        names::CACHE_PREDICTION_ERROR,
                        "How many tokens a prediction was off, either way",
                    )
                    .buckets(ERROR_BOUNDS.to_vec()),
                    &by_tokens,
                ),
            ),
            differing: counter(
                names::DIFFERING_PROMPT_TOKENS,
                "Prompts whose exact length isn't the engine's",
                &[names::MODEL],
            ),
            warned: Mutex::default(),
        }
    }

    /// A prompt was read.
    pub fn prompted(&self, model: &str, source: &str) {
        self.prompts.with_label_values(&[model, source]).inc();
    }

    /// Its tokens aren't exact.
    pub fn estimated(&self, model: &str, reason: &str) {
        self.estimates.with_label_values(&[model, reason]).inc();
    }

    /// A worker was chosen for a prompt that was looked up.
    pub(super) fn predicted(&self, receipt: &Receipt) {
        let labels = [&*receipt.partition.model, tokens(receipt)];
        self.predicted.with_label_values(&labels).inc_by(receipt.predicted_cached_tokens);
        if let Some(most) = receipt.max_raw_cached_tokens {
            let model = [&*receipt.partition.model];
            let selected = receipt.selected_raw_cached_tokens;
            self.selected_raw.with_label_values(&model).inc_by(selected);
            self.most_raw.with_label_values(&model).inc_by(most);
        }
    }

    /// An engine's report came with an answer.
    pub(super) fn reported(&self, record: &Record, usage: Usage) {
        let receipt = record.receipt();
        let model = &*receipt.partition.model;
        if let Some(prompt) = usage.prompt_tokens {
            self.reported_prompt.with_label_values(&[model]).inc_by(prompt);
            if receipt.prompt_tokens_exact && prompt != receipt.prompt_tokens {
                self.differs(record, prompt);
            }
        }
        let Some(cached) = usage.cached_tokens else { return };
        self.reported_cached.with_label_values(&[model]).inc_by(cached);
        if !record.is_comparable() {
            return;
        }
        let (predicted, tokens) = (receipt.predicted_cached_tokens, tokens(receipt));
        let verdict = match predicted.cmp(&cached) {
            std::cmp::Ordering::Less => "under",
            std::cmp::Ordering::Equal => "right",
            std::cmp::Ordering::Greater => "over",
        };
        self.verdicts.with_label_values(&[model, tokens, verdict]).inc();
        self.compared.with_label_values(&[model, tokens, "router"]).inc_by(predicted);
        self.compared.with_label_values(&[model, tokens, "engine"]).inc_by(cached);
        let off = predicted.abs_diff(cached);
        self.error.with_label_values(&[model, tokens]).observe(off as f64);
    }

    fn differs(&self, record: &Record, reported: u64) {
        let receipt = record.receipt();
        let model = &receipt.partition.model;
        self.differing.with_label_values(&[&**model]).inc();
        if self.warned.lock().insert(model.clone()) {
            let source = record.prompt_source();
            let remedy = if source == Some(Source::Client.label()) {
                "the client's tokens are to be those that the engine makes of the prompt"
            } else {
                "give the tokenizer and the chat template that the engine uses"
            };
            tracing::warn!(
                %model,
                counted = receipt.prompt_tokens,
                reported,
                source,
                "a prompt's tokens aren't those that the engine counts, so its cache can't be \
                 predicted; {remedy} (this is logged once)"
            );
        }
    }

    pub(super) fn keep_models(&self, served: &impl Fn(&str) -> bool) {
        let counters = [
            &self.prompts,
            &self.estimates,
            &self.predicted,
            &self.selected_raw,
            &self.most_raw,
            &self.reported_prompt,
            &self.reported_cached,
            &self.verdicts,
            &self.compared,
            &self.differing,
        ];
        counters.into_iter().for_each(|counter| keep_models(counter, served));
        keep_models(&self.error, served);
        self.warned.lock().retain(|model| served(model));
    }
}

/// What a prediction was made from.
fn tokens(receipt: &Receipt) -> &'static str {
    if receipt.prompt_tokens_exact { "exact" } else { "estimated" }
}
