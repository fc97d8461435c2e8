//! Sends a request where the least work is ahead of it: prefill that is booked and not done, in
//! blocks, plus the blocks that decode would hold.

use pointsman_sdk::prelude::*;

export_policy! {
    /// Least work ahead; ties at random, by the decision's seed.
    pub policy LeastPrefill(settings: Settings) {
        filters: [DeviceOverlap { least_blocks: settings.min_device_overlap_blocks }],
        scorers: [WorkAhead],
        properties: [stateless, replicable],
    }
}

/// The YAML's `parameters`: those of `least-busy`, which this policy can replace, though none is
/// required.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Blocks of the prompt that a worker must hold in device memory to be considered; 0 considers
    /// all.
    pub min_device_overlap_blocks: f64,
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        pointsman_sdk::parameters::not_negative(
            "min_device_overlap_blocks",
            self.min_device_overlap_blocks,
        )
    }
}

struct DeviceOverlap {
    least_blocks: f64,
}

impl WorkerFilter for DeviceOverlap {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::DeviceOverlapBlocks]
    }

    fn keep(&mut self, _: &Context<'_>, row: Row<'_>) -> Result<bool> {
        Ok(row.device_overlap_blocks() >= self.least_blocks)
    }
}

struct WorkAhead;

impl WorkerScorer for WorkAhead {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActivePrefillTokens, Input::DecodeCostBlocks]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let block_size = cx.block_size();
        rows.score(costs, |row| {
            row.active_prefill_tokens() / block_size + row.decode_cost_blocks()
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
