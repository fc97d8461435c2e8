//! Prefill apart from decode: what workers speak to hand a prompt over, and when that isn't worth it.
//!
//! Owns the rule of conditional disaggregation: a request whose decode worker has most of its prompt,
//! or whose prefill worker has too much to do, is computed where it is decoded. Lengths and loads come
//! in, a verdict comes out. It doesn't know who sends what to whom.

use serde::{Deserialize, Serialize};

/// How a prefill worker hands a prompt's blocks to a decode worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// One after the other: the answer to the prefill says where the blocks are, as vLLM's NIXL
    /// connector does it.
    #[default]
    Vllm,
    /// Both at once: they meet by a number, as SGLang does it.
    Sglang,
}

impl Protocol {
    /// The word for it in YAML, metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }
}

/// Where an SGLang prefill worker is met that doesn't say: the engine's own default.
pub const DEFAULT_BOOTSTRAP_PORT: u16 = 8998;

/// How a worker takes part in serving a prompt together with another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Disaggregation {
    /// What it speaks.
    pub protocol: Protocol,
    /// The port at which an SGLang prefill worker is met; none is [`DEFAULT_BOOTSTRAP_PORT`], and
    /// has no meaning otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_port: Option<u16>,
}

impl Disaggregation {
    /// The port at which an SGLang prefill worker is met.
    #[must_use]
    pub fn met_at(&self) -> u16 {
        self.bootstrap_port.unwrap_or(DEFAULT_BOOTSTRAP_PORT)
    }
}

/// What makes a request skip the prefill worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BypassPolicy {
    /// Little of the prompt is new to the decode worker.
    #[default]
    IslBounding,
    /// The prefill worker that would have it is busy.
    PrefillLoad,
    /// Either.
    IslOrLoad,
}

/// When a request skips the prefill worker. Shown among the router's settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConditionalDisagg {
    /// Whether any does.
    #[serde(rename = "router_conditional_disagg")]
    pub enabled: bool,
    /// Which.
    #[serde(rename = "router_conditional_disagg_policy")]
    pub policy: BypassPolicy,
    /// Fewer new prompt tokens than these are few.
    #[serde(rename = "router_conditional_disagg_eff_isl_threshold")]
    pub isl_threshold: u64,
    /// If they are also a smaller share of the prompt than this; 0 to 1.
    #[serde(rename = "router_conditional_disagg_eff_isl_ratio_threshold")]
    pub isl_ratio_threshold: f64,
    /// A prefill rank is busy with more than this share of the tokens that it batches; at least 0. None
    /// leaves it unknown.
    #[serde(rename = "router_conditional_disagg_prefill_busy_threshold")]
    pub prefill_busy_threshold: Option<f64>,
    /// A decode rank is busy with more than this share of the tokens that its memory holds, and takes no
    /// prefill then; at least 0. None lets all take it.
    #[serde(rename = "router_conditional_disagg_decode_busy_threshold")]
    pub decode_busy_threshold: Option<f64>,
}

impl Default for ConditionalDisagg {
    fn default() -> Self {
        Self {
            enabled: false,
            policy: BypassPolicy::default(),
            isl_threshold: 2_048,
            isl_ratio_threshold: 0.7,
            prefill_busy_threshold: None,
            decode_busy_threshold: None,
        }
    }
}

/// What a rank carries, in tokens, beside the request that is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// What it carries.
    pub active: u64,
    /// What it can.
    pub capacity: u64,
}

impl Occupancy {
    fn exceeds(self, threshold: f64) -> bool {
        self.active as f64 > threshold * self.capacity as f64
    }
}

impl ConditionalDisagg {
    /// Whether a prompt of so many tokens, so many of them cached at its decode worker, is short enough
    /// to skip the prefill worker whatever that has to do.
    #[must_use]
    pub fn is_short(&self, prompt_tokens: u64, cached_tokens: u64) -> bool {
        let new = prompt_tokens - cached_tokens.min(prompt_tokens);
        let ratio = new as f64 / prompt_tokens.max(1) as f64;
        self.enabled
            && self.policy != BypassPolicy::PrefillLoad
            && new < self.isl_threshold
            && ratio < self.isl_ratio_threshold
    }

    /// Whether it matters what the prefill worker has to do.
    #[must_use]
    pub fn asks_prefill(&self) -> bool {
        self.enabled
            && self.policy != BypassPolicy::IslBounding
            && self.prefill_busy_threshold.is_some()
    }

    /// Whether the prefill worker has too much to do. What isn't known counts as not busy.
    #[must_use]
    pub fn prefill_is_busy(&self, load: Option<Occupancy>) -> bool {
        let known = self.prefill_busy_threshold.zip(load);
        self.asks_prefill() && known.is_some_and(|(threshold, load)| load.exceeds(threshold))
    }

    /// Whether the decode worker may have the prefill as well. What isn't known counts as busy, where
    /// there is a threshold.
    #[must_use]
    pub fn decode_allows(&self, load: Option<Occupancy>) -> bool {
        let Some(threshold) = self.decode_busy_threshold else { return true };
        load.is_some_and(|load| !load.exceeds(threshold))
    }

    /// What is out of range, as (key, message).
    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let ratio = Some(self.isl_ratio_threshold);
        let ranges = [
            ("router_conditional_disagg_eff_isl_ratio_threshold", ratio, 1.0, "0 to 1"),
            (PREFILL_BUSY, self.prefill_busy_threshold, f64::INFINITY, AT_LEAST_0),
            (DECODE_BUSY, self.decode_busy_threshold, f64::INFINITY, AT_LEAST_0),
        ];
        let mut problems = Vec::new();
        for (key, value, most, expected) in ranges {
            let bad = value.filter(|value| !(value.is_finite() && *value >= 0.0 && *value <= most));
            if let Some(bad) = bad {
                problems.push((key, format!("{bad} is out of range; expected {expected}")));
            }
        }
        if self.policy == BypassPolicy::PrefillLoad && self.prefill_busy_threshold.is_none() {
            let text = format!("\"prefill_load\" goes by a threshold; set `{PREFILL_BUSY}`");
            problems.push(("router_conditional_disagg_policy", text));
        }
        problems
    }
}

const PREFILL_BUSY: &str = "router_conditional_disagg_prefill_busy_threshold";
const DECODE_BUSY: &str = "router_conditional_disagg_decode_busy_threshold";
const AT_LEAST_0: &str = "a finite number, at least 0";

#[cfg(test)]
mod tests {
    use super::*;

    fn on(policy: BypassPolicy) -> ConditionalDisagg {
        ConditionalDisagg { enabled: true, policy, ..ConditionalDisagg::default() }
    }

    #[test]
    fn a_prompt_is_short_below_both_thresholds_and_not_at_either() {
        let rule = on(BypassPolicy::IslBounding);
        for (prompt, cached, short) in [
            (10_000, 8_000, true),
            // 2,048 new tokens are too many, 2,047 aren't.
            (10_000, 7_952, false),
            (10_000, 7_953, true),
            // Exactly seven tenths are too many.
            (1_000, 300, false),
            (1_000, 301, true),
            (100, 0, false),
            (100, 100, true),
            // More cached than there is.
            (100, 4_000, true),
            // No prompt has nothing new.
            (0, 0, true),
        ] {
            assert_eq!(rule.is_short(prompt, cached), short, "{cached} of {prompt}");
        }
        assert!(on(BypassPolicy::IslOrLoad).is_short(1_000, 900));
        assert!(!on(BypassPolicy::PrefillLoad).is_short(1_000, 900));
        assert!(!ConditionalDisagg::default().is_short(1_000, 1_000), "it is off");
    }

    #[test]
    fn a_prefill_worker_is_busy_above_its_threshold_and_not_when_nobody_knows() {
        let busy = |policy, load| {
            let rule = ConditionalDisagg { prefill_busy_threshold: Some(0.5), ..on(policy) };
            rule.prefill_is_busy(load)
        };
        let load = |active| Some(Occupancy { active, capacity: 8_192 });
        for policy in [BypassPolicy::PrefillLoad, BypassPolicy::IslOrLoad] {
            assert!(!busy(policy, load(4_096)), "exactly half");
            assert!(busy(policy, load(4_097)));
            assert!(!busy(policy, None));
        }
        assert!(!busy(BypassPolicy::IslBounding, load(9_000)));
        assert!(!on(BypassPolicy::IslOrLoad).prefill_is_busy(load(9_000)), "no threshold");
    }

    #[test]
    fn a_decode_worker_that_nobody_knows_the_load_of_takes_no_prefill_where_that_matters() {
        let rule = on(BypassPolicy::IslBounding);
        assert!(rule.decode_allows(None));
        let rule = ConditionalDisagg { decode_busy_threshold: Some(0.9), ..rule };
        assert!(!rule.decode_allows(None));
        assert!(rule.decode_allows(Some(Occupancy { active: 900, capacity: 1_000 })));
        assert!(!rule.decode_allows(Some(Occupancy { active: 901, capacity: 1_000 })));
    }

    #[test]
    fn what_would_never_hold_is_a_mistake() {
        let keys = |rule: ConditionalDisagg| -> Vec<_> {
            rule.problems().into_iter().map(|(key, _)| key).collect()
        };
        assert!(keys(on(BypassPolicy::IslOrLoad)).is_empty());
        assert_eq!(keys(on(BypassPolicy::PrefillLoad)), ["router_conditional_disagg_policy"]);
        let bad = ConditionalDisagg {
            isl_ratio_threshold: 1.1,
            prefill_busy_threshold: Some(f64::NAN),
            decode_busy_threshold: Some(-0.1),
            ..on(BypassPolicy::PrefillLoad)
        };
        let ratio = "router_conditional_disagg_eff_isl_ratio_threshold";
        assert_eq!(keys(bad), [ratio, PREFILL_BUSY, DECODE_BUSY]);
    }
}
