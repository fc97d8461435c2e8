//! Every policy of `policies/`: its native build, parameters to try it with, and its component by name.
//!
//! A further policy is one more line of the table; `tests/build.rs` builds what is in the folder.

use std::sync::Arc;

use pointsman_core::classifier::ClassifierProvider;
use pointsman_core::policy::PolicyProvider;

use crate::linked::{linked, linked_classifier};

/// One crate of `policies/`.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The folder's name, which is the component's type.
    pub name: &'static str,
    /// The native build.
    pub native: Native,
    /// Parameters, as JSON, that it is worth trying with.
    pub parameters: &'static [&'static str],
}

/// What a crate has.
#[derive(Clone, Copy, Debug)]
pub enum Native {
    /// A policy.
    Policy(fn() -> Arc<dyn PolicyProvider>),
    /// A request classifier.
    Classifier(fn() -> Arc<dyn ClassifierProvider>),
}

macro_rules! policy {
    ($name:literal, $type:ty, $parameters:expr) => {
        Entry {
            name: $name,
            native: Native::Policy(|| linked::<$type>(concat!($name, "-native"))),
            parameters: &$parameters,
        }
    };
}

macro_rules! classifier {
    ($name:literal, $type:ty, $parameters:expr) => {
        Entry {
            name: $name,
            native: Native::Classifier(|| linked_classifier::<$type>(concat!($name, "-native"))),
            parameters: &$parameters,
        }
    };
}

/// The table, by name.
pub const LIBRARY: &[Entry] = &[
    policy!(
        "avoid-failing",
        avoid_failing::AvoidFailing,
        [r#"{"requests_per_failure": 4, "half_life_seconds": 10}"#]
    ),
    policy!(
        "baseline-ttft",
        baseline_ttft::BaselineTtft,
        ["{}", r#"{"max_ttft_penalty_ms": 300, "queue_threshold_tokens": 20000}"#]
    ),
    policy!(
        "bounded-load-hash",
        bounded_load_hash::BoundedLoadHash,
        ["{}", r#"{"prefix_tokens": 16, "load_factor": 1}"#]
    ),
    policy!("default-cost", default_cost::DefaultCost, ["{}", r#"{"router_temperature": 0.5}"#]),
    policy!(
        "disagg-roles",
        disagg_roles::DisaggRoles,
        [r#"{"min_device_overlap_blocks": 0}"#, r#"{"min_device_overlap_blocks": 3}"#]
    ),
    policy!(
        "dual-map",
        dual_map::DualMap,
        [
            "{}",
            r#"{"hash_prefix_blocks": 1, "window_requests": 10, "pending_prefill_token_budget": 20000}"#
        ]
    ),
    policy!(
        "expected-work",
        expected_work::ExpectedWork,
        ["{}", r#"{"ema_alpha": 0.5, "work_scale": 0.5, "share_exponent": 2}"#]
    ),
    policy!(
        "least-busy",
        least_busy::LeastBusy,
        [r#"{"min_device_overlap_blocks": 0}"#, r#"{"min_device_overlap_blocks": 3}"#]
    ),
    policy!("least-prefill", least_prefill::LeastPrefill, ["{}"]),
    policy!(
        "lmetric",
        lmetric::LMetric,
        ["{}", r#"{"window_requests": 20, "class_prefix_blocks": 2}"#]
    ),
    classifier!(
        "pause-resume",
        pause_resume::PauseResume,
        [
            r#"{"buffer_per_program": 10, "resume_timeout_seconds": 60}"#,
            r#"{"max_tracked_requests": 12, "acting_token_weight": 0.3, "pause_threshold": 0.7, "pause_target": 0.5}"#
        ]
    ),
    policy!(
        "ramjet",
        ramjet::Ramjet,
        ["{}", r#"{"basis": "absolute"}"#, r#"{"basis": "marginal", "alpha": 0.3}"#]
    ),
    classifier!(
        "session-admission",
        session_admission::SessionAdmission,
        [r#"{"most_in_flight": 3}"#, r#"{"most_in_flight": 8, "most_held": 4}"#]
    ),
    policy!(
        "soft-affinity-load-guard",
        soft_affinity_load_guard::SoftAffinityLoadGuard,
        ["{}", r#"{"max_active_requests": 0, "move_margin": 100}"#]
    ),
    policy!(
        "soft-pin-repin",
        soft_pin_repin::SoftPinRepin,
        [r#"{"max_active_requests": 0}"#, r#"{"max_active_requests": 100}"#]
    ),
    policy!("stacked-scores", stacked_scores::StackedScores, ["{}"]),
    policy!(
        "sticky-min-load",
        sticky_min_load::StickyMinLoad,
        ["{}", r#"{"max_idle_secs": 60, "eviction_interval_secs": 1}"#]
    ),
    policy!(
        "sticky-session",
        sticky_session::StickySession,
        [
            "{}",
            r#"{"mode": "bounded", "max_sessions": 5}"#,
            r#"{"tie_break": "one_draw", "seed": 3}"#
        ]
    ),
    policy!(
        "subagent-group-affinity",
        subagent_group_affinity::SubagentGroupAffinity,
        ["{}", r#"{"max_active_requests": 1, "group_idle_ttl_secs": 60}"#]
    ),
    policy!(
        "two-tier-cost",
        two_tier_cost::TwoTierCost,
        ["{}", r#"{"cache_threshold": 0.01, "balance_abs_threshold": 200}"#]
    ),
    policy!(
        "weighted-rollout",
        weighted_rollout::WeightedRollout,
        [r#"{"shares": {"canary": 20, "old": 1}, "others": 79}"#, r#"{"shares": {"fast": 1}}"#]
    ),
];
