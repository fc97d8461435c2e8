//! The metrics of policies on their way in: how shadows compare, how canaries do, and what is
//! recorded of decisions.

use pointsman_core::partition::Partition;
use pointsman_core::rollout::CanaryState;

use super::families::labels;
use super::page::{Metric, Page};
use crate::recorder::{Recorder, RecordingCounts};

const SHADOW_DECISIONS: Metric = Metric::counter(
    "pointsman_shadow_decisions_total",
    "Decisions that a shadow was to be shown, by what came of it",
);
const SHADOW_CACHED_TOKENS: Metric = Metric::counter(
    "pointsman_shadow_cached_tokens_total",
    "Prompt tokens predicted to be cached where a shadow would have sent them, and not where they went (gained), and the other way round (lost)",
);
const SHADOW_IMBALANCE: Metric = Metric::gauge(
    "pointsman_shadow_imbalance",
    "Tokens to be computed on the busiest rank by the mean of all, of lately: as decided, and as a shadow would have it",
);
const CANARY_STATE: Metric =
    Metric::gauge("pointsman_canary_state", "1 for whether a canary decides");
const CANARY_DECISIONS: Metric = Metric::counter(
    "pointsman_canary_decisions_total",
    "Decisions that a canary was asked for, by how that went",
);
const CANARY_SLOW: Metric = Metric::counter(
    "pointsman_canary_slow_decisions_total",
    "Decisions of a canary that took longer than they may",
);

const RECORDED: Metric = Metric::counter(
    "pointsman_recorded_decisions_total",
    "Decisions that were to be recorded: kept, dropped as too many were waiting, or not written to the file",
);

const RECORDED_ENTRIES: Metric = Metric::counter(
    "pointsman_recorded_classifier_calls_total",
    "Calls of request classifiers that were to be recorded: kept, dropped as too many were waiting (or one before was), or not written to the file",
);

/// What is recorded.
pub(super) fn recording(page: &mut Page, recorder: &Recorder) {
    outcomes(page, &RECORDED, recorder.counts());
    if recorder.keeps_logs() {
        outcomes(page, &RECORDED_ENTRIES, recorder.entry_counts());
    }
}

fn outcomes(page: &mut Page, metric: &Metric, counts: RecordingCounts) {
    let RecordingCounts { recorded, dropped, unwritten } = counts;
    for (outcome, count) in [("recorded", recorded), ("dropped", dropped), ("unwritten", unwritten)]
    {
        page.put(metric, &[], &[("outcome", outcome)], count);
    }
}

/// One partition's.
pub(super) fn partition(page: &mut Page, partition: &Partition) {
    let here = labels(partition.key());
    for shadow in partition.shadows() {
        let of = ("shadow", &*shadow.instance);
        let differed = shadow.decisions.saturating_sub(shadow.agreed + shadow.failed);
        for (outcome, count) in [
            ("agreed", shadow.agreed),
            ("differed", differed),
            ("failed", shadow.failed),
            ("over_budget", shadow.over_budget),
            ("dropped", shadow.dropped),
        ] {
            page.put(&SHADOW_DECISIONS, &here, &[("outcome", outcome), of], count);
        }
        for (change, count) in
            [("gained", shadow.cached_tokens_gained), ("lost", shadow.cached_tokens_lost)]
        {
            page.put(&SHADOW_CACHED_TOKENS, &here, &[("change", change), of], count);
        }
        let of_both = [("decisions", shadow.imbalance_of_decisions), ("shadow", shadow.imbalance)];
        for (whose, imbalance) in of_both {
            if let Some(imbalance) = imbalance {
                page.put(&SHADOW_IMBALANCE, &here, &[of, ("whose", whose)], imbalance);
            }
        }
    }
    let Some(canary) = partition.canary() else { return };
    let of = ("canary", &*canary.instance);
    // Every word is there, at zero at least, so that an alert on it can be written.
    for state in CanaryState::ALL {
        let is = u8::from(state == canary.state);
        page.put(&CANARY_STATE, &here, &[of, ("state", state.as_str())], is);
    }
    let good = canary.decisions.saturating_sub(canary.failures);
    for (outcome, count) in [("good", good), ("failed", canary.failures)] {
        page.put(&CANARY_DECISIONS, &here, &[of, ("outcome", outcome)], count);
    }
    page.put(&CANARY_SLOW, &here, &[of], canary.slow);
}
