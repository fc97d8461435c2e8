//! A policy class: when its requests wait, in which order, and how many may.
//!
//! Owns what one class says of itself. Which request belongs to which class is the profile's, and
//! who waits in it the queue's.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::eligibility::UNKNOWN_BATCHED_TOKENS;

/// What counts among requests of a class that are equal in strict priority and due time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePolicy {
    /// The earlier one first; a priority jump counts as seconds earlier.
    #[default]
    Fcfs,
    /// The later one first; a priority jump counts as seconds later. Only router-wide: in one class
    /// beside others it would starve whoever came first.
    Lcfs,
    /// The one with less to compute first, the priority jump being its weight.
    Wspt,
}

/// Of what too much waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Requests of the class.
    Requests,
    /// Their prompts' tokens.
    RawIslTokens,
    /// Those of them that some worker has cached.
    CachedTokens,
    /// Requests of all classes: [`super::MOST_WAITING`].
    Partition,
}

impl LimitKind {
    /// All, in the order in which they are looked at.
    pub const ALL: [Self; 4] =
        [Self::Requests, Self::RawIslTokens, Self::CachedTokens, Self::Partition];

    /// The word for it in metrics and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::RawIslTokens => "raw_isl_tokens",
            Self::CachedTokens => "cached_tokens",
            Self::Partition => "partition",
        }
    }

    /// What is counted, in words.
    fn counted(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::RawIslTokens => "prompt tokens",
            Self::CachedTokens => "cached prompt tokens",
            Self::Partition => "requests of all classes",
        }
    }

    /// The key that raises it.
    fn key(self) -> Option<&'static str> {
        match self {
            Self::Requests => Some("request_queue_limit_per_worker"),
            Self::RawIslTokens => Some("raw_isl_token_queue_limit_per_worker"),
            Self::CachedTokens => Some("cached_token_queue_limit_per_worker"),
            Self::Partition => None,
        }
    }
}

/// A request would have to wait, and as much waits as may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRejected {
    /// Its class.
    pub policy_class: Arc<str>,
    /// Of what too much waits.
    pub limit_kind: LimitKind,
    /// How much waits.
    pub current: u64,
    /// From how much on none is taken.
    pub limit: u64,
}

impl fmt::Display for QueueRejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy_class, limit_kind, current, limit } = self;
        let counted = limit_kind.counted();
        write!(f, "class {policy_class:?} has {current} {counted} waiting, and {limit} may wait")?;
        f.write_str("; try again later")?;
        match limit_kind.key() {
            Some(key) => write!(f, ", or raise `{key}`"),
            None => f.write_str(", or add workers"),
        }
    }
}

/// A class as its owner wants it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassSpec {
    /// Its name; no other class of the profile has it.
    pub name: Arc<str>,
    /// The family that it serves. None is an explicit class, which is asked for by its own name.
    pub policy_family: Option<Arc<str>>,
    /// The uncached prompt lengths that it serves in the family; none where there is one bucket.
    pub cache_bucket: Option<Arc<str>>,
    /// The order of its requests.
    pub queue_policy: QueuePolicy,
    /// Its share beside other classes, in prompt tokens a round; at least 1.
    pub quantum: u64,
    /// A rank with more prompt tokens to compute is busy.
    pub prefill_busy_threshold: Option<u64>,
    /// The same as a fraction of what the rank batches in one step: finite, at least 0.
    pub prefill_busy_threshold_frac: Option<f64>,
    /// The part of the eligible ranks that have to be busy for a request to wait, above 0 and at
    /// most 1; none is all. A worker of several ranks counts once for each: load is of ranks.
    pub busy_worker_ratio: Option<f64>,
    /// Requests that may wait, for each worker; none is any number, 0 lets none wait.
    pub request_queue_limit_per_worker: Option<u64>,
    /// Prompt tokens that may wait, for each worker.
    pub raw_isl_token_queue_limit_per_worker: Option<u64>,
    /// Cached prompt tokens that may wait, for each worker.
    pub cached_token_queue_limit_per_worker: Option<u64>,
}

impl ClassSpec {
    /// An explicit class whose requests never wait.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            policy_family: None,
            cache_bucket: None,
            queue_policy: QueuePolicy::default(),
            quantum: 1,
            prefill_busy_threshold: None,
            prefill_busy_threshold_frac: None,
            busy_worker_ratio: None,
            request_queue_limit_per_worker: None,
            raw_isl_token_queue_limit_per_worker: None,
            cached_token_queue_limit_per_worker: None,
        }
    }

    /// Whether its requests may have to wait.
    #[must_use]
    pub fn queues(&self) -> bool {
        self.prefill_busy_threshold.is_some() || self.prefill_busy_threshold_frac.is_some()
    }

    /// Whether a rank is busy, which computes so many prompt tokens and batches so many in a step.
    #[must_use]
    pub fn finds_busy(&self, active_prefill_tokens: f64, batched_tokens: Option<u64>) -> bool {
        let most = || batched_tokens.unwrap_or(UNKNOWN_BATCHED_TOKENS) as f64;
        self.prefill_busy_threshold.is_some_and(|most| active_prefill_tokens > most as f64)
            || self
                .prefill_busy_threshold_frac
                .is_some_and(|frac| active_prefill_tokens > frac * most())
    }

    /// Whether a request waits with so many of its eligible ranks busy. With none eligible it
    /// doesn't: there is nobody to wait for.
    #[must_use]
    pub fn waits_with(&self, busy: usize, eligible: usize) -> bool {
        eligible > 0
            && match self.busy_worker_ratio {
                None => busy == eligible,
                Some(ratio) => busy as f64 >= ratio * eligible as f64,
            }
    }

    /// Each limit, where it is set, with what it is of.
    pub(super) fn limits(&self) -> [(LimitKind, Option<u64>); 3] {
        [
            (LimitKind::Requests, self.request_queue_limit_per_worker),
            (LimitKind::RawIslTokens, self.raw_isl_token_queue_limit_per_worker),
            (LimitKind::CachedTokens, self.cached_token_queue_limit_per_worker),
        ]
    }
}
