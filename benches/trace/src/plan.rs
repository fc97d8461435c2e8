//! Which runs there are, and what each shows.
//!
//! Owns the setups: policies beside one another, a sweep of the default policy's parameters, late
//! events, predictions and caches that are only guessed.

use pointsman_core::policy::RouterSettings;
use pointsman_core::policy::settings::ApproximateCachePolicy;
use serde::Serialize;
use serde_json::{Map, json};

use crate::replay::Setup;

/// A setup with what is to be said of it.
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    pub name: String,
    #[serde(skip)]
    pub setup: Setup,
}

impl Planned {
    /// The same with another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        let setup = Setup { seed, ..self.setup.clone() };
        Self { setup, ..self.clone() }
    }

    /// How many times its default a parameter is, of those that are something by default.
    #[must_use]
    pub fn reach(&self) -> f64 {
        let times =
            |s: &Swept| self.setup.parameters.get(s.key)?.as_f64().map(|v| v / default_of(s.key));
        SWEPT.iter().filter_map(times).filter(|times| times.is_finite()).fold(1.0, f64::max)
    }
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

/// A parameter of the default policy and its values in the sweep.
struct Swept {
    key: &'static str,
    short: &'static str,
    values: &'static [f64],
}

/// What the default policy's cost is made of where there is one tier and no taints: what is 1 by
/// default from nothing or half to four times that, what is 0 by default off and on.
const SWEPT: [Swept; 5] = [
    Swept { key: "overlap_score_credit", short: "credit", values: &[0.0, 0.5, 1.0, 2.0, 4.0] },
    Swept { key: "prefill_load_scale", short: "scale", values: &[0.5, 1.0, 2.0, 4.0] },
    Swept { key: "overlap_score_credit_decay", short: "decay", values: &[0.0, 1.0] },
    Swept { key: "decode_active_request_weight", short: "requests", values: &[0.0, 4.0] },
    Swept { key: "router_temperature", short: "temperature", values: &[0.0, 0.3] },
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

    /// The default policy as it comes.
    #[must_use]
    pub fn as_it_comes(self) -> Planned {
        self.plan("as it comes", "default")
    }

    /// The default policy with parameters of its own.
    fn default_with(self, name: String, parameters: &[(&str, f64)]) -> Planned {
        let mut planned = self.plan(name, "default");
        let values = parameters.iter().map(|&(key, value)| (key.to_owned(), json!(value)));
        planned.setup.parameters = values.collect();
        planned
    }

    /// The default policy with one parameter at a time over its range.
    #[must_use]
    pub fn alone(self) -> Vec<Planned> {
        let each = |swept: &Swept| {
            let &Swept { key, values, .. } = swept;
            let others = values.iter().filter(move |&&value| value != default_of(key));
            others.map(move |&value| self.default_with(format!("{key} {value}"), &[(key, value)]))
        };
        SWEPT.iter().flat_map(each).collect()
    }

    /// The default policy with all its parameters over their ranges.
    #[must_use]
    pub fn sweep(self) -> Vec<Planned> {
        let mut points: Vec<Vec<(&str, f64)>> = vec![vec![]];
        for Swept { key, values, .. } in &SWEPT {
            let with = |point: &Vec<_>, &value: &f64| [&point[..], &[(*key, value)]].concat();
            let all = |point| values.iter().map(move |value| with(point, value));
            points = points.iter().flat_map(all).collect();
        }
        let named = |point: Vec<(&str, f64)>| {
            let parts = SWEPT.iter().zip(&point).map(|(s, (_, v))| format!("{} {v}", s.short));
            self.default_with(parts.collect::<Vec<_>>().join(", "), &point)
        };
        points.into_iter().map(named).collect()
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

/// What a parameter is if nobody says so.
fn default_of(key: &str) -> f64 {
    let settings = RouterSettings::default();
    match key {
        "overlap_score_credit" => settings.overlap_score_credit,
        "prefill_load_scale" => settings.prefill_load_scale,
        "overlap_score_credit_decay" => settings.overlap_score_credit_decay,
        "decode_active_request_weight" => settings.decode_active_request_weight,
        _ => settings.router_temperature,
    }
}
