//! Which runs there are, and what each shows.
//!
//! Owns the setups: policies beside one another, a sweep of the default policy's parameters, late
//! events, predictions and caches that are only guessed.

use pointsman_core::policy::RouterSettings;
use pointsman_core::policy::settings::ApproximateCachePolicy;
use serde_json::{Map, json};

use crate::replay::Setup;

/// A setup with what is to be said of it.
#[derive(Clone, Debug)]
pub struct Planned {
    pub name: String,
    pub setup: Setup,
}

/// What all runs have in common.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    pub workers: u64,
    pub blocks: u32,
    pub seed: u64,
    pub speed: f64,
    pub answers: f64,
}

/// The default policy's parameters that are swept.
const PARAMETERS: [&str; 4] = [
    "overlap_score_credit",
    "prefill_load_scale",
    "overlap_score_credit_decay",
    "decode_active_request_weight",
];

impl Common {
    fn plan(self, name: impl Into<String>, policy: &str) -> Planned {
        let Self { workers, blocks, seed, speed, answers } = self;
        let setup = Setup {
            policy: policy.to_owned(),
            parameters: Map::new(),
            settings: RouterSettings::default(),
            workers,
            blocks,
            speed,
            answers,
            lag_us: Some(0),
            seed,
        };
        Planned { name: name.into(), setup }
    }

    /// Policies beside one another.
    #[must_use]
    pub fn policies(self) -> Vec<Planned> {
        let names = ["round-robin", "random", "least-loaded", "power-of-two", "default"];
        names.into_iter().map(|name| self.plan(name, name)).collect()
    }

    /// The default policy with its own parameters.
    fn default_with(self, name: impl Into<String>, parameters: &[(&str, f64)]) -> Planned {
        let mut planned = self.plan(name, "default");
        let values = parameters.iter().map(|&(key, value)| (key.to_owned(), json!(value)));
        planned.setup.parameters = values.collect();
        planned
    }

    /// The default policy as it comes.
    #[must_use]
    pub fn as_it_comes(self) -> Vec<Planned> {
        vec![self.default_with("as it comes", &[])]
    }

    /// The default policy with one parameter at a time over its range.
    #[must_use]
    pub fn alone(self) -> Vec<Planned> {
        let ranges: [&[f64]; 4] = [
            &[0.0, 0.5, 1.5, 2.0, 3.0, 4.0],
            &[0.25, 0.5, 2.0, 3.0, 4.0],
            &[0.5, 2.0],
            &[2.0, 8.0],
        ];
        let each = |(key, range): (&'static str, &[f64])| {
            let one = |&value: &f64| self.default_with(format!("{key} {value}"), &[(key, value)]);
            range.iter().map(one).collect::<Vec<_>>()
        };
        PARAMETERS.into_iter().zip(ranges).flat_map(each).collect()
    }

    /// The default policy with all its parameters over their ranges.
    #[must_use]
    pub fn sweep(self) -> Vec<Planned> {
        let mut plans = Vec::new();
        for credit in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0] {
            for scale in [0.25, 0.5, 1.0, 2.0, 4.0] {
                for decay in [0.0, 0.5, 2.0] {
                    for requests in [0.0, 2.0, 8.0] {
                        let name = format!(
                            "credit {credit}, scale {scale}, decay {decay}, requests {requests}"
                        );
                        let values = [credit, scale, decay, requests];
                        let parameters: Vec<_> = PARAMETERS.into_iter().zip(values).collect();
                        plans.push(self.default_with(name, &parameters));
                    }
                }
            }
        }
        plans
    }

    /// The default policy as events come late, with predictions, and with nothing but guesses.
    #[must_use]
    pub fn knowledge(self) -> Vec<Planned> {
        let mut plans = Vec::new();
        for lag_ms in [0, 100, 1_000] {
            for predicted in [None, Some(5.0)] {
                let ahead = if predicted.is_some() { ", predicted on route" } else { "" };
                let name = format!("events {lag_ms} ms late{ahead}");
                let mut planned = self.plan(name, "default");
                planned.setup.lag_us = Some(lag_ms * 1_000);
                planned.setup.settings.router_predicted_ttl_secs = predicted;
                plans.push(planned);
            }
        }
        let guesses = [
            ("no events, 120 s", ApproximateCachePolicy::Ttl, 120.0),
            ("no events, 900 s", ApproximateCachePolicy::Ttl, 900.0),
            ("no events, LRU", ApproximateCachePolicy::Lru, 120.0),
        ];
        for (name, policy, seconds) in guesses {
            let mut planned = self.plan(name, "default");
            planned.setup.lag_us = None;
            let settings = &mut planned.setup.settings;
            settings.use_kv_events = false;
            settings.router_approximate_cache_policy = policy;
            settings.router_ttl_secs = seconds;
            plans.push(planned);
        }
        plans
    }
}
