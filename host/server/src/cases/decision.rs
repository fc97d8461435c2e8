//! The form of a case of decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pointsman_core::ids::DecisionId;
use pointsman_core::outcome::{DecisionOutcome, Ending};
use pointsman_core::policy::Input;
use pointsman_core::request::{InputTrigger, Session};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::cell;
use super::names::{RowName, TargetName};
use super::place::CasePlace;

/// One decision, or several by one instance, in order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionCase {
    /// A sentence: what is promised.
    pub name: String,
    /// The policy's parameters; the file's unless set.
    pub parameters: Option<Map<String, Value>>,
    /// Router settings that policies see.
    #[serde(default)]
    pub router: Map<String, Value>,
    /// What the policy serves.
    #[serde(default)]
    pub partition: CasePlace,
    /// The policy is to refuse its configuration, in words that have these among them.
    pub refused: Option<String>,
    /// The candidates, of all steps that have none of their own.
    #[serde(default)]
    pub fleet: Vec<CaseRow>,
    /// The request, of all steps that have none of their own.
    #[serde(default)]
    pub request: Question,
    /// What is expected of the only decision. With `steps`, each has its own.
    pub expect: Option<Expected>,
    /// Several decisions; they share the policy's state.
    #[serde(default)]
    pub steps: Vec<DecisionStep>,
}

/// One of several decisions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionStep {
    /// Another fleet for this and the following steps.
    pub fleet: Option<Vec<CaseRow>>,
    /// The request; the case's unless set.
    pub request: Option<Question>,
    /// A new instance takes over before the decision, with the state of the one before if both can.
    #[serde(default)]
    pub reload: bool,
    /// What became of decisions, told before this one is made.
    #[serde(default)]
    pub outcomes: Vec<CaseOutcomeEvent>,
    /// What is expected.
    pub expect: Expected,
}

/// What became of a decision: it `failed` for a reason, was `completed` with so many tokens, or `cancelled`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseOutcomeEvent {
    /// The worker that was chosen.
    pub worker: RowName,
    /// When, in milliseconds on the router's clock.
    #[serde(default)]
    pub at_ms: u64,
    /// Why it failed, in the contract's words.
    pub failed: Option<Arc<str>>,
    /// How many tokens it had.
    pub completed: Option<u64>,
    /// That the client went away.
    #[serde(default)]
    pub cancelled: bool,
}

impl CaseOutcomeEvent {
    pub(super) fn told(&self) -> DecisionOutcome {
        let ending = match (&self.failed, self.completed) {
            (Some(reason), _) => Ending::failed(reason),
            (None, Some(output_tokens)) => Ending::Completed { output_tokens },
            (None, None) => Ending::Cancelled,
        };
        DecisionOutcome {
            decision_id: DecisionId(0),
            worker: self.worker.0,
            at_ms: self.at_ms,
            event: ending.into(),
        }
    }
}

/// A candidate. Columns have the contract's names; what is left out is 0, and 1 for the taints' multiplier.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(missing_docs, reason = "columns are explained in wit/README.md")]
pub struct CaseRow {
    /// Its id.
    pub worker: u64,
    /// Its data-parallel rank; 0 unless set.
    #[serde(default)]
    pub rank: u32,
    /// What the worker is marked with. Of several ranks, the first one's counts, as below.
    #[serde(default)]
    pub taints: BTreeSet<String>,
    /// Key-value marks.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// KV blocks of the rank.
    #[serde(rename = "total_kv_blocks")]
    pub total_kv_blocks: Option<u64>,
    #[serde(default, deserialize_with = "cell::count")]
    pub device_overlap_blocks: Option<f64>,
    #[serde(default, deserialize_with = "cell::count")]
    pub host_overlap_blocks: Option<f64>,
    #[serde(default, deserialize_with = "cell::count")]
    pub disk_overlap_blocks: Option<f64>,
    #[serde(default, deserialize_with = "cell::count")]
    pub shared_beyond_device_blocks: Option<f64>,
    #[serde(default, deserialize_with = "cell::not_negative")]
    pub effective_overlap_blocks: Option<f64>,
    #[serde(default, deserialize_with = "cell::count")]
    pub cached_tokens: Option<f64>,
    #[serde(default, deserialize_with = "cell::count")]
    pub active_prefill_tokens: Option<f64>,
    #[serde(default, deserialize_with = "cell::count")]
    pub decode_cost_blocks: Option<f64>,
    #[serde(default, deserialize_with = "cell::count")]
    pub active_requests: Option<f64>,
    #[serde(default, deserialize_with = "cell::positive")]
    pub preferred_taint_multiplier: Option<f64>,
}

impl CaseRow {
    /// The value of a column.
    #[must_use]
    pub fn value(&self, input: Input) -> f64 {
        let (given, unset) = match input {
            Input::Identity => (None, 0.0),
            Input::DeviceOverlapBlocks => (self.device_overlap_blocks, 0.0),
            Input::HostOverlapBlocks => (self.host_overlap_blocks, 0.0),
            Input::DiskOverlapBlocks => (self.disk_overlap_blocks, 0.0),
            Input::SharedBeyondDeviceBlocks => (self.shared_beyond_device_blocks, 0.0),
            Input::EffectiveOverlapBlocks => (self.effective_overlap_blocks, 0.0),
            Input::CachedTokens => (self.cached_tokens, 0.0),
            Input::ActivePrefillTokens => (self.active_prefill_tokens, 0.0),
            Input::DecodeCostBlocks => (self.decode_cost_blocks, 0.0),
            Input::ActiveRequests => (self.active_requests, 0.0),
            Input::PreferredTaintMultiplier => (self.preferred_taint_multiplier, 1.0),
        };
        given.unwrap_or(unset)
    }

    /// Whether some cache tier of it matched.
    pub(super) fn has_tier_match(&self) -> bool {
        let tiers =
            [Input::DeviceOverlapBlocks, Input::HostOverlapBlocks, Input::DiskOverlapBlocks];
        tiers.iter().any(|tier| self.value(*tier) > 0.0)
    }
}

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Question {
    /// Its length; 1,024 unless set.
    pub prompt_tokens: u64,
    /// Whether its prefill tokens are booked; yes unless set.
    pub tracks_prefill_tokens: bool,
    /// Whether some worker had a match in some tier; unless set, as the fleet's columns say.
    pub has_tier_matches: Option<bool>,
    /// Chained hashes of the prompt's leading blocks.
    pub prefix_hashes: Vec<u64>,
    /// The conversation: `id`, and where they are known `parent_id`, `is_final`, `evict`.
    pub session: Option<Session>,
    /// `user_message`, `tool_result` or `other`.
    pub trigger: Option<InputTrigger>,
    /// The worker that the session is softly bound to.
    pub affinity_target: Option<TargetName>,
    /// The worker that the client demanded.
    pub pinned_worker: Option<RowName>,
    /// The client's guess of the output length, in tokens.
    pub expected_output_tokens: Option<u32>,
    /// Its own softmax temperature.
    #[serde(deserialize_with = "cell::not_negative")]
    pub router_temperature: Option<f64>,
    /// Milliseconds on the router's clock.
    pub now_ms: u64,
    /// The decision's chance.
    pub seed: u64,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            prompt_tokens: 1_024,
            tracks_prefill_tokens: true,
            has_tier_matches: None,
            prefix_hashes: Vec::new(),
            session: None,
            trigger: None,
            affinity_target: None,
            pinned_worker: None,
            expected_output_tokens: None,
            router_temperature: None,
            now_ms: 0,
            seed: 0,
        }
    }
}

/// What is expected of a decision; at least one thing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The rows that all filters kept, ascending; `[]` if none.
    pub kept: Option<Vec<RowName>>,
    /// The summed cost of each kept row, in the order of rows, to 9 digits.
    pub costs: Option<Vec<f64>>,
    /// The chosen row.
    pub pick: Option<RowName>,
    /// The rows that are chosen over 64 seeds, each at least once, ascending.
    pub picks: Option<Vec<RowName>>,
    /// The decision fails, in words that have these among them.
    pub error: Option<Arc<str>>,
}

impl DecisionCase {
    pub(super) fn check(&self) -> Result<(), String> {
        let decides = self.expect.is_some() || !self.steps.is_empty();
        match (&self.refused, decides) {
            (Some(_), true) => {
                return Err("it is refused, and decides nothing: leave out either".into());
            }
            (Some(_), false) => return Ok(()),
            (None, false) => {
                return Err("it expects nothing; give \"expect\", \"steps\" or \"refused\"".into());
            }
            (None, true) => {}
        }
        if self.expect.is_some() && !self.steps.is_empty() {
            return Err("it has \"expect\" and \"steps\"; each step has its own".into());
        }
        for told in self.steps.iter().flat_map(|step| &step.outcomes) {
            let ends = [told.failed.is_some(), told.completed.is_some(), told.cancelled];
            if ends.iter().filter(|is_so| **is_so).count() != 1 {
                return Err(
                    "an outcome ends in one way; give it failed, completed or cancelled".into()
                );
            }
        }
        let of_steps = self.steps.iter().map(|step| &step.expect);
        for expected in self.expect.iter().chain(of_steps) {
            let Expected { kept, costs, pick, picks, error } = expected;
            let says =
                [kept.is_some(), costs.is_some(), pick.is_some(), picks.is_some(), error.is_some()];
            if !says.contains(&true) {
                return Err(
                    "an \"expect\" expects nothing; give kept, costs, pick, picks or error".into(),
                );
            }
            if costs.iter().flatten().any(|cost| !cost.is_finite()) {
                return Err(
                    "a cost is never NaN or infinite; expect finite costs, or an \"error\"".into(),
                );
            }
            if error.is_some() && says.iter().filter(|says| **says).count() > 1 {
                return Err("what fails has no kept, costs or picks; leave them out".into());
            }
        }
        Ok(())
    }
}
