//! Costs a worker the blocks of the prompt that it would have to compute, and its requests.
//!
//! It only scores: the host picks the lowest cost, or whatever the YAML puts beside it.

use pointsman_sdk::prelude::*;

export_policy! {
    /// Warm caches first, but no crowd.
    pub policy PolicyName(settings: Settings) {
        scorers: [Work { blocks_per_request: settings.blocks_per_request }],
        properties: [stateless],
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What a request under way weighs, in blocks.
    #[serde(default = "blocks_per_request")]
    pub blocks_per_request: f64,
}

fn blocks_per_request() -> f64 {
    8.0
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        pointsman_sdk::parameters::not_negative("blocks_per_request", self.blocks_per_request)
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

#[cfg(test)]
mod tests {
    use pointsman_sdk::testing::{self, Trial};

    use super::*;

    #[test]
    fn a_warm_worker_wins_until_it_is_crowded() -> Result {
        let mut trial = Trial::of::<PolicyName>("{}")?;
        let mut chosen = |requests| -> Result<_> {
            let warm = testing::worker(1).with(Input::DeviceOverlapBlocks, 20.0);
            let fleet = [warm.with(Input::ActiveRequests, requests), testing::worker(2)];
            Ok(trial.decide(&testing::request(), &fleet)?.row)
        };
        // 20 blocks are worth two requests of eight, and not three.
        assert_eq!(chosen(2.0)?, Some(0));
        assert_eq!(chosen(3.0)?, Some(1));
        Ok(())
    }
}
