//! What the cost function weighs by: the parameters, and where they are left out, the router's
//! settings.

use pointsman_sdk::prelude::*;

/// The YAML's `parameters`. Each one is a router setting too, which holds where it is left out.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "named and explained in Weights")]
pub struct Settings {
    pub overlap_score_credit: Option<f64>,
    pub overlap_score_credit_decay: Option<f64>,
    pub prefill_load_scale: Option<f64>,
    pub decode_active_request_weight: Option<f64>,
    pub host_cache_hit_weight: Option<f64>,
    pub disk_cache_hit_weight: Option<f64>,
    pub shared_cache_multiplier: Option<f64>,
    pub router_temperature: Option<f64>,
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");
}

/// All weights, in range.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// Weight of a block that is cached on the device; may exceed 1.
    pub overlap_score_credit: f64,
    /// How fast that credit fades with the worker's prefill load above the lightest; 0 is not.
    pub overlap_score_credit_decay: f64,
    /// Weight of prefill load beside decode load.
    pub prefill_load_scale: f64,
    /// Cost of each active request, in blocks.
    pub decode_active_request_weight: f64,
    /// Weight of a block in host memory; 0 to 1.
    pub host_cache_hit_weight: f64,
    /// Weight of a block on disk or in an external store; 0 to 1.
    pub disk_cache_hit_weight: f64,
    /// Weight of a block in a shared cache beyond the device; 0 to 1.
    pub shared_cache_multiplier: f64,
    /// Softmax temperature over costs; 0 picks the lowest.
    pub router_temperature: f64,
}

impl Default for Weights {
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
        }
    }
}

impl Settings {
    /// The router's settings with these in their place.
    ///
    /// # Errors
    ///
    /// For the first value that is out of range, naming its key.
    pub fn over(&self, environment: &Environment) -> Result<Weights> {
        let mut all = Weights::default();
        let any = f64::INFINITY;
        let places = [
            ("overlap_score_credit", &mut all.overlap_score_credit, self.overlap_score_credit, any),
            (
                "overlap_score_credit_decay",
                &mut all.overlap_score_credit_decay,
                self.overlap_score_credit_decay,
                any,
            ),
            ("prefill_load_scale", &mut all.prefill_load_scale, self.prefill_load_scale, any),
            (
                "decode_active_request_weight",
                &mut all.decode_active_request_weight,
                self.decode_active_request_weight,
                any,
            ),
            (
                "host_cache_hit_weight",
                &mut all.host_cache_hit_weight,
                self.host_cache_hit_weight,
                1.0,
            ),
            (
                "disk_cache_hit_weight",
                &mut all.disk_cache_hit_weight,
                self.disk_cache_hit_weight,
                1.0,
            ),
            (
                "shared_cache_multiplier",
                &mut all.shared_cache_multiplier,
                self.shared_cache_multiplier,
                1.0,
            ),
            ("router_temperature", &mut all.router_temperature, self.router_temperature, any),
        ];
        for (key, weight, given, most) in places {
            let set = match given {
                Some(given) => Some(given),
                None => environment.router_setting(key)?,
            };
            *weight = set.unwrap_or(*weight);
            if !(weight.is_finite() && *weight >= 0.0 && *weight <= most) {
                let range = if most.is_finite() { "0 to 1" } else { "a finite number, at least 0" };
                return Err(format!("{key}: {weight} is out of range; expected {range}").into());
            }
        }
        Ok(all)
    }
}
