//! Warm caches first, but no crowd: a filter, a scorer and a picker.
//!
//! Leave out what you don't need: without a filter all rows are kept, without a picker the host picks the
//! lowest cost.

use pointsman_sdk::prelude::*;

export_policy! {
    /// Warm caches first, but no crowd.
    pub policy PolicyName(settings: Settings) {
        filters: [HasRoom { most_requests: settings.most_requests }],
        scorers: [Work { blocks_per_request: settings.blocks_per_request }],
        picker: LowestCost,
        properties: [stateless],
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// From so many requests on a worker gets no more.
    #[serde(default = "most_requests")]
    pub most_requests: f64,
    /// What a request under way weighs, in blocks.
    #[serde(default = "blocks_per_request")]
    pub blocks_per_request: f64,
}

fn most_requests() -> f64 {
    64.0
}

fn blocks_per_request() -> f64 {
    8.0
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        pointsman_sdk::parameters::all([
            pointsman_sdk::parameters::at_least("most_requests", self.most_requests, 1.0),
            pointsman_sdk::parameters::not_negative("blocks_per_request", self.blocks_per_request),
        ])
    }
}

/// Takes out who has enough to do.
struct HasRoom {
    most_requests: f64,
}

impl WorkerFilter for HasRoom {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests]
    }

    fn keep(&mut self, _: &Context<'_>, row: Row<'_>) -> Result<bool> {
        Ok(row.active_requests() < self.most_requests)
    }
}

/// What is left to compute, and what is under way, in blocks. Lower is better.
struct Work {
    blocks_per_request: f64,
}

impl WorkerScorer for Work {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests, Input::DeviceOverlapBlocks]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let blocks = cx.request.request_blocks as f64;
        rows.score(costs, |row| {
            blocks - row.device_overlap_blocks() + self.blocks_per_request * row.active_requests()
        });
        Ok(())
    }
}

/// The lowest cost; among equals each with the same chance.
struct LowestCost;

impl WorkerPicker for LowestCost {
    fn pick(&mut self, cx: &Context<'_>, _: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        Ok(pick::lowest(costs, &mut cx.random()))
    }
}

#[cfg(test)]
mod tests {
    use pointsman_sdk::testing::{self, Trial};

    use super::*;

    #[test]
    fn a_warm_worker_wins_until_it_is_crowded() -> Result {
        let mut trial = Trial::of::<PolicyName>(r#"{"most_requests": 4}"#)?;
        let fleet = |requests| {
            let warm = testing::worker(1).with(Input::DeviceOverlapBlocks, 20.0);
            [warm.with(Input::ActiveRequests, requests), testing::worker(2)]
        };
        // 20 blocks are worth two requests of eight, and not three.
        assert_eq!(trial.decide(&testing::request(), &fleet(2.0))?.row, Some(0));
        assert_eq!(trial.decide(&testing::request(), &fleet(3.0))?.row, Some(1));
        // The filter takes it out.
        assert_eq!(trial.decide(&testing::request(), &fleet(4.0))?.kept, [1]);
        Ok(())
    }
}
