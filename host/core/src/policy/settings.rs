//! The router's own settings: what the default policy weighs by, and what is booked.
//!
//! Names, defaults and ranges are those that users of linked policies know. A policy gets them as
//! its defaults.

use serde::{Deserialize, Serialize};

use crate::eligibility::BusyThresholds;

/// What ends a prediction where an engine tells nothing of its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApproximateCachePolicy {
    /// Time.
    #[default]
    Ttl,
    /// The rank's memory, of as many blocks as its worker registered with; time where it didn't say.
    Lru,
}

/// What cache all workers share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedCacheType {
    /// None.
    #[default]
    None,
    /// SGLang's HiCache store.
    Hicache,
}

impl SharedCacheType {
    /// What `shared_cache_multiplier` is where it isn't set.
    #[must_use]
    pub fn default_multiplier(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Hicache => 0.5,
        }
    }
}

/// The settings, complete: what was left out is filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// What cache all workers share. Set it by [`RouterSettings::share`].
    pub shared_cache_type: SharedCacheType,
    /// Weight of a block in a shared cache beyond the device; 0 to 1.
    pub shared_cache_multiplier: f64,
    /// Softmax temperature over costs; 0 picks the lowest.
    pub router_temperature: f64,
    /// Whether engines' cache events are believed; else only predictions are.
    pub use_kv_events: bool,
    /// Seconds that a prediction lasts where an engine tells nothing of its cache; above 0.
    pub router_ttl_secs: f64,
    /// What ends a prediction where an engine tells nothing of its cache.
    pub router_approximate_cache_policy: ApproximateCachePolicy,
    /// Seconds that a prompt counts as cached where it was sent, ahead of the engine's events;
    /// above 0. None waits for the events.
    pub router_predicted_ttl_secs: Option<f64>,
    /// Whether KV blocks of active requests are booked.
    pub router_track_active_blocks: bool,
    /// Whether prompt tokens are booked until the first token.
    pub router_track_prefill_tokens: bool,
    /// Beyond what a rank is busy.
    #[serde(flatten)]
    pub busy: BusyThresholds,
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
            shared_cache_type: SharedCacheType::None,
            shared_cache_multiplier: SharedCacheType::None.default_multiplier(),
            router_temperature: 0.0,
            use_kv_events: true,
            router_ttl_secs: 120.0,
            router_approximate_cache_policy: ApproximateCachePolicy::Ttl,
            router_predicted_ttl_secs: None,
            router_track_active_blocks: true,
            router_track_prefill_tokens: true,
            busy: BusyThresholds::default(),
        }
    }
}

impl RouterSettings {
    /// Sets what cache is shared, and what a block in it weighs: as given, else as is usual for it.
    pub fn share(&mut self, shared_cache_type: SharedCacheType, multiplier: Option<f64>) {
        self.shared_cache_type = shared_cache_type;
        self.shared_cache_multiplier =
            multiplier.unwrap_or_else(|| shared_cache_type.default_multiplier());
    }

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
        let bad = bad.map(|(key, value, most)| {
            let range = if most.is_finite() { "0 to 1" } else { "a finite number, at least 0" };
            (key, format!("{value} is out of range; expected {range}"))
        });
        let times = [
            ("router_ttl_secs", Some(self.router_ttl_secs)),
            ("router_predicted_ttl_secs", self.router_predicted_ttl_secs),
        ];
        let times = times.into_iter().filter_map(|(key, seconds)| {
            let seconds = seconds.filter(|seconds| !(seconds.is_finite() && *seconds > 0.0))?;
            Some((key, format!("{seconds} is out of range; expected seconds, above 0")))
        });
        let mut problems: Vec<_> = bad.chain(times).chain(self.busy.problems()).collect();
        if self.use_kv_events && self.router_approximate_cache_policy == ApproximateCachePolicy::Lru
        {
            let key = "router_approximate_cache_policy";
            let text = "\"lru\" is for routers that believe no events; set `use_kv_events: false`";
            problems.push((key, text.to_owned()));
        }
        if !self.use_kv_events && self.router_predicted_ttl_secs.is_some() {
            let key = "router_predicted_ttl_secs";
            let text = "is ahead of events, and `use_kv_events` is false; leave it out";
            problems.push((key, text.to_owned()));
        }
        problems
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

    #[test]
    fn defaults_are_those_that_users_of_linked_policies_know() {
        let shown = serde_json::to_value(RouterSettings::default()).expect("it is shown");
        let expected = serde_json::json!({
            "overlap_score_credit": 1.0,
            "overlap_score_credit_decay": 0.0,
            "prefill_load_scale": 1.0,
            "decode_active_request_weight": 0.0,
            "host_cache_hit_weight": 0.75,
            "disk_cache_hit_weight": 0.25,
            "shared_cache_type": "none",
            "shared_cache_multiplier": 0.0,
            "router_temperature": 0.0,
            "use_kv_events": true,
            "router_ttl_secs": 120.0,
            "router_approximate_cache_policy": "ttl",
            "router_predicted_ttl_secs": null,
            "router_track_active_blocks": true,
            "router_track_prefill_tokens": true,
            "active_decode_blocks_threshold": null,
            "active_prefill_tokens_threshold": null,
            "active_prefill_tokens_threshold_frac": null,
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_shared_cache_weighs_half_unless_said_otherwise() {
        let mut settings = RouterSettings::default();
        for (given, multiplier) in [(None, 0.5), (Some(0.2), 0.2), (Some(0.0), 0.0)] {
            settings.share(SharedCacheType::Hicache, given);
            assert_eq!(settings.shared_cache_multiplier, multiplier);
        }
        settings.share(SharedCacheType::None, None);
        assert_eq!(settings, RouterSettings::default());
    }

    #[test]
    fn what_belongs_to_events_goes_with_them() {
        let base = RouterSettings::default;
        let lru = ApproximateCachePolicy::Lru;
        let keys = |settings: RouterSettings| -> Vec<_> {
            settings.problems().into_iter().map(|(key, _)| key).collect()
        };
        let bad = RouterSettings { router_approximate_cache_policy: lru, ..base() };
        assert_eq!(keys(bad.clone()), ["router_approximate_cache_policy"]);
        assert!(keys(RouterSettings { use_kv_events: false, ..bad }).is_empty());
        let ahead = RouterSettings { router_predicted_ttl_secs: Some(2.0), ..base() };
        assert!(keys(ahead.clone()).is_empty());
        assert_eq!(
            keys(RouterSettings { use_kv_events: false, ..ahead }),
            ["router_predicted_ttl_secs"]
        );
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let bad = RouterSettings {
                router_ttl_secs: seconds,
                router_predicted_ttl_secs: Some(seconds),
                ..base()
            };
            assert_eq!(keys(bad), ["router_ttl_secs", "router_predicted_ttl_secs"], "{seconds}");
        }
    }
}
