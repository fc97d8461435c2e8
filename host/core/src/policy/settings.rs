//! The router's own settings: what the default policy weighs by, and what is booked.
//!
//! Names, defaults and ranges are those that users of linked policies know. A policy gets them as
//! its defaults.

use serde::{Deserialize, Serialize};

/// The settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouterSettings {
    /// Weight of a block that is cached on the device; at least 0, may exceed 1.
    pub overlap_score_credit: f64,
    /// How fast that credit fades with the worker's prefill load above the lightest; 0 is not.
    pub overlap_score_credit_decay: f64,
    /// Weight of prefill load beside decode load; at least 0.
    pub prefill_load_scale: f64,
    /// Cost of each active request, in blocks; at least 0.
    pub decode_active_request_weight: f64,
    /// Weight of a block in host memory; 0 to 1.
    pub host_cache_hit_weight: f64,
    /// Weight of a block on disk or in an external store; 0 to 1.
    pub disk_cache_hit_weight: f64,
    /// Weight of a block in a shared cache beyond the device; 0 to 1.
    pub shared_cache_multiplier: f64,
    /// Softmax temperature over costs; 0 picks the lowest.
    pub router_temperature: f64,
    /// Whether KV blocks of active requests are booked.
    pub router_track_active_blocks: bool,
    /// Whether prompt tokens are booked until the first token.
    pub router_track_prefill_tokens: bool,
}

impl Default for RouterSettings {
    fn default() -> Self {
        Self {
            overlap_score_credit: 1.0,
            overlap_score_credit_decay: 0.0,
            prefill_load_scale: 1.0,
            decode_active_request_weight: 0.0,
            host_cache_hit_weight: 0.75,
            disk_cache_hit_weight: 0.25,
            shared_cache_multiplier: 0.0,
            router_temperature: 0.0,
            router_track_active_blocks: true,
            router_track_prefill_tokens: true,
        }
    }
}

impl RouterSettings {
    /// What is out of range, as (key, message). Empty when all is well.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let unbounded = f64::INFINITY;
        let ranges = [
            ("overlap_score_credit", self.overlap_score_credit, unbounded),
            ("overlap_score_credit_decay", self.overlap_score_credit_decay, unbounded),
            ("prefill_load_scale", self.prefill_load_scale, unbounded),
            ("decode_active_request_weight", self.decode_active_request_weight, unbounded),
            ("host_cache_hit_weight", self.host_cache_hit_weight, 1.0),
            ("disk_cache_hit_weight", self.disk_cache_hit_weight, 1.0),
            ("shared_cache_multiplier", self.shared_cache_multiplier, 1.0),
            ("router_temperature", self.router_temperature, unbounded),
        ];
        let bad = ranges
            .into_iter()
            .filter(|(_, value, most)| !(value.is_finite() && *value >= 0.0 && value <= most));
        bad.map(|(key, value, most)| {
            let range = if most.is_finite() { "0 to 1" } else { "a finite number, at least 0" };
            (key, format!("{value} is out of range; expected {range}"))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range_and_every_bad_value_is_named() {
        assert!(RouterSettings::default().problems().is_empty());
        let bad = RouterSettings {
            host_cache_hit_weight: 1.5,
            router_temperature: f64::NAN,
            prefill_load_scale: -1.0,
            ..RouterSettings::default()
        };
        let keys: Vec<_> = bad.problems().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["prefill_load_scale", "host_cache_hit_weight", "router_temperature"]);
    }
}
