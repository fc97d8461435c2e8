//! What a decision is about: the request's facts, and the partition that an instance serves.
//!
//! These mirror `types.wit` field by field, as plain Rust. Their fields are public and complete for
//! good: the contract adds later facts as named inputs, never as fields.

use crate::random::Random;
use crate::{Refusal, Result};

/// A candidate row: an engine worker and one of its data-parallel ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Worker {
    /// The worker's id, as registered.
    pub id: u64,
    /// The data-parallel rank. Ranks of a worker need not start at zero.
    pub dp_rank: u32,
}

/// A worker named in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerTarget {
    /// The worker's id, as registered.
    pub id: u64,
    /// The rank; `None` means any rank of that worker, which is not the same as rank 0.
    pub dp_rank: Option<u32>,
}

impl WorkerTarget {
    /// Whether `worker` is what the target names.
    pub fn matches(&self, worker: Worker) -> bool {
        self.id == worker.id && self.dp_rank.is_none_or(|rank| rank == worker.dp_rank)
    }
}

/// What a partition's workers do for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Prefill and decode on one worker.
    Aggregated,
    /// Prefill only.
    Prefill,
    /// Decode only.
    Decode,
    /// Multimodal encoding only.
    Encode,
}

/// What one instance serves, for all of its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The model's name, as clients ask for it.
    pub model: String,
    /// The routing group; `default` unless the operator made others.
    pub routing_group: String,
    /// The role of every worker in the partition.
    pub role: Role,
    /// Tokens in one KV block; never zero. All block counts are of this size.
    pub block_size: u32,
}

/// What made the client send a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputTrigger {
    /// A person (or a program in a person's place) said something.
    UserMessage,
    /// A tool's result went back to the model.
    ToolResult,
    /// Anything else.
    Other,
}

/// The conversation that a request belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Session {
    /// The session's id, as the client gave it: at most 256 bytes.
    pub id: String,
    /// The id of the session that started this one, for subagents.
    pub parent_id: Option<String>,
    /// Whether this is the session's last request; `None` when the client didn't say.
    pub is_final: Option<bool>,
    /// Whether the session's cached blocks may be dropped; `None` when the client didn't say.
    pub evict: Option<bool>,
}

/// Facts about the request. Time and chance come from here, never from the outside.
///
/// `Request::default()` is an empty prompt without a session, made for tests to start from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// Unique within the router's life; the same in receipts, logs and
    /// [`Outcome`](crate::Outcome)s.
    pub decision_id: u64,
    /// Prompt length in tokens. An estimate where the router has no tokenizer for the model.
    pub prompt_tokens: u64,
    /// `prompt_tokens` in blocks, rounded up.
    pub request_blocks: u64,
    /// Whether this request's prefill tokens are booked on the worker that is chosen.
    pub tracks_prefill_tokens: bool,
    /// Whether any worker had a match in any cache tier for this request.
    pub has_tier_matches: bool,
    /// The conversation; `None` when the client named none.
    pub session: Option<Session>,
    /// What made the client send this; none when nothing tells. Known without a session too.
    pub trigger: Option<InputTrigger>,
    /// The worker that this session is softly bound to; it need not be among the candidates.
    pub affinity_target: Option<WorkerTarget>,
    /// The worker that the client demanded; the host has already narrowed the candidates to it.
    pub pinned_worker: Option<Worker>,
    /// The client's own guess of the output length, in tokens.
    pub expected_output_tokens: Option<u32>,
    /// How far ahead of its arrival the request may jump in the queue, in seconds; 0 is none.
    pub priority_jump: f64,
    /// Higher goes first, whatever the arrival; 0 is the usual.
    pub strict_priority: u32,
    /// The request's own softmax temperature over costs; `None` means the router's setting.
    pub router_temperature: Option<f64>,
    /// Milliseconds on the router's own monotonic clock; its zero is the router's start.
    pub now_ms: u64,
    /// Fresh for each decision, and recorded with it. [`Context::random`](crate::Context::random)
    /// starts here.
    pub seed: u64,
}

impl Request {
    /// Whether a tool's result goes back to the model, which makes the conversation's cached prefix
    /// worth most.
    pub fn is_tool_result(&self) -> bool {
        self.trigger == Some(InputTrigger::ToolResult)
    }
}

/// What an instance is told once, when it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// What the instance serves.
    pub partition: Partition,
    /// The instance's `parameters` mapping, as a JSON object. The SDK has parsed it before a policy
    /// is built.
    pub parameters: String,
    /// The router settings that a policy may want as defaults, as a JSON object.
    pub router_config: String,
    /// A seed for this instance; each decision brings its own besides.
    pub seed: u64,
}

impl Environment {
    /// The router setting `key`; `None` where the router has no such setting, or it is null.
    ///
    /// # Errors
    ///
    /// When the setting isn't of type `T`.
    pub fn router_setting<T: serde::de::DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let settings: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&self.router_config)?;
        match settings.get(key) {
            None | Some(serde_json::Value::Null) => Ok(None),
            Some(value) => T::deserialize(value)
                .map(Some)
                .map_err(|error| Refusal::new(error).at(format_args!("router setting \"{key}\""))),
        }
    }

    /// A generator for choices that last as long as the instance.
    pub fn random(&self) -> Random {
        Random::new(self.seed)
    }
}
