//! The record of a decision: what was decided, by what, from what, at which cost.
//!
//! Holds no prompt text. Everything that a decision depended on is here or named here.

use std::sync::Arc;

use serde::Serialize;
use smallvec::SmallVec;

use crate::cache::RowOverlap;
use crate::eligibility::Exclusions;
use crate::fleet::Epoch;
use crate::ids::{DecisionId, PartitionKey, WorkerRank, as_decimal};
use crate::policy::catalog::Digest;
use crate::policy::failure::{Cause, StageFailure, StageKind};

/// What one stage cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageTrace {
    /// The stage's name; for a fused call the instance's.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: StageKind,
    /// Units of fuel; none for native stages.
    pub fuel: Option<u64>,
    /// Microseconds; none for native stages.
    pub micros: Option<f64>,
    /// Why it failed; the decision went on without it, or without its policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Cause>,
    /// The same in words, for the operator; none if it didn't fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Arc<str>>,
    /// Whether it rejected every row, and was left out for that.
    #[serde(skip_serializing_if = "is_false")]
    pub bypassed: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Which policy decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyLabel {
    /// The instance's name.
    pub name: Arc<str>,
    /// Its type; the first one's, if it has stages of several.
    #[serde(rename = "type")]
    pub policy_type: Arc<str>,
    /// The component's identity; none for a native policy.
    pub digest: Option<Digest>,
}

/// One row of a decision, as it was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowReport {
    /// Which.
    #[serde(flatten)]
    pub worker: WorkerRank,
    /// Whether the filters kept it.
    pub kept: bool,
    /// Its cost; none for a row that was not kept.
    pub cost: Option<f64>,
    /// What it holds of the prompt.
    pub overlap: RowOverlap,
}

/// The record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Receipt {
    /// The decision.
    pub decision_id: DecisionId,
    /// The request.
    pub request_id: Arc<str>,
    /// Where it was made.
    pub partition: PartitionKey,
    /// The policy that chose; the built-in default's when the configured one failed.
    pub policy: PolicyLabel,
    /// Why the configured policy did not choose.
    pub fallback: Option<StageFailure>,
    /// The chosen row.
    #[serde(flatten)]
    pub worker: WorkerRank,
    /// The life of its worker.
    pub epoch: Epoch,
    /// Its cost; 0 when nothing scored.
    pub cost: f64,
    /// Prompt length in tokens.
    pub prompt_tokens: u64,
    /// Whether that was counted rather than estimated.
    pub prompt_tokens_exact: bool,
    /// The same in blocks of its partition's size, rounded up.
    pub request_blocks: u64,
    /// Active KV blocks of the chosen row with this request's: those that the row had active already
    /// counted once. 0 where blocks aren't counted (`hosted`).
    pub potential_decode_blocks: u64,
    /// What the chosen row held of the prompt, as far as was known.
    pub overlap: RowOverlap,
    /// Prompt tokens that the engine was expected not to compute: whole blocks, never the last
    /// token.
    pub predicted_cached_tokens: u64,
    /// Prompt tokens in the blocks that the chosen row holds in any tier, none weighted, the last token
    /// included.
    pub selected_raw_cached_tokens: u64,
    /// The same of the row that holds most, among those that the filters left: more than was selected is
    /// what other reasons were worth. None where the policy didn't look at what rows hold, so that
    /// only the chosen one was looked at.
    pub max_raw_cached_tokens: Option<u64>,
    /// Whether it was made without the partition's lock. Then nobody looked at what caches hold, and
    /// nothing of the prompt is booked or predicted.
    #[serde(skip_serializing_if = "is_false")]
    pub hosted: bool,
    /// Rows that the host's rules allowed.
    pub eligible: u32,
    /// Rows that the filters left.
    pub kept: u32,
    /// Rows that the host's rules left out.
    pub excluded: Exclusions,
    /// What each stage cost.
    pub stages: SmallVec<[StageTrace; 4]>,
    /// Microseconds for the whole decision, all host work included.
    pub micros: f64,
    /// Milliseconds on the router's clock.
    pub now_ms: u64,
    /// The seed; in JSON its decimal digits in a text, since it takes all 64 bits.
    #[serde(serialize_with = "as_decimal")]
    pub seed: u64,
    /// The fleet's generation.
    pub fleet_generation: u64,
    /// Every eligible row; only for decisions that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<RowReport>>,
}

impl Receipt {
    /// The fuel of all stages; none if no stage was metered.
    #[must_use]
    pub fn fuel(&self) -> Option<u64> {
        self.stages.iter().filter_map(|stage| stage.fuel).reduce(u64::saturating_add)
    }
}
