//! Sends a request to the worker with the fewest active requests among those that hold enough of
//! its prompt; a tool's result goes to the worker that holds most.

use pointsman_sdk::prelude::*;

export_policy! {
    /// Fewest active requests; cache-local on a tool result.
    pub policy LeastBusy(settings: Settings) {
        filters: [DeviceOverlap { least_blocks: settings.min_device_overlap_blocks }],
        scorers: [ActiveRequests],
        picker: CacheLocalOnToolResult,
        properties: [stateless, replicable],
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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

struct ActiveRequests;

impl WorkerScorer for ActiveRequests {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests]
    }

    fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        rows.score(costs, |row| row.active_requests());
        Ok(())
    }
}

/// The lowest cost, the first among equals; on a tool result the most device overlap, the last
/// among equals.
struct CacheLocalOnToolResult;

impl WorkerPicker for CacheLocalOnToolResult {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::DeviceOverlapBlocks]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        Ok(if cx.request.is_tool_result() {
            pick::last_highest(rows.column(Input::DeviceOverlapBlocks))
        } else {
            pick::first_lowest(costs)
        })
    }
}

#[cfg(test)]
mod tests;
