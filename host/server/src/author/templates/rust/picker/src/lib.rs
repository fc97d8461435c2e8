//! Picks the worker that holds most of the prompt, among those with hardly more requests than the fewest.
//!
//! It only picks: filters and scorers can stand beside it in the YAML, and `costs` is what those say.

use pointsman_sdk::prelude::*;

export_policy! {
    /// The warmest of the idle.
    pub policy PolicyName(settings: Settings) {
        picker: WarmestOfTheIdle { more_requests: settings.more_requests },
        properties: [stateless],
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// How many requests more than the fewest a worker may have to be picked for its cache.
    #[serde(default = "more_requests")]
    pub more_requests: f64,
}

fn more_requests() -> f64 {
    4.0
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        pointsman_sdk::parameters::not_negative("more_requests", self.more_requests)
    }
}

/// The most of the prompt in device memory; among equals the fewest requests, and then the first row.
struct WarmestOfTheIdle {
    more_requests: f64,
}

impl WorkerPicker for WarmestOfTheIdle {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests, Input::DeviceOverlapBlocks]
    }

    fn pick(&mut self, _: &Context<'_>, rows: &Candidates<'_>, _: &[f64]) -> Result<usize> {
        let fewest = rows.iter().map(|row| row.active_requests()).fold(f64::INFINITY, f64::min);
        let idle = rows.iter().filter(|row| row.active_requests() <= fewest + self.more_requests);
        let best = idle.min_by(|one, other| {
            let warmer = other.device_overlap_blocks().total_cmp(&one.device_overlap_blocks());
            warmer.then(one.active_requests().total_cmp(&other.active_requests()))
        });
        best.map(|row| row.index()).ok_or_else(|| "there is no row to pick".into())
    }
}

#[cfg(test)]
mod tests {
    use pointsman_sdk::testing::{self, Trial};

    use super::*;

    #[test]
    fn the_warmest_wins_unless_it_is_busier_than_it_may_be() -> Result {
        let mut trial = Trial::of::<PolicyName>(r#"{"more_requests": 2}"#)?;
        let mut chosen = |requests| -> Result<_> {
            let warm = testing::worker(1).with(Input::DeviceOverlapBlocks, 20.0);
            let fleet = [warm.with(Input::ActiveRequests, requests), testing::worker(2)];
            Ok(trial.decide(&testing::request(), &fleet)?.row)
        };
        assert_eq!(chosen(2.0)?, Some(0));
        assert_eq!(chosen(3.0)?, Some(1));
        Ok(())
    }
}
