//! A request as a policy sees it.

use crate::clock::Moment;
use crate::ids::{DecisionId, WorkerRank, WorkerTarget};
use crate::request::{InputTrigger, RouteRequest, Session};

/// The facts of one request for one decision. Nothing here is text of the prompt.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The decision.
    pub decision_id: DecisionId,
    /// When, and the seed.
    pub moment: Moment,
    /// Prompt length in tokens.
    pub prompt_tokens: u64,
    /// The same in blocks, rounded up.
    pub request_blocks: u64,
    /// Tokens in one block.
    pub block_size: u32,
    /// Whether its prefill tokens are booked.
    pub tracks_prefill_tokens: bool,
    /// Whether any worker had a match in any cache tier.
    pub has_tier_matches: bool,
    /// Sequence hashes of the prompt's whole blocks; empty when its tokens aren't known.
    pub chain: &'a [u64],
    /// The conversation.
    pub session: Option<&'a Session>,
    /// What made the client send this.
    pub trigger: Option<InputTrigger>,
    /// The worker that it is softly bound to.
    pub affinity_target: Option<WorkerTarget>,
    /// The row that it is pinned to; then it is the only one.
    pub pinned_worker: Option<WorkerRank>,
    /// The client's guess of the output length; never zero.
    pub expected_output_tokens: Option<u32>,
    /// Seconds that it may jump.
    pub priority_jump: f64,
    /// Higher goes first.
    pub strict_priority: u32,
    /// Its own temperature.
    pub router_temperature: Option<f64>,
}

impl<'a> RequestView<'a> {
    /// The leading hashes of the prompt, for an instance that declared so many.
    #[must_use]
    pub fn prefix_hashes(&self, declared: u32) -> &'a [u64] {
        self.chain.get(..declared as usize).unwrap_or(self.chain)
    }

    /// The view of `request`.
    #[must_use]
    pub fn new(
        request: &'a RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
        block_size: u32,
        tracks_prefill_tokens: bool,
        pinned_worker: Option<WorkerRank>,
    ) -> Self {
        Self {
            decision_id,
            moment,
            prompt_tokens: request.prompt_tokens,
            request_blocks: request.prompt_tokens.div_ceil(u64::from(block_size.max(1))),
            block_size,
            tracks_prefill_tokens,
            // Until the caches have been looked at.
            has_tier_matches: false,
            chain: &request.chain,
            session: request.session.as_ref(),
            trigger: request.trigger,
            affinity_target: request.affinity_target,
            pinned_worker,
            expected_output_tokens: request.expected_output_tokens.filter(|tokens| *tokens > 0),
            priority_jump: request.priority_jump,
            strict_priority: request.strict_priority,
            router_temperature: request.router_temperature,
        }
    }
}
