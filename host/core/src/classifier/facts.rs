//! What a classifier is told of requests and workers, and what it answers.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fleet::Snapshot;
use crate::ids::{WorkerRank, WorkerTarget};
use crate::policy::StageError;
use crate::recording::exact;
use crate::request::{InputTrigger, Session};

/// What one rank can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// Which.
    #[serde(flatten)]
    pub worker: WorkerRank,
    /// Its KV blocks in all; none when it didn't say.
    pub total_kv_blocks: Option<u64>,
}

/// What each rank of a fleet can hold, in the order of rows.
#[must_use]
pub fn capacities(fleet: &Snapshot) -> Arc<[Capacity]> {
    let of = |(row, &worker): (usize, &WorkerRank)| Capacity {
        worker,
        total_kv_blocks: fleet.worker(row).and_then(|worker| worker.spec.total_kv_blocks),
    };
    fleet.rows.iter().enumerate().map(of).collect()
}

/// The facts of a request at the door. Nothing here is text of the prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrival {
    /// Unique among the partition's live requests.
    pub request_id: Arc<str>,
    /// The family or explicit class that it asks for, or the default one.
    pub policy_class: Arc<str>,
    /// Prompt length in tokens.
    pub input_tokens: u64,
    /// The conversation; none when the client named none.
    pub session: Option<Session>,
    /// What made the client send it; none when nothing tells.
    pub trigger: Option<InputTrigger>,
    /// The worker that the client demanded.
    pub pinned_worker: Option<WorkerTarget>,
    /// The client's own guess of the output length, in tokens.
    pub expected_output_tokens: Option<u32>,
    /// Seconds that it may jump ahead of its arrival; finite, never negative.
    #[serde(deserialize_with = "exact::one")]
    pub priority_jump: f64,
    /// Higher goes first, whatever the arrival.
    pub strict_priority: u32,
    /// When it must have been admitted, in milliseconds on the router's clock; none is whenever.
    pub due_at_ms: Option<u64>,
    /// What it is charged in its class's queue, in tokens.
    pub scheduling_cost_tokens: NonZeroU64,
}

impl Arrival {
    /// A request of so many tokens, charged for them, of which nothing else is known.
    #[must_use]
    pub fn new(request_id: Arc<str>, policy_class: Arc<str>, input_tokens: u64) -> Self {
        Self {
            request_id,
            policy_class,
            input_tokens,
            session: None,
            trigger: None,
            pinned_worker: None,
            expected_output_tokens: None,
            priority_jump: 0.0,
            strict_priority: 0,
            due_at_ms: None,
            scheduling_cost_tokens: NonZeroU64::new(input_tokens).unwrap_or(NonZeroU64::MIN),
        }
    }

    /// What it goes on with if nobody changes anything.
    #[must_use]
    pub fn unchanged(&self) -> Admitted {
        Admitted {
            policy_class: self.policy_class.clone(),
            due_at_ms: self.due_at_ms,
            scheduling_cost_tokens: self.scheduling_cost_tokens,
            selection_target: None,
        }
    }
}

/// A request as a classifier sees it.
#[derive(Clone, Copy, Debug)]
pub struct ClassifyRequest<'a> {
    /// Its facts.
    pub arrival: &'a Arrival,
    /// The most tokens that the request has reached, over all its attempts.
    pub progress_tokens: u64,
    /// When it came to the door, in milliseconds on the router's clock.
    pub arrived_at_ms: u64,
    /// Now, on the same clock.
    pub now_ms: u64,
}

/// What an admitted request goes on with. None leaves things as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Admission {
    /// Another family or explicit class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_class: Option<Arc<str>>,
    /// Another due time, in milliseconds on the router's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at_ms: Option<u64>,
    /// Another charge in tokens; 0 is none, and refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_cost_tokens: Option<u64>,
    /// The worker that it should go to; nothing to a request that is pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection_target: Option<WorkerTarget>,
}

impl Admission {
    /// That it is one, where these classes may be given.
    pub fn check(&self, policy_classes: &[Arc<str>]) -> Result<(), StageError> {
        if let Some(class) = &self.policy_class
            && !policy_classes.contains(class)
        {
            let class: String = class.chars().take(64).collect();
            let known = policy_classes.join(", ");
            let text = format!("gave the unknown class {class:?}; known: {known}");
            return Err(StageError::bad_output(text));
        }
        match self.scheduling_cost_tokens {
            Some(0) => Err(StageError::bad_output("gave a scheduling cost of 0 tokens")),
            _ => Ok(()),
        }
    }
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It goes to the queue.
    Admit(Admission),
    /// It waits.
    Hold,
    /// It is refused; the text is for the operator.
    Reject(String),
}

/// A held request's new verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Which.
    pub request_id: Arc<str>,
    /// What; [`Verdict::Hold`] leaves it where it is.
    pub verdict: Verdict,
}

/// An admitted request that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct LiveRequest<'a> {
    /// As it was when it came.
    pub request: ClassifyRequest<'a>,
    /// What it went on with.
    pub admitted: &'a Admitted,
    /// Where it was sent last; none when it wasn't yet.
    pub worker: Option<WorkerRank>,
    /// Whether its first output has come.
    pub responding: bool,
}

/// What happened. Each request that a classifier knows of gets exactly one terminal event.
#[derive(Clone, Copy, Debug)]
pub enum LifecycleEvent<'a> {
    /// A request that another instance, or nobody, admitted before this instance began.
    Inherited(LiveRequest<'a>),
    /// The host admitted a request in the classifier's place: its due time came, or the classifier's
    /// answer about it couldn't be used.
    Admitted(&'a str),
    /// It was sent to a worker; again when it is tried elsewhere.
    Sent(&'a str, WorkerRank),
    /// The first output arrived.
    Responding(&'a str),
    /// It ended well, with the context's length in tokens where known. Terminal.
    Completed(&'a str, Option<u64>),
    /// It ended otherwise, with the worker if it had one. Terminal.
    Aborted(&'a str, Option<WorkerRank>),
    /// The workers are now these.
    FleetChanged(&'a [Capacity]),
    /// The declared period has passed.
    Tick,
}

/// What a request goes on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    /// Its class.
    pub policy_class: Arc<str>,
    /// When it must have been given a worker, in milliseconds on the router's clock.
    pub due_at_ms: Option<u64>,
    /// What it is charged in its class's queue, in tokens.
    pub scheduling_cost_tokens: NonZeroU64,
    /// The worker that it should go to; none where the classifier named none, or the request is
    /// pinned.
    pub selection_target: Option<WorkerTarget>,
}
