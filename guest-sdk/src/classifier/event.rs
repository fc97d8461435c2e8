//! What a classifier is told: its surroundings, requests, and what becomes of them.

use crate::request::{InputTrigger, Partition, Session, Worker, WorkerTarget};

/// What a rank can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Which.
    pub worker: Worker,
    /// Its KV blocks in all; `None` when it didn't say.
    pub total_kv_blocks: Option<u64>,
}

/// What an instance is told once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassifierEnvironment {
    /// What it serves.
    pub partition: Partition,
    /// Its `parameters` mapping, as a JSON object. The SDK has parsed it before it is built.
    pub parameters: String,
    /// The router settings, as a JSON object.
    pub router_config: String,
    /// The families and explicit classes that it may give, sorted.
    pub policy_classes: Vec<String>,
    /// The workers at the time, one per rank; changes come as [`LifecycleEvent::FleetChanged`].
    pub workers: Vec<Capacity>,
    /// A seed for this instance.
    pub seed: u64,
}

/// A request at the door.
///
/// `ClassifyRequest::default()` is an empty prompt without a session, made for tests to start from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClassifyRequest {
    /// Unique among live requests.
    pub request_id: String,
    /// The family or explicit class that it asks for, or the default one.
    pub policy_class: String,
    /// Prompt length in tokens. An estimate where the router has no tokenizer for the model.
    pub input_tokens: u64,
    /// The most tokens that this request (over all its attempts) has reached.
    pub progress_tokens: u64,
    /// The conversation; `None` when the client named none.
    pub session: Option<Session>,
    /// What made the client send it; `None` when nothing tells.
    pub trigger: Option<InputTrigger>,
    /// The worker that the client demanded.
    pub pinned_worker: Option<WorkerTarget>,
    /// The client's own guess of the output length, in tokens.
    pub expected_output_tokens: Option<u32>,
    /// How far ahead of its arrival the request may jump in the queue, in seconds; 0 is none.
    pub priority_jump: f64,
    /// Higher goes first, whatever the arrival; 0 is the usual.
    pub strict_priority: u32,
    /// When it must have been admitted, on the clock of `now_ms`; `None` is whenever.
    pub due_at_ms: Option<u64>,
    /// What it is charged in its class's queue, in tokens; never zero.
    pub scheduling_cost_tokens: u64,
    /// When it came to the door, on the clock of `now_ms`.
    pub arrived_at_ms: u64,
    /// Milliseconds on the router's own monotonic clock; its zero is the router's start.
    pub now_ms: u64,
}

/// An admitted request that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveRequest {
    /// As it came, but for what it was admitted with: its class, due time and cost are those.
    pub request: ClassifyRequest,
    /// Where it was sent last; `None` when it wasn't yet.
    pub worker: Option<Worker>,
    /// Whether its first output has come.
    pub responding: bool,
}

/// What happened, with the request's id where it is about one.
#[derive(Debug, Clone, PartialEq)]
pub enum LifecycleEvent {
    /// A request that was admitted before this instance began. Told first of all.
    Inherited(LiveRequest),
    /// The host admitted this request in the instance's place: its due time came, or the answer about
    /// it couldn't be used.
    Admitted(String),
    /// Sent to a worker; again when it is tried elsewhere.
    Sent(String, Worker),
    /// The first output arrived.
    Responding(String),
    /// Ended well, with the context's length in tokens where known. Terminal.
    Completed(String, Option<u64>),
    /// Ended otherwise, with the worker if it had one. Terminal.
    Aborted(String, Option<Worker>),
    /// The workers are now these.
    FleetChanged(Vec<Capacity>),
    /// The declared period has passed.
    Tick,
}

impl LifecycleEvent {
    /// The request that has ended, if one has.
    pub fn ended(&self) -> Option<&str> {
        match self {
            Self::Completed(id, _) | Self::Aborted(id, _) => Some(id),
            _ => None,
        }
    }
}
