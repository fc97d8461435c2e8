//! How a stage fails: causes that stay apart everywhere, in errors, metrics and receipts.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a call to a policy gave nothing usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// It trapped, or a native one panicked.
    Trap,
    /// It used up its fuel.
    Fuel,
    /// It ran past its deadline.
    Deadline,
    /// It asked for more memory than it may have.
    Memory,
    /// Its answer isn't one: wrong length, a cost that isn't finite, a row that isn't there.
    BadOutput,
    /// It said no, in words of its own.
    Refused,
    /// It wasn't asked: its instance is being made anew after a failure, or its breaker is open.
    Unavailable,
    /// It wasn't asked: an operator has turned it off.
    Disabled,
}

impl Cause {
    /// Whether a request classifier's instance is lost by it: nobody knows what it still believes.
    #[must_use]
    pub fn ends_a_classifier(self) -> bool {
        matches!(self, Self::Trap | Self::Fuel | Self::Deadline | Self::Memory | Self::Unavailable)
    }

    /// All causes, for metrics.
    pub const ALL: [Self; 8] = [
        Self::Trap,
        Self::Fuel,
        Self::Deadline,
        Self::Memory,
        Self::BadOutput,
        Self::Refused,
        Self::Unavailable,
        Self::Disabled,
    ];

    /// The word for it in metrics, receipts and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Fuel => "fuel",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::BadOutput => "bad-output",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Disabled => "disabled",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a stage answers instead of a verdict, a cost or a row. The text is for the operator's log,
/// never for the client.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{cause}: {detail}")]
pub struct StageError {
    /// Why.
    pub cause: Cause,
    /// In words; bounded by whoever made it.
    pub detail: String,
}

impl StageError {
    /// An error with its words.
    pub fn new(cause: Cause, detail: impl Into<String>) -> Self {
        Self { cause, detail: detail.into() }
    }

    /// The policy said no.
    pub fn refused(detail: impl Into<String>) -> Self {
        Self::new(Cause::Refused, detail)
    }

    /// The answer isn't one.
    pub fn bad_output(detail: impl Into<String>) -> Self {
        Self::new(Cause::BadOutput, detail)
    }
}

/// Which kind of stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// Keeps or rejects rows.
    Filter,
    /// Gives rows a cost.
    Scorer,
    /// Picks a row.
    Picker,
    /// All of an instance's stages in one call.
    Fused,
}

impl StageKind {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Scorer => "scorer",
            Self::Picker => "picker",
            Self::Fused => "fused",
        }
    }
}

impl fmt::Display for StageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed stage, with its place.
#[derive(Clone, Debug, Error, PartialEq, Eq, Serialize)]
#[error("policy {policy:?}, {kind} {stage:?}: {cause}: {detail}")]
pub struct StageFailure {
    /// The instance's name in the YAML.
    pub policy: Arc<str>,
    /// What kind of stage.
    pub kind: StageKind,
    /// The stage's own name.
    pub stage: String,
    /// Why.
    pub cause: Cause,
    /// In words; for the operator.
    pub detail: String,
}
