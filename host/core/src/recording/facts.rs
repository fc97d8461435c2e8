//! The facts of a request, kept.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::exact;
use crate::clock::Moment;
use crate::ids::{DecisionId, WorkerRank, WorkerTarget, as_decimal, from_decimal};
use crate::policy::view::RequestView;
use crate::request::{InputTrigger, Session};

/// What a policy was told of a request. Nothing here is text of the prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The decision.
    pub decision_id: DecisionId,
    /// Milliseconds on the router's clock.
    pub now_ms: u64,
    /// The seed; in JSON its decimal digits in a text, since it takes all 64 bits.
    #[serde(serialize_with = "as_decimal", deserialize_with = "from_decimal")]
    pub seed: u64,
    /// Prompt length in tokens.
    pub prompt_tokens: u64,
    /// The same in blocks, rounded up.
    pub request_blocks: u64,
    /// Tokens in one block.
    pub block_size: u32,
    /// Whether its prefill tokens are booked.
    pub tracks_prefill_tokens: bool,
    /// Whether any worker had a match in any cache tier; none if nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_tier_matches: Option<bool>,
    /// Sequence hashes of the prompt's leading blocks, as many as some policy asked for; in JSON as
    /// decimal digits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(serialize_with = "as_decimals", deserialize_with = "from_decimals")]
    pub prefix_hashes: Vec<u64>,
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// What made the client send this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<InputTrigger>,
    /// The worker that it was softly bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_target: Option<WorkerTarget>,
    /// The row that it was pinned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_worker: Option<WorkerRank>,
    /// The client's guess of the output length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_output_tokens: Option<u32>,
    /// Seconds that it might jump.
    #[serde(default, deserialize_with = "exact::one")]
    pub priority_jump: f64,
    /// Higher goes first.
    #[serde(default)]
    pub strict_priority: u32,
    /// Its own temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "exact::optional")]
    pub router_temperature: Option<f64>,
}

impl Facts {
    /// The facts of a view, with so many leading hashes.
    #[must_use]
    pub fn of(view: &RequestView<'_>, hashes: u32) -> Self {
        let mut facts = Self::default();
        facts.take(view, hashes);
        facts
    }

    /// Becomes the facts of a view, in the memory that these have: each is written where it stays.
    pub(super) fn take(&mut self, view: &RequestView<'_>, hashes: u32) {
        self.decision_id = view.decision_id;
        self.now_ms = view.moment.now_ms;
        self.seed = view.moment.seed;
        self.prompt_tokens = view.prompt_tokens;
        self.request_blocks = view.request_blocks;
        self.block_size = view.block_size;
        self.tracks_prefill_tokens = view.tracks_prefill_tokens;
        self.has_tier_matches = None;
        self.prefix_hashes.clear();
        self.prefix_hashes.extend_from_slice(view.prefix_hashes(hashes));
        self.session = view.session.cloned();
        self.trigger = view.trigger;
        self.affinity_target = view.affinity_target;
        self.pinned_worker = view.pinned_worker;
        self.expected_output_tokens = view.expected_output_tokens;
        self.priority_jump = view.priority_jump;
        self.strict_priority = view.strict_priority;
        self.router_temperature = view.router_temperature;
    }

    /// Becomes what others are, in the memory that these have.
    pub(super) fn copy_from(&mut self, others: &Self) {
        self.take(&others.view(false), u32::MAX);
        self.has_tier_matches = others.has_tier_matches;
    }

    /// When it was, and the seed.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment { now_ms: self.now_ms, seed: self.seed }
    }

    /// The view, as a policy has it that reads what caches hold, or doesn't.
    #[must_use]
    pub fn view(&self, reads_caches: bool) -> RequestView<'_> {
        RequestView {
            decision_id: self.decision_id,
            moment: self.moment(),
            prompt_tokens: self.prompt_tokens,
            request_blocks: self.request_blocks,
            block_size: self.block_size,
            tracks_prefill_tokens: self.tracks_prefill_tokens,
            has_tier_matches: reads_caches && self.has_tier_matches.unwrap_or(false),
            chain: &self.prefix_hashes,
            session: self.session.as_ref(),
            trigger: self.trigger,
            affinity_target: self.affinity_target,
            pinned_worker: self.pinned_worker,
            expected_output_tokens: self.expected_output_tokens,
            priority_jump: self.priority_jump,
            strict_priority: self.strict_priority,
            router_temperature: self.router_temperature,
        }
    }
}

fn as_decimals<S: Serializer>(numbers: &[u64], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(numbers.iter().map(u64::to_string))
}

fn from_decimals<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(|_| not_decimal(text))).collect()
}

fn not_decimal<E: de::Error>(text: &str) -> E {
    E::invalid_value(de::Unexpected::Str(text), &"the decimal digits of a 64-bit number")
}
