//! Leaves out the workers that have enough to do.
//!
//! It only filters: the host picks one of the others, or whatever the YAML puts beside it.

use pointsman_sdk::prelude::*;

export_policy! {
    /// Keeps workers that have room.
    pub policy PolicyName(settings: Settings) {
        filters: [HasRoom { most_requests: settings.most_requests }],
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
}

fn most_requests() -> f64 {
    64.0
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        pointsman_sdk::parameters::at_least("most_requests", self.most_requests, 1.0)
    }
}

/// Rejects who has as many requests as he may.
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

#[cfg(test)]
mod tests {
    use pointsman_sdk::testing::{self, Trial};

    use super::*;

    #[test]
    fn a_worker_that_has_enough_to_do_is_left_out() -> Result {
        let mut trial = Trial::of::<PolicyName>(r#"{"most_requests": 4}"#)?;
        let busy = testing::worker(1).with(Input::ActiveRequests, 4.0);
        let choice = trial.decide(&testing::request(), &[busy, testing::worker(2)])?;
        assert_eq!((choice.kept, choice.row), (vec![1], Some(1)));
        Ok(())
    }
}
