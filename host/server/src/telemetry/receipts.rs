//! The latest decisions, for whoever asks what the router has been doing.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pointsman_core::receipt::Receipt;
use serde::{Serialize, Serializer};

/// So many are remembered: a few seconds of busy traffic, in under a megabyte.
const MOST_RECEIPTS: usize = 1_024;

/// What an engine counted, by its answer. None is what it didn't say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many tokens the prompt has.
    pub prompt_tokens: Option<u64>,
    /// How many of them it took from its cache.
    pub cached_tokens: Option<u64>,
    /// How many tokens the answer has.
    pub completion_tokens: Option<u64>,
}

/// A receipt, with what became known around it.
#[derive(Debug)]
pub struct Record {
    receipt: Arc<Receipt>,
    /// Where the prompt's tokens are from; none if nobody looked for them.
    prompt_source: Option<&'static str>,
    /// Prompts in the request.
    prompts: usize,
    /// Blocks that the shared cache has beyond the chosen worker's device; none if it wasn't asked,
    /// or didn't answer.
    shared_blocks: Option<u64>,
    /// Workers that the request had been sent to before, in vain.
    hop: usize,
    /// Milliseconds for which the request waited for the decision; none if it didn't.
    queued_ms: Option<u64>,
    reported: OnceLock<Usage>,
}

impl Record {
    /// Of a decision for a request with so many prompts.
    #[must_use]
    pub fn new(receipt: Arc<Receipt>, prompt_source: Option<&'static str>, prompts: usize) -> Self {
        let reported = OnceLock::new();
        Self {
            receipt,
            prompt_source,
            prompts,
            shared_blocks: None,
            hop: 0,
            queued_ms: None,
            reported,
        }
    }

    /// The same with what the shared cache has beyond the chosen worker's device.
    #[must_use]
    pub fn with_shared_blocks(self, shared_blocks: Option<u64>) -> Self {
        Self { shared_blocks, ..self }
    }

    /// The same for a request that so many workers have been tried for in vain.
    #[must_use]
    pub fn with_hop(self, hop: usize) -> Self {
        Self { hop, ..self }
    }

    /// The same for a request that has waited for so many milliseconds, if it has.
    #[must_use]
    pub fn with_queued(self, queued_ms: Option<u64>) -> Self {
        Self { queued_ms, ..self }
    }

    /// For how many milliseconds its request waited in the line; none if it didn't.
    #[must_use]
    pub(crate) fn queued_ms(&self) -> Option<u64> {
        self.queued_ms
    }

    /// The receipt.
    #[must_use]
    pub fn receipt(&self) -> &Arc<Receipt> {
        &self.receipt
    }

    /// A word for where the prompt's tokens are from.
    #[must_use]
    pub fn prompt_source(&self) -> Option<&'static str> {
        self.prompt_source
    }

    /// Blocks that the shared cache has beyond the chosen worker's device; none if it wasn't asked,
    /// or didn't answer.
    #[must_use]
    pub fn shared_blocks(&self) -> Option<u64> {
        self.shared_blocks
    }

    /// What the engine said; none as long as it has said nothing.
    #[must_use]
    pub fn reported(&self) -> Usage {
        self.reported.get().copied().unwrap_or_default()
    }

    /// Whether it was predicted how much of the prompt is cached: the prompt was read, and looked up.
    #[must_use]
    pub fn is_predicted(&self) -> bool {
        self.prompt_source.is_some() && !self.receipt.hosted
    }

    /// Whether the prediction is for all that an engine reports: of several prompts only the first
    /// is looked up.
    pub(super) fn is_comparable(&self) -> bool {
        self.is_predicted() && self.prompts == 1
    }

    pub(super) fn report(&self, usage: Usage) {
        // An answer ends once.
        let _ = self.reported.set(usage);
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a> {
            #[serde(flatten)]
            receipt: &'a Receipt,
            prompt_source: Option<&'static str>,
            shared_blocks: Option<u64>,
            hop: usize,
            queued_ms: Option<u64>,
            reported_prompt_tokens: Option<u64>,
            reported_cached_tokens: Option<u64>,
            reported_completion_tokens: Option<u64>,
        }
        let Usage { prompt_tokens, cached_tokens, completion_tokens } = self.reported();
        let flat = Flat {
            receipt: &self.receipt,
            prompt_source: self.prompt_source,
            shared_blocks: self.shared_blocks,
            hop: self.hop,
            queued_ms: self.queued_ms,
            reported_prompt_tokens: prompt_tokens,
            reported_cached_tokens: cached_tokens,
            reported_completion_tokens: completion_tokens,
        };
        flat.serialize(serializer)
    }
}

/// A bounded memory of receipts; the oldest is forgotten first.
#[derive(Debug, Default)]
pub struct Receipts {
    latest: Mutex<VecDeque<Arc<Record>>>,
}

impl Receipts {
    /// Remembers one.
    pub fn push(&self, record: Arc<Record>) {
        let mut latest = self.latest.lock();
        let forgotten = if latest.len() < MOST_RECEIPTS { None } else { latest.pop_front() };
        latest.push_back(record);
        drop(latest);
        // Freed when nobody waits for it any more.
        drop(forgotten);
    }

    /// The latest, newest first, at most `most`.
    #[must_use]
    pub fn recent(&self, most: usize) -> Vec<Arc<Record>> {
        self.latest.lock().iter().rev().take(most).cloned().collect()
    }
}
