//! Two tiers: the worker that holds most of the prompt while loads are balanced, the one with the fewest
//! requests while they aren't.

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;

export_policy! {
    /// The longest prefix while loads are balanced; else the fewest requests.
    pub policy TwoTierCost(settings: Settings) {
        picker: TwoTier { settings, rows: Vec::new(), requests: Vec::new() },
        properties: [stateless, replicable],
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The share of the prompt that a worker must hold more of, to be gone to for it; 0 to 1.
    pub cache_threshold: f64,
    /// Requests by which the busiest worker may be ahead of the idlest.
    pub balance_abs_threshold: f64,
    /// Times as many requests as the idlest has that the busiest may have; 1 or more.
    pub balance_rel_threshold: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cache_threshold: 0.5, balance_abs_threshold: 32.0, balance_rel_threshold: 1.1 }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        parameters::all([
            parameters::within("cache_threshold", self.cache_threshold, 0.0, 1.0),
            parameters::not_negative("balance_abs_threshold", self.balance_abs_threshold),
            parameters::at_least("balance_rel_threshold", self.balance_rel_threshold, 1.0),
        ])
    }
}

struct TwoTier {
    settings: Settings,
    // Buffers: the rows that hold most of the prompt, and their requests.
    rows: Vec<usize>,
    requests: Vec<f64>,
}

impl WorkerPicker for TwoTier {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests, Input::DeviceOverlapBlocks]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, _: &[f64]) -> Result<usize> {
        let requests = rows.column(Input::ActiveRequests);
        let overlaps = rows.column(Input::DeviceOverlapBlocks);
        let most = overlaps.iter().copied().fold(0.0, f64::max);
        let blocks = cx.request.request_blocks as f64;
        let share = if blocks == 0.0 { 0.0 } else { most / blocks };
        let mut random = cx.random();
        if self.are_unbalanced(requests) || share <= self.settings.cache_threshold {
            return Ok(pick::lowest(requests, &mut random));
        }
        self.rows.clear();
        self.requests.clear();
        for (row, (&overlap, &requests)) in overlaps.iter().zip(requests).enumerate() {
            if overlap == most {
                self.rows.push(row);
                self.requests.push(requests);
            }
        }
        let at = pick::lowest(&self.requests, &mut random);
        Ok(self.rows.get(at).copied().unwrap_or(0))
    }
}

impl TwoTier {
    /// Whether the busiest row is too far ahead of the idlest, by both measures.
    fn are_unbalanced(&self, requests: &[f64]) -> bool {
        let most = requests.iter().copied().fold(0.0, f64::max);
        let least = requests.iter().copied().fold(f64::INFINITY, f64::min);
        most - least > self.settings.balance_abs_threshold
            && most > self.settings.balance_rel_threshold * least
    }
}
