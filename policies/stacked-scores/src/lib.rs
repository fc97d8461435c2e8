//! Two scorers, whose costs the router adds up: requests that are under way, and blocks of the prompt that
//! the worker would have to compute.

use pointsman_sdk::prelude::*;

export_policy! {
    /// Requests under way plus uncached blocks; the lowest sum.
    pub policy StackedScores {
        scorers: [ActiveRequests, UncachedBlocks],
        properties: [stateless, replicable],
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

struct UncachedBlocks;

impl WorkerScorer for UncachedBlocks {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::DeviceOverlapBlocks]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let blocks = Lanes::splat(cx.request.request_blocks as f64);
        rows.score_lanes([Input::DeviceOverlapBlocks], costs, |[overlap]| {
            (blocks - overlap).positive()
        });
        Ok(())
    }
}
