//! The metrics of policies on their way in: how shadows compare, and how canaries do.

use pointsman_core::partition::Partition;
use pointsman_core::rollout::CanaryState;
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

use super::families::{PARTITION, labels};

/// One scrape's worth.
#[derive(Debug)]
pub(super) struct RolloutFamilies {
    registry: Registry,
    shadow_decisions: IntCounterVec,
    shadow_cached_tokens: IntCounterVec,
    shadow_imbalance: GaugeVec,
    canary_state: IntGaugeVec,
    canary_decisions: IntCounterVec,
    canary_slow: IntCounterVec,
}

impl RolloutFamilies {
    pub(super) fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let labels = [&PARTITION[..], labels].concat();
            let counter = IntCounterVec::new(Opts::new(name, help), &labels)?;
            registry.register(Box::new(counter.clone()))?;
            prometheus::Result::Ok(counter)
        };
        let state = [&PARTITION[..], &["canary", "state"]].concat();
        let opts = Opts::new("pointsman_canary_state", "1 for whether a canary decides");
        let canary_state = IntGaugeVec::new(opts, &state)?;
        registry.register(Box::new(canary_state.clone()))?;
        let whose = [&PARTITION[..], &["shadow", "whose"]].concat();
        let opts = Opts::new(
            "pointsman_shadow_imbalance",
            "Tokens to be computed on the busiest rank by the mean of all, of lately: as decided, and as a shadow would have it",
        );
        let shadow_imbalance = GaugeVec::new(opts, &whose)?;
        registry.register(Box::new(shadow_imbalance.clone()))?;
        Ok(Self {
            shadow_decisions: counter(
                "pointsman_shadow_decisions_total",
                "Decisions that a shadow was to be shown, by what came of it",
                &["shadow", "outcome"],
            )?,
            shadow_cached_tokens: counter(
                "pointsman_shadow_cached_tokens_total",
                "Prompt tokens predicted to be cached where a shadow would have sent them, and not where they went (gained), and the other way round (lost)",
                &["shadow", "change"],
            )?,
            shadow_imbalance,
            canary_state,
            canary_decisions: counter(
                "pointsman_canary_decisions_total",
                "Decisions that a canary was asked for, by how that went",
                &["canary", "outcome"],
            )?,
            canary_slow: counter(
                "pointsman_canary_slow_decisions_total",
                "Decisions of a canary that took longer than they may",
                &["canary"],
            )?,
            registry,
        })
    }

    pub(super) fn partition(&self, partition: &Partition) {
        let [model, group, role] = labels(partition.key());
        for shadow in partition.shadows() {
            let and = |word| [model, group, role, &*shadow.instance, word];
            let differed = shadow.decisions.saturating_sub(shadow.agreed + shadow.failed);
            for (outcome, count) in [
                ("agreed", shadow.agreed),
                ("differed", differed),
                ("failed", shadow.failed),
                ("over_budget", shadow.over_budget),
                ("dropped", shadow.dropped),
            ] {
                self.shadow_decisions.with_label_values(&and(outcome)).inc_by(count);
            }
            for (change, count) in
                [("gained", shadow.cached_tokens_gained), ("lost", shadow.cached_tokens_lost)]
            {
                self.shadow_cached_tokens.with_label_values(&and(change)).inc_by(count);
            }
            let of = [("decisions", shadow.imbalance_of_decisions), ("shadow", shadow.imbalance)];
            for (whose, imbalance) in of {
                if let Some(imbalance) = imbalance {
                    self.shadow_imbalance.with_label_values(&and(whose)).set(imbalance);
                }
            }
        }
        let Some(canary) = partition.canary() else { return };
        let and = |word| [model, group, role, &*canary.instance, word];
        // Every word is there, at zero at least, so that an alert on it can be written.
        for state in CanaryState::ALL {
            let gauge = self.canary_state.with_label_values(&and(state.as_str()));
            gauge.set(i64::from(state == canary.state));
        }
        let good = canary.decisions.saturating_sub(canary.failures);
        for (outcome, count) in [("good", good), ("failed", canary.failures)] {
            self.canary_decisions.with_label_values(&and(outcome)).inc_by(count);
        }
        let here = [model, group, role, &*canary.instance];
        self.canary_slow.with_label_values(&here).inc_by(canary.slow);
    }

    pub(super) fn encode(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}
