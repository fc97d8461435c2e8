//! A request on its way to a worker: facts only, validated, transport-free.
//!
//! The server makes one from HTTP; the core reads it. It holds no prompt text: what routing needs
//! of the prompt is its length and the hashes of its blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{PartitionKey, WorkerId, WorkerTarget};

/// The longest session id that is taken, in bytes; a longer one counts as absent.
pub const MAX_SESSION_ID_BYTES: usize = 256;

/// What made the client send a request, where known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputTrigger {
    /// A person, or a program in a person's place, said something.
    UserMessage,
    /// A tool's result went back to the model.
    ToolResult,
    /// Anything else.
    Other,
}

/// The conversation that a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its id, as the client gave it: at most [`MAX_SESSION_ID_BYTES`].
    pub id: Arc<str>,
    /// The session that started this one, for subagents.
    pub parent_id: Option<Arc<str>>,
    /// Whether this is its last request; none when the client didn't say.
    pub is_final: Option<bool>,
    /// Whether its cached blocks may be dropped; none when the client didn't say.
    pub evict: Option<bool>,
}

/// Which workers may have the request. The default allows all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraints {
    /// Only these workers; none is all.
    pub allowed: Option<BTreeSet<WorkerId>>,
    /// Not these: workers that this request has already failed on.
    pub tried: BTreeSet<WorkerId>,
    /// Exactly this one.
    pub pinned: Option<WorkerTarget>,
    /// The LoRA adapter that it is for: only workers that have it, unless none of those that are
    /// allowed has.
    pub adapter: Option<Arc<str>>,
    /// Taints that the worker must have.
    pub required_taints: BTreeSet<String>,
    /// Taints that weigh in the worker's favour (or, negative, against it), each a finite number.
    pub preferred_taints: BTreeMap<String, f64>,
}

impl Constraints {
    /// Whether every worker may have the request that is ready for any.
    #[must_use]
    pub fn exclude_nobody(&self) -> bool {
        self.allowed.is_none()
            && self.pinned.is_none()
            && self.adapter.is_none()
            && self.tried.is_empty()
            && self.required_taints.is_empty()
    }
}

/// On which terms a request waits for its decision, where it has to. The default asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulingTerms {
    /// The family or explicit class that it asks for; none, or one that there isn't, is the default.
    pub policy_class: Option<Arc<str>>,
    /// When it came to the router, in milliseconds on its clock; none is when it has to wait. A
    /// request that is tried elsewhere keeps its place by that.
    pub arrived_at_ms: Option<u64>,
    /// When it has to be decided, in milliseconds on the router's clock; none is any time.
    pub due_at_ms: Option<u64>,
    /// What serving it costs its class, in place of the prompt tokens that its best worker would
    /// have to compute.
    pub scheduling_cost_tokens: Option<NonZeroU64>,
    /// It is to fail where it would have to wait.
    pub do_not_queue: bool,
}

/// A request to be routed.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRequest {
    /// The client's or the router's id for it; for logs and receipts.
    pub request_id: Arc<str>,
    /// Where it belongs.
    pub partition: PartitionKey,
    /// The prompt's length in tokens; an estimate when `prompt_tokens_exact` is false.
    pub prompt_tokens: u64,
    /// Sequence hashes of the prompt's whole blocks, of the partition's block size; empty when its
    /// tokens aren't known.
    pub chain: Arc<[u64]>,
    /// By what its blocks are booked, where that isn't the chain that caches are asked by: whoever routes
    /// elsewhere may name prefixes in a way of his own. None is the chain.
    pub booked_chain: Option<Arc<[u64]>>,
    /// Positions, in blocks, of what a cache that all workers share holds of the prompt: sorted
    /// half-open ranges.
    pub shared_hits: Arc<[Range<u32>]>,
    /// Whether tokens were counted rather than estimated from the text's length.
    pub prompt_tokens_exact: bool,
    /// The conversation, when the client named one.
    pub session: Option<Session>,
    /// What made the client send this; none when nothing tells. Known without a session too.
    pub trigger: Option<InputTrigger>,
    /// Which workers may have it.
    pub constraints: Constraints,
    /// The worker that its session is softly bound to.
    pub affinity_target: Option<WorkerTarget>,
    /// The client's own guess of the output length, in tokens.
    pub expected_output_tokens: Option<u32>,
    /// Seconds that it may jump ahead of its arrival; finite, never negative.
    pub priority_jump: f64,
    /// Higher goes first, whatever the arrival.
    pub strict_priority: u32,
    /// Its own softmax temperature over costs; finite, never negative.
    pub router_temperature: Option<f64>,
    /// Whether its prefill tokens are booked on the worker; none takes the router's setting.
    pub track_prefill_tokens: Option<bool>,
    /// Whether its blocks count once on a worker with those of others that begin alike; none takes the
    /// router's setting.
    pub assume_kv_reuse: Option<bool>,
    /// On which terms it waits.
    pub admission: SchedulingTerms,
}

impl RouteRequest {
    /// A request with nothing but a place and a length.
    #[must_use]
    pub fn new(
        request_id: impl Into<Arc<str>>,
        partition: PartitionKey,
        prompt_tokens: u64,
    ) -> Self {
        Self {
            request_id: request_id.into(),
            partition,
            prompt_tokens,
            chain: Arc::default(),
            booked_chain: None,
            shared_hits: Arc::default(),
            prompt_tokens_exact: false,
            session: None,
            trigger: None,
            constraints: Constraints::default(),
            affinity_target: None,
            expected_output_tokens: None,
            priority_jump: 0.0,
            strict_priority: 0,
            router_temperature: None,
            track_prefill_tokens: None,
            assume_kv_reuse: None,
            admission: SchedulingTerms::default(),
        }
    }
}
